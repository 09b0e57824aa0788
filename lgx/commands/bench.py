"""``lgx bench``: time and memory of training steps and loaders, as ratios to a reference in the same run."""

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser

    from lgx.architectures import ViTArchitecture

SIZES = {"tiny": "12-Tiny", "small": "12-Small", "base": "12-Base"}


def main(argv: list[str]) -> None:
    """Run the suite that ``--suite`` names; each has its own options.

    Raises:
        UserError: If there is no such suite, or for whatever is wrong with its options.
    """
    from lgx.commands.run import call
    from lgx.errors import UserError

    words = [part for word in argv for part in (word.split("=", 1) if word.startswith("--suite=") else [word])]
    place = words.index("--suite") if "--suite" in words else None
    name = "hypernet" if place is None else "".join(words[place + 1 : place + 2])
    if name not in SUITES:
        raise UserError(f"suite: expected one of {', '.join(map(repr, SUITES))}, got {name or 'nothing'}")
    if place is None and {"-h", "--help"} & set(words):
        print("lgx bench --suite NAME measures one of:")
        print("\n".join(f"  {suite:<14}{str(function.__doc__).splitlines()[0]}" for suite, function in SUITES.items()))
        print("\nwithout --suite:\n")
    rest = words if place is None else words[:place] + words[place + 2 :]
    call(f"lgx bench --suite {name}", SUITES[name], rest)


def parsers() -> "list[ArgumentParser]":
    """The parsers of all suites, and of the option that chooses one."""
    from jsonargparse import ArgumentParser

    from lgx.commands.run import make_parser

    choice = ArgumentParser()
    choice.add_argument("--suite", choices=list(SUITES), help="What to measure.")
    return [choice, *(make_parser("lgx bench", function) for function in SUITES.values())]


def hypernet(
    size: str = "tiny,small,base",
    batch: str = "8",
    precision: str = "32",
    meta_batch: int = 1,
    decoder: Literal["low_rank", "conv"] = "low_rank",
    layout: Literal["official", "residual", "aligned"] = "official",
    repeats: int = 8,
    json: str | None = None,
    force: bool = False,
) -> None:
    """Training steps and predictions of a hypernetwork, compared with an ordinary training step of the same ViT.

    Example: lgx bench --size tiny --batch 8,32 --json bench.json. An ordinary step is forward pass, backward pass and
    AdamW on random images. Ratios depend less on the machine than seconds, which are those of a step's fastest round.

    The hypernetwork has LoGAH's size (width 128, rank 90, 21 M parameters). hyper_step trains it (ratio per
    architecture; with the shares of graph, encode, decode and execute in its time, and the memory of the factored
    prediction and of the same weights as dense tensors); predict computes all weights as dense tensors (to_products:
    its time divided by the time of the bare products of the factors); graph builds the computational graph without the
    cache.

    Args:
        size: ViTs to measure, comma-separated: tiny, small, base. All have 12 layers and read images of 224 px.
        batch: Images per step; several values comma-separated.
        precision: Precision of autocast, comma-separated: 32 (off), tf32 (on GPUs), bf16, fp16.
        meta_batch: Architectures per step.
        decoder: Decoder of the hypernetwork: low_rank (LoGAH) or conv (GHN-3 with width 128 and max_shape 64).
        layout: How the low-rank decoder computes its factors: official (as published), residual or aligned.
        repeats: Timed rounds. Two rounds before them are not timed.
        json: File for the results: a JSON list of objects with size, what, seconds, ratio, peak_mb and the options.
        force: Replace a file that another command or program wrote.

    Raises:
        UserError: If a size or precision is unknown, a number is below 1, or the file exists and holds no such results.
    """
    from lgx.benchmark.hypernet_steps import LARGEST, measure_hypernet_steps
    from lgx.benchmark.options import positive
    from lgx.hypernet import HypernetConfig

    positive("meta_batch", meta_batch)
    config = HypernetConfig(decoder=decoder, layout=layout, max_shape=LARGEST[decoder])
    _steps(
        lambda vit, b, p: measure_hypernet_steps(vit, config, b, meta_batch, p, repeats),
        size, batch, precision, {"repeats": repeats, "meta_batch": meta_batch, **config.to_dict()}, json, force,
    )  # fmt: skip


