"""The short help of ``lgx fit``, ``validate``, ``test`` and ``predict``: the most important options.

It imports neither torch nor Lightning, so it is fast; ``--help-all`` prints every option.
"""

import textwrap

from lgx.methods.registry import specs

EXAMPLES = {
    "fit": (
        "fit --model Ancestor --model.arch depth=4,embed_dim=48,num_heads=3,patch_size=4,img_size=32 "
        "--model.optimizer torch.optim.AdamW --model.optimizer.lr 0.001 --data PocketDecathlon --data.task digits "
        "--data.root data --trainer.max_epochs 5 --experiment first --name net"
    ),
    "validate": "validate --config runs/first/net/seed0/config.yaml",
    "test": "test --config runs/first/net/seed0/config.yaml",
    "predict": "predict --config runs/first/net/seed0/config.yaml",
}
"""Command -> an example that needs no download. The other commands use the run of the example of ``fit``."""

_ABOUT = {
    "fit": """\
Train an ancestor, a learngene or a descendant; --model says which. The folder
of the run is RUNS_DIR/EXPERIMENT/NAME/seedSEED. It contains config.yaml with
every option, checkpoints, results.csv and the learngene.""",
    "validate": "Evaluate a checkpoint of a run on the validation split.",
    "test": "Evaluate a checkpoint of a run, or an untrained start, on the test split.",
    "predict": "Write the class and probability of every test example to predictions.csv.",
}

_CONFIG = """\
  --config FILE               YAML file of options; may be repeated. The last
                              value of an option counts."""
_DATA = """\
  --data.root FOLDER          Folder of the data sets.
  --data.batch_size N         Examples per step and process."""
_FIT = f"""{_CONFIG}
  --model METHOD              What to train:
{{methods}}
  --model.arch ARCH           6-Small, or depth=6,embed_dim=384,num_heads=6; by
                              default the architecture of the source.
  --model.ancestor SOURCE     The ancestor of most methods: run, learngene,
                              folder or timm name.
  --model.optimizer CLASS     torch.optim.AdamW, with --model.optimizer.lr 0.001
  --data SET                  CIFAR10, ImageFolderData, …; see lgx data list.
{_DATA}
  --trainer.max_epochs N      Number of epochs (default: 10).
  --experiment NAME           Folder for runs that you will compare.
  --name NAME                 Name of the run; default: name of the method.
  --seed_everything N         Seed of the run (default: 0).
  --ckpt_path last            Resume the stopped run.
  --overwrite                 Replace the existing run in the folder."""
_OTHERS = f"""{_CONFIG}
  --ckpt_path CKPT            best or last checkpoint of the run, or a file.
{_DATA}"""
_TEST = f"""{_OTHERS}
  --untrained                 Evaluate the start, without a checkpoint.
  --probe knn|linear          Accuracy of a k-NN or linear probe on features."""


def print_help(command: str) -> None:
    """Print the short help of a training command, in 80 columns.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
    """
    trained = ", ".join(sorted(spec.module.rpartition(":")[2] for spec in specs().values() if spec.module))
    methods = textwrap.fill(trained, 79, initial_indent=" " * 30, subsequent_indent=" " * 30)
    options = {"fit": _FIT.format(methods=methods), "test": _TEST}.get(command, _OTHERS)
    main = "--model METHOD --data SET" if command == "fit" else "--config RUN/config.yaml"
    example = " \\\n    ".join(
        textwrap.wrap(f"lgx {EXAMPLES[command]}", 74, break_long_words=False, break_on_hyphens=False)
    )
    print(
        f"""\
usage: lgx {command} {main} [options]

{_ABOUT[command]}

an example:
  {example}

main options:
{options}

all other options:
  --model.help SWS            Options of a method.
  --data.help CIFAR10         Options of a data module.
  --help-all                  Every option, also of Lightning's trainer.
  --print_config              Print the whole configuration, for --config.""",
        flush=True,
    )
