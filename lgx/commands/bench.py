"""``lgx bench``: what a training step costs, as ratios taken in one run."""

import json as json_module
import time
from collections.abc import Callable

SIZES = {"tiny": "12-Tiny", "small": "12-Small", "base": "12-Base"}


def bench(size: str = "tiny", batch: int = 8, repeats: int = 5, json: str | None = None) -> None:
    """Time training steps of an ordinary ViT and of SWS's, and print each as a ratio to the ordinary step.

    Rows: ordinary_step (forward, backward, AdamW), shared_step (16 layers of which 5 are stored: SWS's auxiliary net,
    its ratio is per layer), distilled_step (the ordinary step with an ancestor of the same size), forward (the
    ancestor alone). Seconds are medians.

    Args:
        size: Comma-separated among tiny, small, base: 12 layers, 224 px.
        batch: Images per step.
        repeats: Timed steps per row, after one that is not timed.
        json: File to write the rows to, as a JSON list of {size, what, seconds, ratio, peak_mb}.
    """
    from rich.console import Console
    from rich.table import Table

    from lgx.errors import UserError
    from lgx.files import atomic_path

    unknown = [name for name in size.split(",") if name not in SIZES]
    if unknown:
        raise UserError(f"--size: {', '.join(unknown)} unknown; choose among {', '.join(SIZES)}")
    if min(batch, repeats) < 1:
        raise UserError(f"--batch and --repeats must be at least 1, got {batch} and {repeats}")
    rows = [row for name in size.split(",") for row in _measure(name, batch, repeats)]
    table = Table("size", "what", "seconds", "ratio", "peak MB")
    for row in rows:
        table.add_row(*(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    Console().print(table)
    if json:
        with atomic_path(json) as temporary:
            temporary.write_text(json_module.dumps(rows, indent=2) + "\n")


def _measure(size: str, batch: int, repeats: int) -> list[dict[str, str | float]]:
    import resource

    import torch
    from torch.nn.functional import cross_entropy

    from lgx.architectures import ViTArchitecture, parse_architecture
    from lgx.losses import distillation_loss

    device = "cuda" if torch.cuda.is_available() else "cpu"
    plain = parse_architecture(SIZES[size])
    shared = parse_architecture(f"{SIZES[size]},stages=3-3-4-3-3")
    images = torch.randn(batch, 3, 224, 224, device=device)
    targets = torch.randint(0, 1000, (batch,), device=device)
    teacher = plain.build().to(device).eval().requires_grad_(False)

    def step(architecture: ViTArchitecture, distilled: bool = False) -> Callable[[], None]:
        model = architecture.build().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

        def run() -> None:
            logits = model(images)
            loss = cross_entropy(logits, targets)
            if distilled:
                with torch.no_grad():
                    soft = teacher(images)
                loss = 0.5 * loss + 0.5 * distillation_loss(logits, soft)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    def forward() -> None:
        with torch.no_grad():
            teacher(images)

    def median(run: Callable[[], None]) -> float:
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            run()
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return sorted(times[1:])[repeats // 2]

    runs = {
        "ordinary_step": (step(plain), 1.0),
        "shared_step": (step(shared), plain.depth / shared.depth),
        "distilled_step": (step(plain, distilled=True), 1.0),
        "forward": (forward, 1.0),
    }
    rows: list[dict[str, str | float]] = []
    ordinary = 0.0
    for what, (run, scale) in runs.items():
        seconds = median(run)
        ordinary = ordinary or seconds
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else resident
        rows.append(
            {"size": size, "what": what, "seconds": seconds, "ratio": scale * seconds / ordinary, "peak_mb": peak}
        )
    return rows