def shared_layers(
    size: str = "tiny,small,base",
    batch: str = "8",
    precision: str = "32",
    repeats: int = 8,
    json: str | None = None,
    force: bool = False,
) -> None:
    """Training steps with stage-wise weight sharing, and distillation, compared with an ordinary training step.

    shared_step trains 16 layers of which 5 are stored (ratio per layer); distilled_step trains with soft labels of a
    teacher of the same size; forward is the teacher's forward pass alone.

    Args:
        size: ViTs to measure, comma-separated: tiny, small, base. All have 12 layers and read images of 224 px.
        batch: Images per step; several values comma-separated.
        precision: Precision of autocast, comma-separated: 32 (off), tf32 (on GPUs), bf16, fp16.
        repeats: Timed rounds. Two rounds before them are not timed.
        json: File for the results: a JSON list of objects with size, what, seconds, ratio, peak_mb and the options.
        force: Replace a file that another command or program wrote.

    Raises:
        UserError: If a size or precision is unknown, a number is below 1, or the file exists and holds no such results.
    """
    from lgx.benchmark.shared_layers import measure_shared_layers

    _steps(
        lambda vit, b, p: measure_shared_layers(vit, b, p, repeats),
        size, batch, precision, {"repeats": repeats}, json, force,
    )  # fmt: skip


def fit(config: str, steps: int = 40, repeats: int = 3, json: str | None = None, force: bool = False) -> None:
    """A step of lgx fit with a configuration of yours, compared with a bare loop over the same losses and optimizer.

    Example: lgx bench --suite fit my.yaml

    Args:
        config: A configuration of lgx fit whose data are prepared.
        steps: Timed steps of each repetition.
        repeats: Repetitions; the fastest counts.
        json: File for the results: a JSON list of objects with size, what, seconds, ratio, peak_mb and the options.
        force: Replace a file that another command or program wrote.

    Raises:
        UserError: As lgx fit; also if a number is below 1, or the file exists and holds no such results.
    """
    from pathlib import Path

    from lgx.benchmark.fit_steps import measure_fit_steps
    from lgx.benchmark.options import positive
    from lgx.benchmark.report import check_place, print_table, save
    from lgx.benchmark.training_step import device

    positive("steps", steps)
    positive("repeats", repeats)
    check_place(json, force)
    setting = {"config": config, "steps": steps, "repeats": repeats, "device": device()}
    rows = [{"size": Path(config).stem, **row} for row in measure_fit_steps(config, steps, repeats)]
    print_table(f"{config}, {device()}", rows)
    save([{**row, **setting} for row in rows], json)


def data(
    img_size: int = 64,
    batch: str = "64",
    num_workers: int = 0,
    repeats: int = 3,
    json: str | None = None,
    force: bool = False,
) -> None:
    """Images per second from class folders, shards and decoded pixels, beside torchvision and webdataset.

    The images are 1,024 random JPEG files of 128 px. All ways resize, crop, flip and normalize alike.

    Args:
        img_size: Height and width of the inputs, pixels.
        batch: Images of a batch; several values comma-separated.
        num_workers: Loader processes.
        repeats: Repetitions; the fastest counts.
        json: File for the results: a JSON list of objects with size, what, seconds, ratio, peak_mb and the options.
        force: Replace a file that another command or program wrote.

    Raises:
        UserError: If a number is below 1, or the file exists and holds no such results.
    """
    from lgx.benchmark.loaders import measure_loaders
    from lgx.benchmark.options import positive
    from lgx.benchmark.report import check_place, print_table, save

    positive("img_size", img_size)
    positive("repeats", repeats)
    check_place(json, force)
    found = []
    for images in positive("batch", batch):
        measured = measure_loaders(img_size, images, num_workers, repeats)
        rows = [{"size": f"{img_size} px", **row} for row in measured]
        print_table(f"batches of {images}, {num_workers} loader processes", rows)
        found += [{**row, "batch": images, "num_workers": num_workers, "repeats": repeats} for row in rows]
    save(found, json)


