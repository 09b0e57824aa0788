"""``lgx bench``: time and memory of training steps, as ratios to an ordinary step in the same run."""

import json as json_module
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from lgx.hypernet import HypernetConfig

SIZES = {"tiny": "12-Tiny", "small": "12-Small", "base": "12-Base"}
_COMMON = ("size", "what", "seconds", "ratio", "peak_mb")
"""Keys of every row of results."""


def bench(
    size: str = "tiny,small,base",
    batch: str = "8",
    suite: Literal["hypernet", "shared_layers", "fit", "data"] = "hypernet",
    precision: str = "32",
    meta_batch: int = 1,
    decoder: Literal["low_rank", "conv"] = "low_rank",
    layout: Literal["official", "residual", "aligned"] = "official",
    config: str | None = None,
    steps: int = 40,
    img_size: int = 64,
    num_workers: int = 0,
    repeats: int = 8,
    json: str | None = None,
    force: bool = False,
) -> None:
    """Measure training steps and compare each with an ordinary training step of the same ViT in the same run.

    Example: lgx bench --size tiny --batch 8,32 --json bench.json. An ordinary step is forward pass, backward pass and
    AdamW on random images. Ratios depend less on the machine than seconds, which are those of a step's fastest round.

    Suite hypernet measures a hypernetwork of LoGAH's size (width 128, rank 90, 21 M parameters): hyper_step trains it
    (ratio per architecture; with the shares of graph, encode, decode and execute in its time, and the memory of the
    factored prediction and of the same weights as dense tensors); predict computes all weights as dense tensors
    (to_products: its time divided by the time of the bare products of the factors); graph builds the computational
    graph without the cache.

    Suite shared_layers measures stage-wise weight sharing: shared_step trains 16 layers of which 5 are stored (ratio
    per layer); distilled_step trains with soft labels of a teacher of the same size; forward is the teacher's forward
    pass alone.

    Suite fit measures a step of lgx fit with a configuration of yours, and compares it with a bare loop over the same
    losses and optimizer: lgx bench --suite fit --config my.yaml --repeats 3.

    Suite data measures how many images per second lgx reads from class folders, shards and decoded pixels, beside
    torchvision's ImageFolder and a plain pipeline of webdataset: lgx bench --suite data --batch 64 --num_workers 2.

    Args:
        size: ViTs to measure, comma-separated: tiny, small, base. All have 12 layers and read images of 224 px.
        batch: Images per step; several values comma-separated.
        suite: What to measure.
        precision: Precision of autocast, comma-separated: 32 (off), bf16, fp16.
        meta_batch: Architectures per step of the hypernetwork. This option, decoder and layout are for suite hypernet.
        decoder: Decoder of the hypernetwork: low_rank (LoGAH) or conv (GHN-3 with width 128 and max_shape 64).
        layout: How the low-rank decoder computes its factors: official (as published), residual or aligned.
        config: For suite fit: a configuration of lgx fit whose data are prepared.
        steps: For suite fit: timed steps of each repetition.
        img_size: For suite data: height and width of the inputs, pixels.
        num_workers: For suite data: loader processes.
        repeats: Timed rounds. Two rounds before them are not timed.
        json: File for the results: a JSON list of objects with size, what, seconds, ratio, peak_mb and the options.
        force: Replace a file that another command or program wrote.

    Raises:
        UserError: If a size or precision is unknown, a number is below 1, or the file exists and holds no such results.
    """
    from lgx.benchmark.training_step import PRECISIONS, device
    from lgx.core.allocator import keep_freed_memory
    from lgx.core.files import atomic_path
    from lgx.errors import UserError

    sizes, batches = _choices("size", size, SIZES), _positive_numbers("batch", batch)
    precisions = _choices("precision", precision, PRECISIONS)
    for option, count in (("meta_batch", meta_batch), ("steps", steps), ("img_size", img_size), ("repeats", repeats)):
        _positive_numbers(option, str(count))
    _check_place(json, force)
    if suite == "fit" and config is None:
        raise UserError("--config: suite fit measures a configuration of lgx fit; name its file")
    if device() == "cpu":
        keep_freed_memory()
    rows: list[dict[str, Any]] = []
    if suite == "fit":
        rows = _measure_fit(str(config), steps, repeats)
    elif suite == "data":
        rows = [row for images in batches for row in _measure_loaders(img_size, images, num_workers, repeats)]
    else:
        hypernet = _config(decoder, layout) if suite == "hypernet" else None
        for images, number in product(batches, precisions):
            rows += _measure(sizes, hypernet, images, meta_batch, number, repeats)
    if json:
        with atomic_path(json) as temporary:
            temporary.write_text(json_module.dumps(rows, indent=2) + "\n", encoding="utf-8")


