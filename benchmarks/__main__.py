"""``python -m benchmarks SUITE``: time and memory of training steps and loaders, as ratios to a reference."""

import os
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jsonargparse import auto_cli

from benchmarks.fit_steps import measure_fit_steps
from benchmarks.hypernet_steps import LARGEST, measure_hypernet_steps
from benchmarks.loaders import measure_loaders
from benchmarks.runner import Measurement, Rows, run
from benchmarks.shared_layers import measure_shared_layers
from benchmarks.steps import PRECISIONS, device
from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.errors import UserError
from lgx.host.startup import keep_freed_memory
from lgx.hypernet import HypernetConfig

SIZES = {"tiny": "12-Tiny", "small": "12-Small", "base": "12-Base"}


class Kit(NamedTuple):
    """What suite kit measures: images of a step and precisions, the most important first, and the loaders' pixels."""

    batches: Sequence[int] = (64, 8, 256)
    precisions: Sequence[str] = ("bf16", "32", "tf32", "fp16")
    pixels: int = 224
    repeats: int = 8


KIT = Kit()


def hypernet(
    size: str = "tiny,small,base",
    batch: str = "8",
    precision: str = "32",
    meta_batch: int = 1,
    decoder: Literal["low_rank", "conv"] = "low_rank",
    layout: Literal["official", "residual", "aligned"] = "official",
    repeats: int = 8,
    json: str | None = None,
) -> Rows:
    """Training steps and predictions of a hypernetwork, compared with an ordinary training step of the same ViT.

    An ordinary step is forward pass, backward pass and AdamW on random images. Ratios depend less on the machine than
    seconds, which are those of a step's fastest round. The hypernetwork has LoGAH's size (width 128, rank 90, 21 M
    parameters). hyper_step trains it (ratio per architecture; with the shares of graph, encode, decode and execute in
    its time, and the memory of the factored prediction and of the same weights as dense tensors); predict computes all
    weights as dense tensors (to_products: its time divided by the time of the bare products of the factors); graph
    builds the computational graph without the cache.

    Args:
        size: ViTs to measure, comma-separated: tiny, small, base. All have 12 layers and read images of 224 px.
        batch: Images per step; several values comma-separated.
        precision: Precision of autocast, comma-separated: 32 (off), tf32 (on GPUs), bf16, fp16.
        meta_batch: Architectures per step.
        decoder: Decoder of the hypernetwork: low_rank (LoGAH) or conv (GHN-3 with width 128 and max_shape 64).
        layout: How the low-rank decoder computes its factors: official (as published), residual or aligned.
        repeats: Timed rounds. Two rounds before them are not timed.
        json: File for the results: a JSON list of objects with what, seconds, ratio, peak_mb and the setting.
    """
    options = {"decoder": decoder, "layout": layout, "meta_batch": meta_batch, "repeats": repeats}
    return run((_hypernet(s, b, p, **options) for s, b, p in _settings(size, batch, precision)), json)


def shared_layers(
    size: str = "tiny,small,base", batch: str = "8", precision: str = "32", repeats: int = 8, json: str | None = None
) -> Rows:
    """Training steps with stage-wise weight sharing, and distillation, compared with an ordinary training step.

    shared_step trains 16 layers of which 5 are stored (ratio per layer); distilled_step trains with soft labels of a
    teacher of the same size; forward is the teacher's forward pass alone. slices are the forward and backward passes of
    three sizes in a nested learngene, separate those of networks of the same sizes.

    Args:
        size: As of hypernet.
        batch: As of hypernet.
        precision: As of hypernet.
        repeats: As of hypernet.
        json: As of hypernet.
    """
    return run((_shared(s, b, p, repeats) for s, b, p in _settings(size, batch, precision)), json)


def fit(file: str, steps: int = 40, repeats: int = 3, json: str | None = None) -> Rows:
    """A step of lgx fit with a configuration of yours, compared with a bare loop over the same losses and optimizer.

    Args:
        file: A configuration of lgx fit whose data are prepared.
        steps: Timed steps of each repetition.
        repeats: Repetitions; the fastest counts.
        json: As of hypernet.
    """
    return run([_fit(file, steps, repeats)], json)


