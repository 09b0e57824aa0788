"""Boolean options are flags: ``--json`` and ``--no-json``; ``--json true`` and ``--json=false`` are accepted too."""

from collections.abc import Iterable, Sequence

from jsonargparse import ActionYesNo, ArgumentParser

from lgx.errors import UserError

_VALUES = {"true": True, "false": False}


def add_flag(parser: ArgumentParser, name: str, default: bool = False, help: str | None = None) -> None:
    """Add a boolean option to a parser, which then knows ``--name`` and ``--no_name``.

    The parser must get its arguments through :func:`normalize`.

    Args:
        parser: The parser.
        name: Name of the option, also its key in configuration files.
        default: Value without the flag.
        help: Help text.
    """
    parser.add_argument(f"--{name}", action=ActionYesNo(no_prefix="no_"), default=default, help=help)


def normalize(argv: Sequence[str], flags: Iterable[str], names: Iterable[str] = ()) -> list[str]:
    """Write every flag as ``--name`` or ``--no_name``, and other options with underscores: ``--img_size 64``.

    The word behind a flag is its value only if it is true or false: in ``lgx compare --cost runs/a`` it is a folder.

    Args:
        argv: The command line.
        flags: Names of the flags, with underscores.
        names: Names of other options, with underscores.

    Returns:
        The command line that parsers with :func:`add_flag` read.

    Raises:
        UserError: If the value of a flag is neither true nor false.
    """
    known = {f"--{name}" for name in names}
    meaning = {f"--{prefix}{name}": (name, not prefix) for name in flags for prefix in ("", "no_")}
    words, result = list(argv), list[str]()
    while words:
        if (word := words.pop(0)) == "--":  # only positional arguments follow
            return [*result, word, *words]
        typed, equals, text = word.partition("=")
        option = typed.replace("-", "_").replace("__", "--", 1) if typed.startswith("--") else typed
        if option not in meaning:
            result.append(option + equals + text if option in known else word)
            continue
        if not equals:
            text = words.pop(0) if words and words[0].lower() in _VALUES else "true"
        if text.lower() not in _VALUES:
            raise UserError(f"{option}: must be true or false, got {text!r}; the flag alone means true")
        name, value = meaning[option]
        result.append(f"--{name}" if _VALUES[text.lower()] == value else f"--no_{name}")
    return result
