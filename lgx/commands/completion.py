"""``lgx completion``: a script with which a shell completes commands, options and names."""

import argparse
import inspect
from collections.abc import Sequence
from typing import Any, Literal


def completion(shell: Literal["bash", "zsh"]) -> None:
    """Print a script of shtab that completes commands, options, and the names of methods, data and initializers.

    Print it again after an update of lgx. For bash: ``lgx completion bash >
    ~/.local/share/bash-completion/completions/lgx``. For zsh: ``lgx completion zsh > ~/.zfunc/_lgx``, and in
    ``~/.zshrc``, before compinit, ``fpath=(~/.zfunc $fpath)``.

    Args:
        shell: The shell.

    Raises:
        UserError: If shtab is not installed.
    """
    from lgx.cli import COMMANDS, TRAINING
    from lgx.commands.run import parsers_of
    from lgx.host.extras import extra
    from lgx.training.configuration import make_parser

    with extra("completion", "completion"):
        import shtab
    root = argparse.ArgumentParser("lgx", allow_abbrev=False)
    commands = root.add_subparsers()
    for name, text in (TRAINING | COMMANDS).items():
        command = commands.add_parser(name, help=text)
        found = {"": [make_parser(name)]} if name in TRAINING else parsers_of(name)
        inner = None if "" in found else command.add_subparsers()
        for subcommand, parsers in found.items():
            _copy(parsers, command if inner is None else inner.add_parser(subcommand))
    print(shtab.complete(root, shell))


def _copy(parsers: Sequence[argparse.ArgumentParser], target: argparse.ArgumentParser) -> None:
    """Add the options of parsers to a plain one; jsonargparse's own script of all classes takes many minutes."""
    from lgx.training.configuration import RunParser
    from lgx.training.lightning_internals import option_strings

    for parser in parsers:
        classes = _class_names() if isinstance(parser, RunParser) else {}
        for option in option_strings(parser):
            if option not in ("-h", "--help"):
                words: dict[str, Any] = {"choices": classes[option]} if option in classes else {}
                target.add_argument(option, **words)


def _class_names() -> dict[str, list[str]]:
    """Option of a training command that takes a class -> the names of the classes."""
    from lightning.pytorch.loggers import Logger

    from data_modules import TaskDataModule
    from lgx.initialization import Initializer
    from lgx.methods.base import Method
    from lgx.training.allowed_imports import known_classes

    bases = {"model": Method, "data": TaskDataModule, "model.initializer": Initializer, "trainer.logger": Logger}
    known = [kind for kind in known_classes().values() if not inspect.isabstract(kind)]
    return {
        f"--{key}": sorted({kind.__name__ for kind in known if issubclass(kind, base)}) for key, base in bases.items()
    }