def data(
    img_size: int = 64, batch: str = "64", num_workers: int = 0, repeats: int = 3, json: str | None = None
) -> Rows:
    """Images per second from class folders, shards and decoded pixels, beside torchvision and webdataset.

    The images are 1,024 random JPEG files of 128 px. All ways resize, crop, flip and normalize alike.

    Args:
        img_size: Height and width of the inputs, pixels.
        batch: Images of a batch; several values comma-separated.
        num_workers: Loader processes.
        repeats: Repetitions; the fastest counts.
        json: As of hypernet.
    """
    return run((_loaders(img_size, images, num_workers, repeats) for images in _numbers(batch)), json)


def kit(files: str = "", minutes: float = 12.0, json: str | None = None) -> Rows:
    """All other suites on a machine with a GPU, the most important measurement first; `make gpu` runs it.

    Args:
        files: Configurations of lgx fit whose data are prepared, for suite fit; several are comma-separated.
        minutes: No measurement begins after so many minutes.
        json: As of hypernet.
    """
    return run(_everything(files.split(",") if files else []), json, minutes)


SUITES: Any = {
    "hypernet": hypernet, "shared_layers": shared_layers, "fit": fit, "data": data, "kit": kit,
}  # fmt: skip


def main(args: Sequence[str] | None = None) -> None:
    """Run the suite of a command line; a wrong value ends it with one sentence.

    Args:
        args: The command line without the program's name; ``sys.argv`` by default.
    """
    try:
        auto_cli(SUITES, args=None if args is None else list(args), prog="benchmarks")
    except UserError as error:
        raise SystemExit(f"benchmarks: {error}") from error


def _everything(configs: Sequence[str]) -> Iterator[Measurement]:
    """The measurements of a kit, in order."""
    for config in configs:
        yield _fit(config, 20, min(KIT.repeats, 3))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for workers in (0, min(cores, 16)):
        yield _loaders(KIT.pixels, KIT.batches[0], workers, min(KIT.repeats, 3))
    for images, number, name in product(KIT.batches, KIT.precisions, SIZES):
        yield _hypernet(name, images, number, repeats=KIT.repeats)
    for name, number in product([*SIZES][:2], KIT.precisions):
        yield _hypernet(name, KIT.batches[0], number, "conv", repeats=KIT.repeats)
    for name in SIZES:
        yield _hypernet(name, KIT.batches[0], "bf16", repeats=KIT.repeats, compiled=True)
        yield _shared(name, KIT.batches[0], "bf16", KIT.repeats)


def _hypernet(size: str, batch: int, precision: str, decoder: Any = "low_rank", **options: Any) -> Measurement:
    layout = options.pop("layout", "official")
    config = HypernetConfig(decoder=decoder, layout=layout, max_shape=LARGEST[decoder])
    setting = {"suite": "hypernet", "size": size, "batch": batch, "precision": precision, "decoder": decoder}
    return Measurement(
        {**setting, "layout": layout, **options},
        lambda: measure_hypernet_steps(_vit(size), config, batch, precision, **options),
    )


def _shared(size: str, batch: int, precision: str, repeats: int) -> Measurement:
    setting = {"suite": "shared_layers", "size": size, "batch": batch, "precision": precision}
    return Measurement(setting, lambda: measure_shared_layers(_vit(size), batch, precision, repeats))


def _fit(config: str, steps: int, repeats: int) -> Measurement:
    setting = {"suite": "fit", "size": Path(config).stem, "config": config}
    return Measurement(setting, lambda: measure_fit_steps(config, steps, repeats))


def _loaders(pixels: int, batch: int, workers: int, repeats: int) -> Measurement:
    setting = {"suite": "data", "size": f"{pixels} px", "batch": batch, "num_workers": workers}
    return Measurement(setting, lambda: measure_loaders(pixels, batch, workers, repeats))


def _settings(size: str, batch: str, precision: str) -> Iterator[tuple[str, int, str]]:
    """Every size at every batch and precision. Steps on the CPU keep freed memory, as those of lgx fit do."""
    if device() == "cpu":
        keep_freed_memory()
    for option, text, known in (("size", size, SIZES), ("precision", precision, PRECISIONS)):
        if unknown := {*text.split(",")} - {*known}:
            raise UserError(f"--{option}: unknown value {', '.join(unknown)}; choose from {', '.join(known)}")
    for images, number, name in product(_numbers(batch), precision.split(","), size.split(",")):
        yield name, images, number


def _vit(size: str) -> ViTArchitecture:
    return parse_architecture(SIZES[size])


def _numbers(text: str) -> list[int]:
    """Whole numbers, comma-separated."""
    parts = str(text).split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UserError(f"--batch: expected whole numbers of at least 1, got {text}")
    return list(map(int, parts))


if __name__ == "__main__":
    main()
