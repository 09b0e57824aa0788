"""``python -m benchmarks SUITE``: time and memory of training steps and loaders, as ratios to a reference."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jsonargparse import auto_cli

from benchmarks.fit_steps import measure_fit_steps
from benchmarks.hypernet_steps import LARGEST, measure_hypernet_steps
from benchmarks.launches import PREDICTED, count_method, count_predicted
from benchmarks.loaders import measure_loaders
from benchmarks.methods import METHODS, loader_processes, measure_method, pocket_run
from benchmarks.runner import Measurement, Rows, run
from benchmarks.shared_layers import measure_shared_layers
from benchmarks.steps import PRECISIONS, device
from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.errors import UserError
from lgx.hypernet import HypernetConfig, Layout

SIZES = {"tiny": "12-Tiny", "small": "12-Small", "base": "12-Base"}


class Kit(NamedTuple):
    """Sizes of suites steps and methods on a machine.

    Attributes:
        sizes: ViTs of hypernetworks and of ``lgx fit``.
        batches: Images of a step.
        arch: Architecture of suite methods.
        pixels: Size of the loaders' images.
        steps: Timed steps of a run.
        repeats: Timed rounds.
    """

    sizes: Sequence[str]
    batches: Sequence[int]
    arch: str
    pixels: int
    steps: int
    repeats: int


KITS = {
    "cuda": Kit(("tiny", "small", "base"), (8, 32), "12-Tiny", 224, 40, 8),
    "cpu": Kit(("tiny",), (2,), "depth=12,embed_dim=48,num_heads=3,patch_size=8,img_size=32", 32, 2, 1),
}
"""Device -> its kit. That of the CPU tries the same code in a few minutes."""


def hypernet(
    size: str = "tiny,small,base",
    batch: str = "8",
    precision: str = "32",
    meta_batch: int = 1,
    decoder: Literal["low_rank", "conv"] = "low_rank",
    layout: Layout = "official",
    compiled: bool = False,
    repeats: int = 8,
    csv: str | None = None,
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
        compiled: Whether the ViT of the ordinary step and the hypernetwork's encoder are compiled, which takes minutes.
        repeats: Timed rounds. Two rounds before them are not timed.
        csv: File for the results, a line for each: what, seconds, ratio, peak_mb and the setting.
    """
    options = {
        "decoder": decoder, "layout": layout, "compiled": compiled, "meta_batch": meta_batch, "repeats": repeats,
    }  # fmt: skip
    return run((_hypernet(s, b, p, **options) for s, b, p in _settings(size, batch, precision)), csv)