def kit(
    config: str = "",
    size: str = "tiny,small,base",
    batch: str = "64,8,256",
    precision: str = "bf16,32,tf32,fp16",
    img_size: int = 224,
    repeats: int = 8,
    minutes: float = 12.0,
    json: str | None = None,
    force: bool = False,
) -> None:
    """All other suites on a machine with a GPU, the most important measurement first; `make gpu` runs it.

    Args:
        config: Configurations of lgx fit whose data are prepared, for suite fit; several are comma-separated.
        size: ViTs to measure, comma-separated: tiny, small, base.
        batch: Images per step, the most important first.
        precision: Precisions, comma-separated, the most important first.
        img_size: Height and width of the inputs of suite data, pixels.
        repeats: Timed rounds.
        minutes: No measurement begins after so many minutes.
        json: File for the results, which is written after each measurement.
        force: Replace a file that another command or program wrote.

    Raises:
        UserError: If a size or precision is unknown, a number is below 1, or the file exists and holds no such results.
    """
    from lgx.benchmark.kit import Kit, run
    from lgx.benchmark.options import positive
    from lgx.benchmark.report import check_place, line, save

    positive("img_size", img_size)
    positive("repeats", repeats)
    check_place(json, force)
    printed = 0

    def report(rows: list[dict[str, Any]]) -> None:
        nonlocal printed
        for row in rows[printed:]:
            print(line(row), flush=True)
        printed = len(rows)
        save(rows, json)

    configs = config.split(",") if config else []
    kit = Kit(_vits(size), positive("batch", batch), _precisions(precision), img_size, repeats, configs)
    save(run(kit, minutes, report), json)


SUITES: dict[str, Callable[..., None]] = {
    "hypernet": hypernet, "shared_layers": shared_layers, "fit": fit, "data": data, "kit": kit,
}  # fmt: skip


def _steps(
    measure: "Callable[[ViTArchitecture, int, str], list[dict[str, Any]]]",
    size: str,
    batch: str,
    precision: str,
    options: dict[str, Any],
    json: str | None,
    force: bool,
) -> None:
    """Measure steps of all sizes, batches and precisions; print a table for each batch and precision."""
    import torch
    from rich.console import Console

    from lgx.benchmark.options import positive
    from lgx.benchmark.report import check_place, print_table, save
    from lgx.benchmark.training_step import device, matrix_products
    from lgx.host.startup import keep_freed_memory

    vits, batches, precisions = _vits(size), positive("batch", batch), _precisions(precision)
    positive("repeats", options["repeats"])
    check_place(json, force)
    if device() == "cpu":
        keep_freed_memory()
    found: list[dict[str, Any]] = []
    for images, number in product(batches, precisions):
        title = f"batch {images}, precision {number}, {device()}, {torch.get_num_threads()} threads"
        rows: list[dict[str, Any]] = []
        for name, vit in vits.items():
            # Refreshed rarely, to take no time from the steps.
            status = Console().status(f"{name}, {title}", refresh_per_second=1)
            with status, matrix_products(number):
                rows += [{"size": name, **row} for row in measure(vit, images, number)]
        print_table(title, rows)
        found += [{**row, "batch": images, "precision": number, "device": device(), **options} for row in rows]
    save(found, json)


def _vits(text: str) -> "dict[str, ViTArchitecture]":
    from lgx.architectures import ViTArchitecture, parse_architecture
    from lgx.benchmark.options import choices

    found = {name: parse_architecture(SIZES[name]) for name in choices("size", text, SIZES)}
    return {name: vit for name, vit in found.items() if isinstance(vit, ViTArchitecture)}


def _precisions(text: str) -> list[str]:
    from lgx.benchmark.options import choices
    from lgx.benchmark.training_step import PRECISIONS

    return choices("precision", text, PRECISIONS)
