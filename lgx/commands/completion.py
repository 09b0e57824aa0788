"""``lgx completion``: a script with which a shell completes commands, options and names."""

import argparse
import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser

_INSTALL = {
    "bash": (
        "lgx completion bash > ~/.local/share/bash-completion/completions/lgx",
        "or, without the package bash-completion: lgx completion bash > ~/.lgx.bash, and in ~/.bashrc: . ~/.lgx.bash",
    ),
    "zsh": (
        "lgx completion zsh > ~/.zfunc/_lgx",
        "and in ~/.zshrc, before compinit: fpath=(~/.zfunc $fpath)",
    ),
    "fish": ("lgx completion fish > ~/.config/fish/completions/lgx.fish",),
}
"""Shell -> how the script is installed."""

_ADDED = {
    "bash": """
_lgx() {  # for bash, --model=S is three words
  local -a words=()
  local word
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    [[ $word == "=" ]] || words+=("$word")
  done
  [[ ${COMP_WORDS[COMP_CWORD]} == "=" ]] && words+=("")
  local -a COMP_WORDS=("${words[@]}")
  local COMP_CWORD=$((${#words[@]} - 1))
  _shtab_lgx
}
complete -o bashdefault -F _lgx lgx
"""
}
"""Shell -> what is added to the script of shtab."""

