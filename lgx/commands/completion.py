"""``lgx completion``: a script with which a shell completes commands, options and names."""

import argparse
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
        classes = parser.names()["classes"] if isinstance(parser, RunParser) else {}
        for option in option_strings(parser):
            if option not in ("-h", "--help"):
                words: dict[str, Any] = {"choices": classes[option[2:]]} if option[2:] in classes else {}
                target.add_argument(option, **words)