def shared_layers(
    size: str = "tiny,small,base", batch: str = "8", precision: str = "32", repeats: int = 8, csv: str | None = None
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
        csv: As of hypernet.
    """
    return run((_shared(s, b, p, repeats) for s, b, p in _settings(size, batch, precision)), csv)


def fit(file: str, steps: int = 40, repeats: int = 3, csv: str | None = None) -> Rows:
    """A step of lgx fit with a configuration of yours, compared with a bare loop over the same losses and optimizer.

    Args:
        file: A configuration of lgx fit whose data are prepared.
        steps: Timed steps of each repetition.
        repeats: Repetitions; the fastest counts.
        csv: As of hypernet.
    """
    if not Path(file).is_file():
        raise UserError(f"config {file}: no such file; give a configuration of lgx fit")
    return run([_fit(Path(file).stem, ["--config", file], steps, repeats)], csv)


def data(img_size: int = 64, batch: str = "64", num_workers: int = 0, repeats: int = 3, csv: str | None = None) -> Rows:
    """Images per second from class folders, shards and decoded pixels, beside torchvision and webdataset.

    The images are 1,024 random JPEG files of 128 px. All ways resize, crop, flip and normalize alike.

    Args:
        img_size: Height and width of the inputs, pixels.
        batch: Images of a batch; several values comma-separated.
        num_workers: Loader processes.
        repeats: Repetitions; the fastest counts.
        csv: As of hypernet.
    """
    return run((_loaders(img_size, images, num_workers, repeats) for images in _numbers(batch)), csv)


def steps(root: str = "data", minutes: float = 3.0, csv: str | None = None) -> Rows:
    """Steps of lgx fit, of hypernetworks and of shared layers, and loaders: the most important measurement first.

    Without a GPU the networks are small, so that a machine can try what `make gpu` runs.

    Args:
        root: Folder of the pocket sets (`lgx data prepare pocket`).
        minutes: No measurement begins after so many minutes.
        csv: As of hypernet.
    """
    return run(_steps(root), csv, minutes)


def methods(root: str = "data", minutes: float = 4.0, csv: str | None = None) -> Rows:
    """A short run of each method: time of a step, and the memory of the GPU beside what lgx plan says.

    Args:
        root: As of steps.
        minutes: As of steps.
        csv: As of hypernet.
    """
    return run((_method(name, root) for name in METHODS), csv, minutes)


def launches(root: str = "data", batch: int = 8, csv: str | None = None) -> Rows:
    """Operations that a step of each method starts, without views; on a GPU they often decide the time of a step.

    Hypernetworks predict ViT-Tiny of 12 layers. The three slices are those of one step of Nested. The other methods
    train a narrower ViT of 12 layers, whose steps start as many operations.

    Args:
        root: As of steps.
        batch: Images of a step; their number hardly changes the counts.
        csv: File for the results, a line for each: what, operations, ratio to the ordinary step and the setting.
    """
    return run(_launches(root, batch), csv)


SUITES: Any = {
    "hypernet": hypernet, "shared_layers": shared_layers, "fit": fit, "data": data, "steps": steps, "methods": methods,
    "launches": launches,
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


def _steps(root: str) -> Iterator[Measurement]:
    """The measurements of suite steps, in order."""
    kit = KITS[device()]
    for size in dict.fromkeys((kit.sizes[0], kit.sizes[-1])):
        data = pocket_run(root, kit.batches[-1], _vit(size).img_size)
        yield _fit(size, ["--model=Finetune", f"--model.arch={SIZES[size]}", *data], kit.steps, min(kit.repeats, 2))
    for size, batch in product(kit.sizes, kit.batches):
        yield _hypernet(size, batch, "bf16", repeats=kit.repeats)
    for size, batch in product(kit.sizes[:2], kit.batches):
        yield _hypernet(size, batch, "bf16", "conv", repeats=kit.repeats)
    yield _loaders(kit.pixels, kit.batches[-1], loader_processes(), min(kit.repeats, 3))
    for size in kit.sizes:
        yield _shared(size, kit.batches[-1], "bf16", kit.repeats)


def _launches(root: str, batch: int) -> Iterator[Measurement]:
    setting = {"suite": "launches", "size": SIZES["tiny"], "batch": batch}
    yield Measurement(setting, lambda: count_predicted(_vit("tiny"), batch))
    arch = KITS["cpu"].arch
    for name in (name for name in METHODS if name not in PREDICTED):
        yield Measurement(setting | {"size": arch}, partial(count_method, name, arch, root, batch))


def _method(name: str, root: str) -> Measurement:
    kit = KITS[device()]
    setting = {"suite": "methods", "size": kit.arch, "batch": kit.batches[-1]}
    return Measurement(setting, lambda: measure_method(name, kit.arch, root, kit.batches[-1], kit.steps))


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


def _fit(size: str, options: Sequence[str], steps: int, repeats: int) -> Measurement:
    setting = {"suite": "fit", "size": size, "options": " ".join(options)}
    return Measurement(setting, lambda: measure_fit_steps(options, steps, repeats))


def _loaders(pixels: int, batch: int, workers: int, repeats: int) -> Measurement:
    setting = {"suite": "data", "size": f"{pixels} px", "batch": batch, "num_workers": workers}
    return Measurement(setting, lambda: measure_loaders(pixels, batch, workers, repeats))


def _settings(size: str, batch: str, precision: str) -> Iterator[tuple[str, int, str]]:
    """Every size at every batch and precision."""
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
