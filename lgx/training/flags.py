"""Boolean options are flags: ``--json`` and ``--no-json``; ``--json true`` and ``--json=false`` are accepted too."""

from collections.abc import Iterable, Sequence

from jsonargparse import ActionYesNo, ArgumentParser

from lgx.errors import UserError

_VALUES = {"true": True, "false": False}


def add_flag(parser: ArgumentParser, name: str, default: bool = False, help: str | None = None) -> None:
    """Add a boolean option to a parser, which then knows ``--name`` and ``--no_name``.

    The parser must get its arguments through :func:`normalize_flags`.

    Args:
        parser: The parser.
        name: Name of the option, also its key in configuration files.
        default: Value without the flag.
        help: Help text.
    """
    parser.add_argument(f"--{name}", action=ActionYesNo(no_prefix="no_"), default=default, help=help)


def normalize_flags(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """Write every flag of a command line as ``--name`` or ``--no_name``.

    ``--dry-run``, ``--dry_run true`` and ``--dry_run=true`` become ``--dry_run``; ``--no-dry-run`` and
    ``--dry_run=false`` become ``--no_dry_run``. The word behind a flag is its value only if it is true or false:
    in ``lgx compare --cost runs/a`` it is a folder.

    Args:
        argv: The command line.
        names: Names of the flags, with underscores.

    Returns:
        The command line that parsers with :func:`add_flag` read.

    Raises:
        UserError: If the value of a flag is neither true nor false.
    """
    positive = {f"--{name}": name for name in names}
    negative = {f"--no_{name}": name for name in positive.values()}
    words = list(argv)
    result: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":  # only positional arguments follow
            return [*result, word, *words]
        option, equals, text = word.partition("=")
        option = option.replace("-", "_").replace("__", "--", 1)
        if option not in positive and option not in negative:
            result.append(word)
            continue
        if not equals and words and words[0].lower() in _VALUES:
            text = words.pop(0)
        elif not equals:
            text = "true"
        if text.lower() not in _VALUES:
            raise UserError(f"{option}: must be true or false, got {text!r}; the flag alone means true")
        value = _VALUES[text.lower()] == (option in positive)
        name = positive.get(option) or negative[option]
        result.append(f"--{name}" if value else f"--no_{name}")
    return result


def normalize_names(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """Write every known option of a command line with underscores: ``--img-size 64`` becomes ``--img_size 64``.

    Args:
        argv: The command line.
        names: Names of the options, with underscores.
    """
    known = {f"--{name}" for name in names}
    result: list[str] = []
    for position, word in enumerate(argv):
        if word == "--":  # only positional arguments follow
            return [*result, *argv[position:]]
        option, equals, value = word.partition("=")
        present = option.replace("-", "_").replace("__", "--", 1)
        result.append(f"{present}{equals}{value}" if option.startswith("--") and present in known else word)
    return result
