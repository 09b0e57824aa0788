"""A run that must come before another one: an ancestor is fine-tuned on the task that its descendants are for."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace

from lgx.errors import UserError
from lgx.host import launcher
from lgx.host.signals import SIGNALS
from lgx.training.configuration import RunParser, configuration_text, instantiate
from lgx.training.folder_claim import check_claim
from lgx.training.run_folder import run_place
from lgx.training.sources import class_of, resolve_sources


class FirstRunEnded(Exception):
    """The run that had to come first has ended; the command goes on with further options.

    Attributes:
        options: They name what the first run has left.
    """

    def __init__(self, options: list[str]) -> None:
        super().__init__(*options)
        self.options = options


def do_first(parser: RunParser, config: Namespace) -> None:
    """Do the run that a configuration of ``lgx fit`` needs first, or resume it, in a process of its own.

    It has the same data, trainer and seed, and the run's name with ``_ancestor`` behind it.

    Args:
        parser: The parser that has parsed the configuration.
        config: The configuration.

    Raises:
        FirstRunEnded: If such a run was needed.
        UserError: If it is in vain, because the folder of the run that follows is taken.
        SystemExit: If it did not end well; it has said why.
    """
    if not getattr(class_of(config.model), "adapts_ancestor", False):
        return
    built = instantiate(parser, resolve_sources(config.clone()).config)
    values: dict[str, Any] = yaml.safe_load(configuration_text(parser, config))
    model = built.model.first_model(built.data.task, values["model"]["init_args"])
    if model is None:
        return
    place, first = run_place(config), config.clone()
    if config.trainer.fast_dev_run:
        raise UserError("trainer.fast_dev_run: leaves no fine-tuned ancestor to train from; give model.ancestor one")
    if config.ckpt_path is None:
        check_claim(place.folder, config.overwrite, resumes=False)
    first.name = f"{place.name}_ancestor"
    folder = run_place(first).folder
    if launcher.rank() == 0:
        print(f"ancestor   {built.model.ancestor} is fine-tuned on {built.data.task.name} first: {folder}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "first_run.yaml"
        file.write_text(yaml.safe_dump(values | {"model": model, "name": first.name}), encoding="utf-8")
        again = ["--overwrite"] if config.overwrite else ["--ckpt_path", "last"]
        code = _run([sys.executable, "-m", "lgx", "fit", "--config", str(file), *again])
    if code:
        raise SystemExit(code if code > 0 else 128 - code)
    raise FirstRunEnded([f"--model.ancestor={folder}"])


def _run(command: list[str]) -> int:
    """Run a command to its end; its exit code. A signal of a cluster reaches it, too; Ctrl-C does so by itself."""
    environment = dict(os.environ)
    if environment.pop("TORCHELASTIC_USE_AGENT_STORE", "") == "True":  # torchrun's store would keep its addresses
        environment["MASTER_PORT"] = str(int(environment["MASTER_PORT"]) + 1)
    process = subprocess.Popen(command, env=environment)
    before = {number: signal.signal(number, lambda number, _: process.send_signal(number)) for number in SIGNALS}
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
