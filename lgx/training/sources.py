"""Find the sources that a configuration names, once, and write into it which version is read, and what they give.

A source may need a run of its own first: an ancestor is fine-tuned on the task that its descendants are for.
"""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace

from lgx.architectures import parse_any_architecture
from lgx.artifacts.pretrained import architecture_of
from lgx.artifacts.sources import Source, resolve, resolve_kept
from lgx.errors import UserError
from lgx.host import launcher
from lgx.host.signals import stop_signals
from lgx.training.configuration import RunParser, configuration_text, instantiate
from lgx.training.run_folder import check_claim, run_place


@dataclass(frozen=True)
class ResolvedSources:
    """The sources of a configuration.

    Attributes:
        config: The configuration with their places, from which method and data are built; it is not saved.
        by_option: Option, e.g. ``model.ancestor`` -> source.
    """

    config: Namespace
    by_option: dict[str, Source]

    def weights(self) -> dict[str, Path]:
        """The files of weights: option -> file."""
        return {option: file for option, source in self.by_option.items() if (file := source.weights) is not None}

    def digests(self) -> dict[str, str]:
        """Digests of the files of weights: option -> SHA-256, 16 digits."""
        found = {}
        for option, file in self.weights().items():
            with file.open("rb") as content:
                found[option] = hashlib.file_digest(content, "sha256").hexdigest()[:16]
        return found


def resolve_sources(config: Namespace, download: bool = True) -> ResolvedSources:
    """Find every source below ``model``, and replace names on the hub by those of the version that is read.

    ``config.yaml``, the same-run contract, learngenes and comparisons then name the commit; a run that is resumed
    refuses another version.

    Args:
        config: A parsed configuration of ``lgx fit``; it is changed.
        download: Whether servers may be asked; otherwise a source that is not on this machine keeps its name.
    """
    found: dict[str, Source] = {}
    for option, entries, key in _texts(config.model, "model"):
        try:
            found[option] = resolve(entries[key]) if download else resolve_kept(entries[key])
        except UserError as error:
            raise UserError(f"{option}: {error}") from error
        entries[key] = found[option].name
    _fill(config, found)
    local = config.clone()
    for option, entries, key in _texts(local.model, "model"):
        entries[key] = found[option].place if option in found else entries[key]
    return ResolvedSources(local, found)


def _fill(config: Namespace, found: Mapping[str, Source]) -> None:
    """Give a configuration the architecture of its source, and its images the size of the network."""
    model, data = config.model.init_args, config.get("data") or {}
    if is_missing := model.get("arch", "") is None:
        if (option := _arch_option(config.model)) not in found:
            if option:
                raise UserError(f"{option}: missing; give a file or a folder of a network, a run, or timm:NAME")
            raise UserError(
                "model.arch: missing; name the network, e.g. 6-Small, or start from a whole network of `lgx init`"
            )
        try:
            model.arch = architecture_of(found[option].place).spec()
        except UserError as error:
            raise UserError(f"model.arch: missing, and not known from {option} ({error}); name it") from error
    images = data.get("init_args", {})
    follows = is_missing or getattr(class_of(data), "sized_by_network", False)
    if model.get("arch") and follows and images.get("img_size", 0) is None:
        architecture = parse_any_architecture(model.arch)
        for key in architecture.input_keys:
            if images.get(key, 0) is None:
                images[key] = getattr(architecture, key)


def _arch_option(model: Namespace) -> str:
    """The option that names a network of the very architecture that the run trains; empty without one."""
    start, name = class_of(model.init_args.get("initializer")), getattr(class_of(model), "arch_option", None)
    if start is not None and start.reads_source and not start.shared:
        return "model.initializer.source"
    return f"model.{name}" if name else ""


def class_of(chosen: Any) -> Any:
    """The class that a part of a parsed configuration names, whose module the parser has imported; None without one."""
    module, _, name = (chosen.get("class_path", "") if chosen else "").rpartition(".")
    return getattr(sys.modules.get(module), name, None)


def _texts(values: Any, place: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Option, mapping and key of every text of a configuration."""
    entries = vars(values) if isinstance(values, Namespace) else values
    for key, value in list(entries.items()):
        option = place if key == "init_args" else f"{place}.{key}"
        if isinstance(value, Namespace | dict):
            yield from _texts(value, option)
        elif isinstance(value, str) and key != "class_path":
            yield option, entries, key


class FirstRunEnded(Exception):
    """The first run has ended; the command continues with further options, which name its results: ``args``."""


def do_first(parser: RunParser, config: Namespace) -> None:
    """Execute or resume the first run that a configuration of ``lgx fit`` needs, in its own process.

    It has the same data, trainer and seed. Its name is the run's name with ``_ancestor``.

    Args:
        parser: The parser that has parsed the configuration.
        config: The configuration.

    Raises:
        FirstRunEnded: After a needed first run.
        UserError: If the folder of the second run is taken, so that the first run would be useless.
        SystemExit: If the first run failed; it has printed the reason.
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
        raise UserError("trainer.fast_dev_run: saves no fine-tuned ancestor; give a fine-tuned model.ancestor")
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
    raise FirstRunEnded(f"--model.ancestor={folder}")


def _run(command: list[str]) -> int:
    """Run a command and return its exit code; signals of a cluster are passed on, and Ctrl-C reaches it directly."""
    environment = dict(os.environ)
    if environment.pop("TORCHELASTIC_USE_AGENT_STORE", "") == "True":  # torchrun's store would keep its addresses
        environment["MASTER_PORT"] = str(int(environment["MASTER_PORT"]) + 1)
    process = subprocess.Popen(command, env=environment)
    before = {number: signal.signal(number, lambda number, _: process.send_signal(number)) for number in stop_signals()}
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
