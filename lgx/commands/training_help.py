"""The short help of ``lgx fit``, ``validate``, ``test`` and ``predict``: the options that one needs first.

It imports neither torch nor Lightning, so that it answers at once; ``--help-all`` prints every option.
"""

import re
import shutil
import textwrap
from typing import NamedTuple

from lgx.methods.registry import specs

ALL = "--help-all"
"""Prints every option of a training command, those of Lightning's trainer included."""


class Option(NamedTuple):
    """An option of the short help.

    Attributes:
        name: The option with its dashes.
        value: What stands for its value; empty for a flag.
        help: What it does.
        default: Its default as the command line writes it; None where none is shown.
    """

    name: str
    value: str
    help: str
    default: str | None = None


EXAMPLES = {
    "fit": (
        "fit --model Ancestor --model.arch depth=4,embed_dim=48,num_heads=3,patch_size=4,img_size=32 "
        "--model.optimizer torch.optim.AdamW --model.optimizer.lr 0.001 --data PocketDecathlon --data.task digits "
        "--data.root data --trainer.max_epochs 5 --experiment first --name net"
    ),
    "validate": "validate --config runs/first/net/seed0/config.yaml --ckpt_path best",
    "test": "test --config runs/first/net/seed0/config.yaml --ckpt_path best",
    "predict": "predict --config runs/first/net/seed0/config.yaml --ckpt_path best",
}
"""Command -> an example that needs no download; those of the other commands read the run of ``fit``."""

_ABOUT = {
    "fit": (
        "Train an ancestor, a learngene or a descendant, by --model. The run is written to "
        "RUNS_DIR/EXPERIMENT/NAME/seedSEED: config.yaml with every option, checkpoints, results.csv, the learngene. "
        "--ckpt_path last resumes a stopped run."
    ),
    "validate": "Evaluate a checkpoint of a run on the validation split, and add the rows to its results.csv.",
    "test": (
        "Evaluate a checkpoint of a run on the test split, or an untrained start with --untrained, and add the rows to "
        "its results.csv."
    ),
    "predict": "Write the predicted class and probability of every test example to predictions.csv of the run.",
}


def print_help(command: str) -> None:
    """Print the short help of a training command.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
    """
    width = max(40, min(shutil.get_terminal_size().columns, 100))
    main = "--model METHOD --data SET" if command == "fit" else "--config RUN/config.yaml --ckpt_path best"
    lines = [
        f"usage: lgx {command} {main} [options]",
        "",
        *textwrap.wrap(_ABOUT[command], width),
        "",
        "an example:",
        *_folded(f"lgx {EXAMPLES[command]}", width),
        "",
        "the options to know first:",
        *(line for option in first_options(command) for line in _described(option, width)),
        "",
        "all other options:",
        *(line for option in _further(command) for line in _described(option, width)),
    ]
    print("\n".join(lines), flush=True)


def first_options(command: str) -> list[Option]:
    """The options that the short help of a command explains.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
    """
    config = Option("--config", "FILE", "Options in YAML. May be repeated; the last value counts, also of options.")
    run = [
        Option("--experiment", "NAME", "Folder of runs that are compared.", "default"),
        Option("--name", "NAME", "Name of the run; by default the method's."),
        Option("--seed_everything", "N", "Seed of the run.", "0"),
    ]
    data = [
        Option("--data", "SET", "What to train on: CIFAR10, ImageFolderData, … `lgx data list` shows them."),
        Option("--data.root", "FOLDER", "Where the data lies."),
        Option("--data.batch_size", "N", "Examples of a step, per process."),
    ]
    if command == "fit":
        return [
            config,
            Option("--model", "METHOD", f"What to train: {', '.join(_methods())}."),
            Option("--model.arch", "ARCH", "The network: 6-Small, or depth=6,embed_dim=384,num_heads=6."),
            Option("--model.ancestor", "SOURCE", "What most methods learn from: run, learngene, folder or timm name."),
            Option("--model.optimizer", "CLASS", "E.g. torch.optim.AdamW; its options: --model.optimizer.lr 0.001."),
            *data,
            Option("--trainer.max_epochs", "N", "How long to train.", "10"),
            *run,
            Option("--ckpt_path", "last", "Resume the run that was stopped."),
            Option("--overwrite", "", "Replace the run that the folder holds."),
        ]
    best = Option("--ckpt_path", "CKPT", "best or last of the run, or a file.")
    return [config, best, *_EXTRA.get(command, ()), *data[1:]]


_EXTRA = {
    "test": (
        Option("--untrained", "", "Evaluate the start, without a checkpoint."),
        Option("--probe", "knn|linear", "Accuracy of a classifier on the features, in place of the head's."),
    ),
}
"""Command -> options that it alone has."""


def _methods() -> list[str]:
    """Class names of the methods that can be trained."""
    return sorted(spec.module.rpartition(":")[2] for spec in specs().values() if spec.module)


def _further(command: str) -> list[Option]:
    return [
        Option("--model.help", "SWS", "Options of a method."),
        Option("--data.help", "CIFAR10", "Options of a data module."),
        Option(ALL, "", "Every option, those of Lightning's trainer included."),
        Option(
            "--print_config", "", f"The whole configuration of this command line: a file for lgx {command} --config."
        ),
    ]


def _described(option: Option, width: int) -> list[str]:
    """Lines of an option with its text in a second column."""
    margin = 30
    text = option.help + (f" (default: {option.default})" if option.default is not None else "")
    left = f"  {option.name} {option.value}".rstrip()
    first, *rest = textwrap.wrap(text, max(width - margin, 20), break_on_hyphens=False)
    start = [f"{left:<{margin}}{first}"] if len(left) < margin else [left, " " * margin + first]
    return [*start, *(" " * margin + line for line in rest)]


def _folded(command: str, width: int) -> list[str]:
    """A command line in lines that a shell joins; an option stays beside its value."""
    joined = re.sub(r"(--\S+) (?=[^-])", "\\1\u00a0", command)
    lines = textwrap.wrap(joined, width - 6, break_long_words=False, break_on_hyphens=False)
    return " \\\n    ".join([f"  {lines[0]}", *lines[1:]]).replace("\u00a0", " ").splitlines()
