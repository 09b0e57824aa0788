"""The same run: a run that is resumed has the configuration, data and batch with which it began.

A checkpoint holds the identity of its run. When the run is resumed, every difference is either applied
and listed, because it does not change what is learned from the steps that are done, or refused with what to do.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lgx.core.schema import MAPPING, Field, check_fields, mapping_of, shortened
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.safety import load_plain

IDENTITY = "lgx_run"
"""Key of the identity in a checkpoint."""

_PACKAGES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "jsonargparse")

_REMEDY = "give the former values, --overwrite to train anew, or --name to start another run"

_PLACES = ("runs_dir", "experiment", "name", "data.root")
"""Beginnings of the keys of places: a run and its data may be moved."""
_APPLIED = (
    "save_every", "early_stop", "split_batch", "test_start", "test_end", "untrained",
    "trainer.max_", "trainer.min_", "trainer.accelerator", "trainer.strategy", "trainer.devices", "trainer.num_nodes",
    "trainer.plugins", "trainer.benchmark", "trainer.deterministic", "trainer.detect_anomaly", "trainer.inference_mode",
    "trainer.logger", "trainer.enable_", "trainer.log_every_n_steps", "trainer.default_root_dir", "trainer.profiler",
    "trainer.num_sanity_val_steps", "trainer.barebones", "trainer.callbacks", "model.compile", "checkpoint.",
    "data.num_workers", "data.worker_timeout", "data.cache_gib",
    "data.batch_size",
)  # fmt: skip
"""Beginnings of the keys that count from the checkpoint on. Fingerprints guard the data and the batch of a step."""

_AVERAGING = ("trainer.callbacks.EMAWeightAveraging", "trainer.callbacks.WeightAveraging")
"""Callbacks that change the weights. All others only observe, or stop the run."""

_NEVER_APPLIED = (*_AVERAGING, "data.batch_size x")


@dataclass(frozen=True)
class RunIdentity:
    """What identifies a run.

    Attributes:
        config: The configuration, as ``config.yaml`` holds it.
        versions: Versions and commit of the code.
        files: Key of an option -> digest of the file of weights that it names.
        data: The data module's fingerprint, and the training examples of a step on all processes; empty if unknown.
    """

    config: str
    versions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)


_TEXT = Field(lambda value: isinstance(value, str), "a text")
_FIELDS = {"config": _TEXT, **dict.fromkeys(("versions", "files", "data"), mapping_of(_TEXT))}


def identity_of(checkpoint: Mapping[str, Any], path: str | Path) -> RunIdentity | None:
    """The identity of the run that wrote a checkpoint; None if it holds final weights alone."""
    stored = checkpoint.get(IDENTITY)
    if stored is None:
        return None
    place = f"{path}: its record of the run is damaged"
    check_fields({IDENTITY: stored}, {IDENTITY: MAPPING}, place)
    check_fields(stored, _FIELDS, place, complete=True)
    return RunIdentity(**{name: stored[name] for name in _FIELDS})


@cache
def package_versions() -> dict[str, str]:
    """Versions of lgx, Python and the packages that results depend on."""
    versions = {package: version(package) for package in _PACKAGES}
    return {"lgx": __version__, "python": platform.python_version(), **versions}


def check_same(record: RunIdentity, now: RunIdentity, place: str, remedy: str = _REMEDY) -> tuple[list[str], list[str]]:
    """Compare a run with the present one: its options, the files of weights that they name, and its data.

    Args:
        record: The run as its checkpoint holds it.
        now: The present run; without data before they are read.
        place: The run's folder or checkpoint, for the message.
        remedy: What the user can do.

    Returns:
        Changed options that are applied, and changed versions of the code, one line each.
    """
    former = flat_options(load_plain(record.config))
    options = flat_options(load_plain(now.config))
    same = record.versions == now.versions  # otherwise one of the two versions may not know an option
    every = dict.fromkeys(key for key in (*former, *options) if same or key.startswith(_AVERAGING))
    changes = _differences({**every, **former, **_inputs(record)}, {**every, **options, **_inputs(now)})
    changes = {key: line for key, line in changes.items() if not key.startswith(_PLACES)}
    applied = {key for key in changes if key.startswith(_APPLIED) and not key.startswith(_NEVER_APPLIED)}
    refused = [line for key, line in changes.items() if key not in applied]
    if refused:
        raise UserError(f"{place}: the run was started with other options or data: {'; '.join(refused)}; {remedy}")
    return list(changes.values()), list(_differences(record.versions, now.versions).values())


def _inputs(run: RunIdentity) -> dict[str, str]:
    """Digests of the files and data of a run."""
    return {f"the file of {option}": digest for option, digest in run.files.items()} | run.data


def _differences(former: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Key -> the difference in words, of the keys that both have."""
    keys = [key for key in former if key in now and former[key] != now[key]]
    return {key: f"{key} was {_shown(former[key])}, is {_shown(now[key])}" for key in keys}


def flat_options(config: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings to ``{"model.arch": …}``; class paths become class names.

    A list of callbacks becomes one key for each class; other lists stay whole, because their order counts.
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if key == "class_path":
            flat[prefix.removesuffix(".")] = _class_name(value)
        elif isinstance(value, dict) and value:
            flat.update(flat_options(value, prefix if key == "init_args" else f"{prefix}{key}."))
        elif key == "callbacks" and value and all(isinstance(v, dict) and "class_path" in v for v in value):
            classes = {_class_name(v["class_path"]): v.get("init_args") or {} for v in value}
            flat.update({f"{prefix}{key}.{name}": options for name, options in classes.items()})
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _class_name(path: object) -> str:
    return str(path).rsplit(".", 1)[-1]


def _shown(value: Any) -> str:
    return "null" if value is None else value if isinstance(value, str) and len(value) < 80 else shortened(value)
