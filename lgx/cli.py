"""The ``lgx`` command: import and run the chosen command, and report its errors."""

import difflib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from lgx.core.version import __version__
from lgx.errors import Preempted, UserError
from lgx.host import launcher
from lgx.host.failures import describe
from lgx.host.signals import one_interrupt

TRAINING = {
    "fit": "train an ancestor, a learngene or a descendant",
    "validate": "evaluate a checkpoint on the validation split",
    "test": "evaluate a checkpoint, or an untrained start, on the test split",
    "predict": "write the classes of test examples, or of image files (--model)",
}
_GROUPS = {
    "start from a pretrained network": {
        "import": "convert a file of weights of a timm model into a model folder",
        "init": "initialize a descendant from a source, and write it as a model folder",
        "arch": "print parameters and MACs of architectures",
        "data": "list and prepare data sets",
        "config": "print a configuration that ships with lgx",
    },
    "use a trained network": {"export": "write the network of a run as a model folder, ONNX or torch.export"},
    "many runs": {
        "compare": "write tables and a report: methods x descendants x tasks, over seeds",
        "sweep": "execute many runs from one file, resumable, on one machine or a cluster",
        "plan": "print steps, memory, FLOPs and hours of a run before it starts",
    },
    "learngenes": {
        "extract": "extract a learngene from a selection over data sets",
        "embed": "compute task embeddings for a task-aware hypernetwork",
    },
    "this installation": {"doctor": "check the installation and this machine"},
}
COMMANDS = {name: text for commands in _GROUPS.values() for name, text in commands.items()}
_LONGEST = 2000
"""Characters of an error message that are printed."""


def _help() -> str:
    def lines(commands: dict[str, str]) -> str:
        return "\n".join(f"  {name:<12}{text}" for name, text in commands.items())

    groups = "\n\n".join(f"{title}:\n{lines(commands)}" for title, commands in _GROUPS.items())
    return f"""lgx {__version__} - give models of many sizes a good start from one learngene

usage: lgx COMMAND [options]        lgx COMMAND --help for its options

train and evaluate (configuration files with --config):
{lines(TRAINING)}

{groups}

a first run:
  make demo                                   (in a clone)
  lgx config own_images > mine.yaml           (anywhere, with images in class folders)
  lgx fit --config mine.yaml --data.root my_images --model.initializer RandomStart \\
    --model.arch depth=6,embed_dim=128,num_heads=2,patch_size=8,img_size=64
"""


def main(args: Sequence[str] | None = None, run: Callable[[Sequence[str]], object] | None = None) -> None:
    """Run a command line, and report its errors.

    Args:
        args: Arguments without the program's name; ``sys.argv`` by default.
        run: What runs it; :func:`run_command` by default.

    Raises:
        SystemExit: With exit code 2 for a user's mistake, 1 for a failure of the system, 3 if ``lgx predict`` could not
            decode some images, 130 after Ctrl-C, 143 after SIGTERM, 141 after a broken output pipe. Any
            other error keeps its traceback.
    """
    argv = list(sys.argv[1:] if args is None else args) or ["--help"]
    try:
        with one_interrupt():
            (run or run_command)(argv)
    except KeyboardInterrupt:
        _fail(argv[0], "interrupted; finished files are complete", 130)
    except Exception as error:
        message = describe(error)  # called first: the cause of a UserError may be a killed data loading process
        if isinstance(error, UserError) and message is None:
            _fail(argv[0], _user_message(error), 2)
        if isinstance(error, Preempted):
            _fail(argv[0], str(error), error.code)
        if isinstance(error, BrokenPipeError):  # the reader, for example `head`, has closed our output
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes stdout when it exits
            raise SystemExit(128 + signal.SIGPIPE) from None
        if message is None:
            raise
        _fail(argv[0], message, 1)


def run_command(argv: Sequence[str]) -> None:
    """Run a command line without its first word, ``lgx``."""
    command = argv[0]
    if command in ("-h", "--help"):
        print(_help(), flush=True)
    elif command in ("-V", "--version"):
        print(f"lgx {__version__}", flush=True)
    elif command in TRAINING and not _is_for_exported(argv):
        if {"-h", "--help"} & {*argv[1:]}:
            importlib.import_module("lgx.commands.training_help").print_help(command)
            return
        argv = ["--help" if word == "--help-all" else word for word in argv]
        importlib.import_module("lgx.training.option_names").check_options(argv[1:])
        importlib.import_module("lgx.training.cli").run(list(argv), _write_report)
    elif command in {**TRAINING, **COMMANDS}:
        importlib.import_module("lgx.commands.run").run(command, list(argv[1:]))
    else:
        close = difflib.get_close_matches(command, [*TRAINING, *COMMANDS], n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see lgx --help"
        raise UserError(f"unknown command {command!r}; {hint}")


def _write_report(*facts: Any) -> Any:
    """Write the page of a finished run, see :func:`lgx.results.run_report.write_run_report`."""
    return importlib.import_module("lgx.results.run_report").write_run_report(*facts)


def _is_for_exported(argv: Sequence[str]) -> bool:
    """Whether a command line is ``lgx predict`` for image files, which needs no Lightning."""
    return argv[0] == "predict" and bool(importlib.import_module("lgx.commands.predict").is_for_exported(argv[1:]))


def _user_message(error: UserError) -> str:
    """The message of an error; PyTorch puts the whole traceback before the message of a data loading process."""
    text = str(error).strip()
    return text.splitlines()[-1].removeprefix("lgx.errors.UserError: ") if "Original Traceback" in text else text


def _fail(command: str, message: str, code: int) -> NoReturn:
    # The message may quote a foreign file: control characters must not reach the terminal.
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message[:_LONGEST])
    rank = launcher.rank()
    process = f" (process {rank})" if rank else ""
    sys.stderr.write(f"lgx {command}{process}: {shown}\n")  # one call: lines of several processes stay whole
    sys.stderr.flush()
    raise SystemExit(code)
