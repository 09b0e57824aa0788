"""The ``lgx`` command: a thin dispatcher that imports only what the chosen command needs."""

import difflib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence

from lgx import __version__
from lgx.errors import Preempted, UserError

TRAINING = {
    "fit": "train a method: ancestor, learngene or descendant",
    "validate": "evaluate a checkpoint on the validation split",
    "test": "evaluate a checkpoint, or an untrained start, on the test split",
    "predict": "predicted class and probability for every test image",
}
COMMANDS = {
    "init": "write a descendant that plain timm loads",
    "extract": "the learngene of a search over data sets",
    "embed": "embed tasks, for a task-aware hypernetwork",
    "export": "write a trained run's network as a timm folder",
    "compare": "table and report of methods x descendants x tasks over seeds",
    "analyze": "how a hypernetwork sees tasks; what training makes of parameters; paths of a search",
    "plan": "steps, memory, FLOPs and hours of a run, before it starts",
    "reproduce": "a table or figure of the papers, and which of its claims hold",
    "sweep": "many runs from one file, resumable, on one machine or a cluster",
    "tune": "search options of a run with optuna",
    "arch": "parameters and MACs of architectures",
    "sample": "sample an architecture set",
    "data": "list and prepare data sets",
    "bench": "what a training step costs, as ratios",
    "doctor": "what lgx finds on this machine",
}

_LOST = "another process of this run has ended: its message says why, or it was killed; see --ckpt_path last"
_KILLED = (
    "a data loading process was killed, perhaps for want of memory; try fewer data.num_workers or a smaller "
    "data.batch_size, and go on with --ckpt_path last"
)
_GPU_FULL = "the GPU's memory is full; try a smaller data.batch_size with trainer.accumulate_grad_batches"
SYSTEM_FAILURES = {
    "Connection closed by peer": _LOST,
    "Connection reset by peer": _LOST,
    "Broken pipe": _LOST,
    "CUDA out of memory": _GPU_FULL,
}
"""What a RuntimeError says when the machine, not lgx, is at fault; and what the user is told."""


def _help() -> str:
    def lines(commands: dict[str, str]) -> str:
        return "\n".join(f"  {name:<10}{text}" for name, text in commands.items())

    return f"""lgx {__version__} - give models of many sizes a good start from one learngene

usage: lgx COMMAND [options]        lgx COMMAND --help for its options

train and evaluate (configuration files with --config):
{lines(TRAINING)}

work with learngenes, descendants and results:
{lines(COMMANDS)}

a first run:
  make demo
  lgx fit --config experiments/sws/fashion_mnist/sws.yaml --model.ancestor runs/…/best.learngene.safetensors
  lgx init --source runs/…/best.learngene.safetensors --arch 6-Small --out descendant
"""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line.

    Args:
        args: Arguments without the program name; ``sys.argv`` by default.

    Raises:
        SystemExit: With 2 after a user's mistake, 130 after Ctrl-C, 143 after SIGTERM, 141 when the output is no longer
            read, 1 when the system refuses something.
    """
    argv = list(sys.argv[1:] if args is None else args) or ["--help"]
    try:
        _run(argv)
    except UserError as error:
        _fail(argv[0], _sentence(error), 2)
    except Preempted as end:
        _fail(argv[0], str(end), end.code)
    except KeyboardInterrupt:
        _fail(argv[0], "interrupted; finished files are intact, a run resumes with --ckpt_path last", 130)
    except (OSError, EOFError, RuntimeError) as error:
        if (sentence := _system_failure(error)) is not None:
            _fail(argv[0], sentence, 1)
        if not isinstance(error, BrokenPipeError):
            raise
        # Python flushes stdout once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None


def _run(argv: Sequence[str]) -> None:
    """Run a command line; the death of a data loading process comes as itself.

    PyTorch raises it wherever the signal finds the program, in code too that turns any error into one of its own.
    """
    try:
        run_command(argv)
    except Exception as error:
        seen: list[BaseException] = []
        link: BaseException | None = error
        while link is not None and link not in seen:
            if _tells_of_a_death(link):
                raise link from None
            seen.append(link)
            link = link.__cause__ or link.__context__
        raise


def run_command(argv: Sequence[str]) -> None:
    """Run a command line without its first word, ``lgx``; errors go to the caller."""
    command = argv[0]
    if command in ("-h", "--help"):
        print(_help(), flush=True)
    elif command in ("-V", "--version"):
        print(f"lgx {__version__}", flush=True)
    elif command in TRAINING:
        importlib.import_module("lgx.training.cli").run(list(argv))
    elif command in COMMANDS:
        importlib.import_module("lgx.commands.run").run(command, list(argv[1:]))
    else:
        close = difflib.get_close_matches(command, [*TRAINING, *COMMANDS], n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see lgx --help"
        raise UserError(f"{command!r} is no command; {hint}")


def _system_failure(error: Exception) -> str | None:
    """What the user is told where the machine, not lgx, is at fault; None where it is not known to be."""
    if _tells_of_a_death(error):
        return _KILLED
    if isinstance(error, BrokenPipeError):  # the reader of our output, `head` say, has seen enough
        return None
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return next((words for sign, words in SYSTEM_FAILURES.items() if sign in str(error)), None)


def _tells_of_a_death(error: BaseException) -> bool:
    """Whether a data loading process was killed.

    PyTorch says so, or Python broke off talking with another process of ours, of which only those that load data talk.
    """
    if isinstance(error, RuntimeError):
        return "DataLoader worker (pid" in str(error)
    if not isinstance(error, ConnectionError | EOFError):
        return False
    modules = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(module.startswith("multiprocessing.") for module in modules)


def _sentence(error: UserError) -> str:
    """The message; of an error in a loader process only the last line, which is the message."""
    text = str(error).strip()
    return text.splitlines()[-1].removeprefix("lgx.errors.UserError: ") if "Original Traceback" in text else text


def _fail(command: str, sentence: str, code: int) -> None:
    # What it quotes may come from a file of others: no control characters for the terminal, and no end of it.
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in sentence[:2000])
    print(f"lgx {command}: {shown}", file=sys.stderr)
    sys.stderr.flush()
    raise SystemExit(code)


if __name__ == "__main__":
    main()