def _measure(
    sizes: list[str], config: "HypernetConfig | None", batch: int, meta_batch: int, precision: str, repeats: int
) -> list[dict[str, Any]]:
    """Measure all sizes and print a table; suite hypernet if there is a configuration, else suite shared_layers."""
    import torch
    from rich.console import Console

    from lgx.architectures import parse_architecture
    from lgx.benchmark.hypernet_steps import measure_hypernet_steps
    from lgx.benchmark.shared_layers import measure_shared_layers
    from lgx.benchmark.training_step import device

    console = Console()
    title = f"batch {batch}, precision {precision}, {device()}, {torch.get_num_threads()} threads"
    rows: list[dict[str, Any]] = []
    for name in sizes:
        architecture = parse_architecture(SIZES[name])
        with console.status(f"{name}, {title}", refresh_per_second=1):  # rarely, to take no time from the steps
            if config is None:
                measured = measure_shared_layers(architecture, batch, precision, repeats)
            else:
                measured = measure_hypernet_steps(architecture, config, batch, meta_batch, precision, repeats)
        rows += [{"size": name, **row} for row in measured]
    _print_table(console, title, rows)
    setting: dict[str, Any] = {"batch": batch, "precision": precision, "repeats": repeats, "device": device()}
    if config is not None:
        setting |= {"meta_batch": meta_batch, **config.to_dict()}
    return [{**row, **setting} for row in rows]


def _measure_fit(config: str, steps: int, repeats: int) -> list[dict[str, Any]]:
    """Measure the steps of a configuration and print a table."""
    from pathlib import Path

    import torch
    from rich.console import Console

    from lgx.benchmark.fit_steps import measure_fit_steps
    from lgx.benchmark.training_step import device

    rows = [{"size": Path(config).stem, **row} for row in measure_fit_steps(config, steps, repeats)]
    _print_table(Console(), f"{config}, {device()}, {torch.get_num_threads()} threads", rows)
    return [{**row, "config": config, "steps": steps, "repeats": repeats, "device": device()} for row in rows]


def _measure_loaders(img_size: int, batch: int, num_workers: int, repeats: int) -> list[dict[str, Any]]:
    """Measure the ways to read images and print a table."""
    from rich.console import Console

    from lgx.benchmark.loaders import measure_loaders

    measured = measure_loaders(img_size, batch, num_workers, repeats)
    rows = [{"size": f"{img_size} px", **row} for row in measured]
    _print_table(Console(), f"batches of {batch}, {num_workers} loader processes", rows)
    return [{**row, "batch": batch, "num_workers": num_workers, "repeats": repeats} for row in rows]


def _config(
    decoder: Literal["low_rank", "conv"], layout: Literal["official", "residual", "aligned"]
) -> "HypernetConfig":
    from lgx.hypernet import HypernetConfig

    largest = (64, 64, 16, 16) if decoder == "conv" else (2048, 2048, 16, 16)
    return HypernetConfig(decoder=decoder, layout=layout, max_shape=largest)


def _check_place(json: str | None, force: bool) -> None:
    from lgx.core.outputs import check_file

    if json:
        check_file(json, "lgx bench", _is_own, force=force, option="--json")


def _is_own(file: "Path") -> bool:
    """Whether a file holds results of this command."""
    from lgx.core.json_files import read_json
    from lgx.errors import UserError

    try:
        rows = read_json(file, "")
    except UserError:
        return False
    rows = rows if isinstance(rows, list) else []
    return bool(rows) and all(isinstance(row, dict) and {*_COMMON} <= row.keys() for row in rows)


def _print_table(console: Any, title: str, rows: list[dict[str, Any]]) -> None:
    from rich.table import Column, Table

    table = Table("size", Column("what", no_wrap=True), "seconds", "ratio", "peak MB", "more", title=title)
    for row in rows:
        cells = f"{row['seconds']:.4f}", f"{row['ratio']:.3f}", f"{row['peak_mb']:.0f}"
        table.add_row(row["size"], row["what"], *cells, _more(row))
    console.print(table)


def _more(row: dict[str, Any]) -> str:
    """Values of a row that not all rows have."""
    own = {key: value for key, value in row.items() if key not in _COMMON}
    whole = ("_mb", "_per_s")
    return ", ".join(f"{k.removeprefix('share_')} {v:.{0 if k.endswith(whole) else 2}f}" for k, v in own.items())


def _choices(option: str, text: str, known: dict[str, Any]) -> list[str]:
    from lgx.errors import UserError

    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"--{option}: unknown value {', '.join(unknown)}; choose from {', '.join(known)}")
    return names


def _positive_numbers(option: str, text: str) -> list[int]:
    from lgx.errors import UserError

    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UserError(f"--{option}: must be at least 1, got {text}")
    return list(map(int, parts))
