"""Time and memory of training with layers that share weights, and of distillation."""

from typing import Any

import torch
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture
from lgx.benchmark.timing import measure
from lgx.benchmark.training_step import autocast, device, ordinary_step, random_images, training_step
from lgx.components.losses import distillation_loss

STAGES = (3, 3, 4, 3, 3)
"""Layers of each stage; the layers of a stage share one layer's weights."""


def measure_shared_layers(
    architecture: ViTArchitecture, batch: int, precision: str, repeats: int
) -> list[dict[str, Any]]:
    """Measure the steps that stage-wise weight sharing (SWS) consists of.

    - ``ordinary_step``: the reference.
    - ``shared_step``: an ordinary step of a ViT with :data:`STAGES`; its ratio is per layer.
    - ``distilled_step``: a step with soft labels from a frozen teacher of the same architecture.
    - ``forward``: the teacher's forward pass alone.

    Args:
        architecture: The ViT.
        batch: Images of a step.
        precision: A key of :data:`~lgx.benchmark.training_step.PRECISIONS`.
        repeats: Timed rounds.

    Returns:
        One row for each step: ``what``, ``seconds``, ``ratio`` and ``peak_mb``; see
        :class:`~lgx.benchmark.timing.Cost`.
    """
    shared = architecture.replace(depth=sum(STAGES), stages=STAGES)
    inputs, targets = random_images(architecture, batch)
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
