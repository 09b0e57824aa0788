"""``lgx bench``: what a training step costs, as ratios taken in one run."""

import json as json_module
from typing import Any, Literal

SIZES = {"tiny": "12-Tiny", "small": "12-Small", "base": "12-Base"}


def bench(
    size: str = "tiny,small,base",
    batch: str = "8",
    suite: Literal["hyper", "sws"] = "hyper",
    precision: str = "32",
    meta_batch: int = 1,
    decoder: Literal["low_rank", "conv"] = "low_rank",
    layout: Literal["official", "residual", "aligned"] = "official",
    repeats: int = 8,
    json: str | None = None,
) -> None:
    """Time training steps, each as a ratio to an ordinary step of the same ViT in the same run.

    Suite hyper, a hypernetwork of LoGAH's size (width 128, rank 90, 21 M parameters): ordinary_step (forward, backward,
    AdamW), hyper_step (the same on predicted parameters, with the hypernetwork's backward pass and AdamW; per
    architecture; with the shares of graph, encode, decode and execute in it, the memory of its factored prediction,
    and that of the dense weights which it does without), predict (all weights, dense; to_products compares it with the
    bare products of their factors) and graph (built cold).

    Suite sws: ordinary_step, shared_step (16 layers of which 5 are stored, per layer), distilled_step, forward (the
    ancestor alone).

    Steps take turns; a step's seconds are those of its fastest round. Peak memory is what tensors take beyond what was
    there before the step.

    Args:
        size: Comma-separated among tiny, small, base: 12 layers, 224 px.
        batch: Images per step; comma-separated.
        suite: What to time.
        precision: Comma-separated among 32, bf16, fp16 (autocast).
        meta_batch: Architectures per step of the hypernetwork; this and the next two belong to suite hyper.
        decoder: Low-rank (LoGAH) or convolutional (GHN-3, width 128, max_shape 64).
        layout: Layout of LoGAH's factors.
        repeats: Timed rounds, after two that are not timed.
        json: File to write the rows to: a JSON list of objects with size, what, seconds, ratio, peak_mb, and the
            configuration.
    """
    import torch
    from rich.console import Console
    from rich.table import Column, Table

    from lgx.architectures import parse_architecture
    from lgx.benchmark.hyper import measure_hyper
    from lgx.benchmark.steps import PRECISIONS, device
    from lgx.benchmark.sws import measure_sws
    from lgx.core.allocator import keep_freed_memory
    from lgx.core.files import atomic_path
    from lgx.errors import UserError
    from lgx.hypernet import HypernetConfig

    sizes = _choices("size", size, SIZES)
    precisions = _choices("precision", precision, PRECISIONS)
    if not all(part.isdecimal() and int(part) > 0 for part in batch.split(",")):
        raise UserError(f"--batch: numbers of images, at least 1, got {batch}")
    if min(meta_batch, repeats) < 1:
        raise UserError(f"--meta_batch and --repeats must be at least 1, got {meta_batch} and {repeats}")
    conv = decoder == "conv"
    config = HypernetConfig(
        decoder=decoder, layout=layout, max_shape=(64, 64, 16, 16) if conv else (2048, 2048, 16, 16)
    )
    if device() == "cpu":
        keep_freed_memory()
    rows: list[dict[str, Any]] = []
    console = Console()
    for images, number in [(int(b), p) for b in batch.split(",") for p in precisions]:
        setting = {"batch": images, "precision": number, "repeats": repeats, "device": device()}
        if suite == "hyper":
            setting |= {"meta_batch": meta_batch, **config.to_dict()}
        title = f"batch {images}, precision {number}, {device()}, {torch.get_num_threads()} threads"
        table = Table("size", Column("what", no_wrap=True), "seconds", "ratio", "peak MB", "more", title=title)
        for name in sizes:
            architecture = parse_architecture(SIZES[name])
            with console.status(f"{name}, {title}", refresh_per_second=1):  # so that it takes no time of the steps
                if suite == "sws":
                    measured = measure_sws(architecture, images, number, repeats)
                else:
                    measured = measure_hyper(architecture, config, images, meta_batch, number, repeats)
            for row in measured:
                cells = f"{row['seconds']:.4f}", f"{row['ratio']:.3f}", f"{row['peak_mb']:.0f}"
                table.add_row(name, row["what"], *cells, _more(row))
            rows += [{"size": name, **row, **setting} for row in measured]
        console.print(table)
    if json:
        with atomic_path(json) as temporary:
            temporary.write_text(json_module.dumps(rows, indent=2) + "\n")


def _more(row: dict[str, Any]) -> str:
    """Shares and memory that a row has beside what all have."""
    own = {key: value for key, value in row.items() if key not in ("what", "seconds", "ratio", "peak_mb")}
    return ", ".join(f"{k.removeprefix('share_')} {v:.{0 if k.endswith('_mb') else 2}f}" for k, v in own.items())


def _choices(option: str, text: str, known: dict[str, Any]) -> list[str]:
    from lgx.errors import UserError

    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"--{option}: {', '.join(unknown)} unknown; choose among {', '.join(known)}")
    return names