_FIRST = {"zsh": "#compdef lgx\n"}
"""Shell -> what must be the first line of a script."""


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a script that completes commands, options, and names of methods, data and initializers.

    The script itself holds all words, so that the Tab key answers at once. Print it again after an update of lgx. Its
    first lines say where the shell looks for it: for bash
    ~/.local/share/bash-completion/completions/lgx, for zsh ~/.zfunc/_lgx, for fish ~/.config/fish/completions/lgx.fish.

    Args:
        shell: The shell.

    Raises:
        UserError: If shtab is not installed.
    """
    from lgx.core.version import __version__
    from lgx.host.extras import extra

    with extra("completion", "completion"):
        import shtab
    tree = _tree(shtab.FILE)
    script = shtab.complete(tree, shell)
    first = _FIRST.get(shell, "")
    notes = [f"Completion of lgx {__version__}. Install:", *_INSTALL[shell]]
    print(first + "".join(f"# {note}\n" for note in notes) + script.removeprefix(first), end=_ADDED.get(shell, ""))


def _tree(file: Any) -> argparse.ArgumentParser:
    """All commands with their options and values, as shtab reads them.

    Args:
        file: What marks an argument that is a path.
    """
    from data_modules.catalog import infos
    from data_modules.registry import SUITES
    from lgx.cli import COMMANDS, TRAINING
    from lgx.commands.run import parsers_of
    from lgx.training.configuration import make_parser

    names, sets = _names(), sorted({*SUITES, *(info.name for info in infos())})
    root = _parser("lgx")
    root.add_argument("-V", "--version", action="store_true", help="Print the version.")
    commands = root.add_subparsers()
    for name, text in TRAINING.items():
        command = _add_command(commands, name, text)
        command.add_argument("--help-all", action="store_true", help="Print every option.")
        _copy([make_parser(name), *_class_parsers()], command, names, file)
    for name, text in COMMANDS.items():
        command = _add_command(commands, name, text)
        found = parsers_of(name)
        inner = command.add_subparsers() if "" not in found else None
        for subcommand, parsers in found.items():
            target = command if inner is None else _add_command(inner, subcommand, parsers[0].description or "")
            if name == "plan":
                _copy([*parsers, *_class_parsers()], target, names, file)
            else:
                own = {key: words for key, words in names.items() if not key.startswith("--data")}
                _copy(parsers, target, own | ({"name": sets} if name == "data" else {}), file)
    return root


def _parser(name: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(name, allow_abbrev=False)


def _add_command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=_sentence(text), description=_sentence(text))
    return command


@cache
def _names() -> dict[str, list[str]]:
    """Option -> names that it takes."""
    import data_modules
    from data_modules import TaskDataModule
    from lgx.architectures.registry import NAMED
    from lgx.methods import registry

    modules = [
        name
        for name, value in vars(data_modules).items()
        if inspect.isclass(value) and issubclass(value, TaskDataModule) and not inspect.isabstract(value)
    ]
    by_class = {
        "--model": sorted(registry.method_classes()),
        "--data": sorted(modules),
        "--model.initializer": sorted(registry.initializer_classes()),
    }
    helps = {f"{option}.help": names for option, names in by_class.items()}
    architectures = dict.fromkeys(("names", "--arch", "--model.arch"), sorted(NAMED))
    return by_class | helps | architectures | {"--method": registry.names_with_initializer()}


@cache
def _class_parsers() -> "list[ArgumentParser]":
    """Parsers of the options of every method, data module and initializer, which follow their names in ``lgx fit``."""
    from jsonargparse import ArgumentParser
    from torch.optim import AdamW

    import data_modules
    from lgx.methods import registry

    modules = [getattr(data_modules, name) for name in _names()["--data"]]
    found = []
    for key, classes in (
        ("model", registry.method_classes().values()),
        ("data", modules),
        ("model.initializer", registry.initializer_classes().values()),
        ("model.optimizer", [AdamW]),
    ):
        for kind in classes:
            found.append(ArgumentParser(exit_on_error=False))
            found[-1].add_class_arguments(kind, key, fail_untyped=False)
    return found


def _copy(
    parsers: Iterable[argparse.ArgumentParser],
    target: argparse.ArgumentParser,
    names: Mapping[str, list[str]],
    file: Any,
) -> None:
    """Add the arguments of parsers to another one, each once."""
    known = {*target._option_string_actions}
    for action in (action for parser in parsers for action in parser._actions):
        options = [option for option in action.option_strings if option not in known]
        if action.help == argparse.SUPPRESS or (action.option_strings and not options):
            continue
        known.update(options)
        help = _sentence(action.help or "")
        if _is_flag(action):
            target.add_argument(*options, action="store_true", help=help)
            continue
        choices = next((names[key] for key in (*options, action.dest) if key in names), None) or _values(action)
        many: dict[str, Any] = {"nargs": action.nargs} if not options and action.nargs else {}
        added = target.add_argument(*(options or [action.dest]), choices=choices or None, help=help, **many)
        if not choices and _may_be_path(action):
            added.complete = file  # type: ignore[attr-defined]


def _is_flag(action: argparse.Action) -> bool:
    from jsonargparse import ActionYesNo

    return isinstance(action, ActionYesNo) or action.nargs == 0


def _values(action: argparse.Action) -> list[str]:
    """The words that an argument accepts; none where it accepts others, too."""
    if action.choices:
        return [str(choice) for choice in action.choices]
    kinds = _kinds(getattr(action, "_typehint", action.type))
    if not kinds or any(kind is not bool and not isinstance(kind, str) for kind in kinds):
        return []
    return [word for kind in kinds for word in (("true", "false") if kind is bool else (kind,))]


def _kinds(hint: Any) -> list[Any]:
    """The types of a union without None, and the values of its literals."""
    if isinstance(hint, str):
        return [hint]
    parts = get_args(hint)
    is_union = type(hint).__name__ in ("UnionType", "Union", "_UnionGenericAlias", "_LiteralGenericAlias")
    if parts and is_union:
        return [kind for part in parts for kind in _kinds(part)]
    return [] if hint in (None, type(None)) else [hint]


def _may_be_path(action: argparse.Action) -> bool:
    kinds = _kinds(getattr(action, "_typehint", action.type))
    return not kinds or any(kind not in (int, float, bool) for kind in kinds)


def _sentence(text: str) -> str:
    """The first sentence of a help text; per cent signs are argparse's own."""
    first = re.split(r"(?<!e\.g)\. (?=[A-Z`])", " ".join(text.split()))[0]
    return first.replace("``", "").rstrip(".")[:120].replace("%", "%%")
