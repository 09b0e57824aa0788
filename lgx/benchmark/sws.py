"""What SWS's steps cost."""

from typing import Any

import torch
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture
from lgx.benchmark.steps import autocast, device, images, ordinary_step, training_step
from lgx.benchmark.timing import measure
from lgx.components.losses import distillation_loss

STAGES = (3, 3, 4, 3, 3)


def measure_sws(architecture: ViTArchitecture, batch: int, precision: str, repeats: int) -> list[dict[str, Any]]:
    """Rows ordinary_step, shared_step (its ratio is per layer), distilled_step and forward (the ancestor alone)."""
    shared = architecture.replace(depth=sum(STAGES), stages=STAGES)
    inputs, targets = images(architecture, batch)
    teacher = architecture.build().to(device()).eval().requires_grad_(False)
    student = architecture.build().to(device())

    def distilled() -> torch.Tensor:
        logits = student(inputs)
        with torch.no_grad():
            soft = teacher(inputs)
        return 0.5 * F.cross_entropy(logits, targets) + 0.5 * distillation_loss(logits, soft)

    def forward() -> None:
        with torch.no_grad(), autocast(precision):
            teacher(inputs)

    costs = measure(
        {
            "ordinary_step": ordinary_step(architecture, batch, precision),
            "shared_step": ordinary_step(shared, batch, precision),
            "distilled_step": training_step(student, distilled, precision),
            "forward": forward,
        },
        reference="ordinary_step",
        repeats=repeats,
    )
    per_layer = {"shared_step": architecture.depth / shared.depth}
    return [
        {"what": what, "seconds": cost.seconds, "ratio": cost.ratio * per_layer.get(what, 1), "peak_mb": cost.peak_mb}
        for what, cost in costs.items()
    ]
