"""Time and memory of training with layers that share weights, and of distillation."""

from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.nested import nested_passes
from benchmarks.steps import autocast, device, measure, ordinary_step, random_images, training_step
from lgx.architectures import ViTArchitecture
from lgx.components.losses import distillation_loss

STAGES = (3, 3, 4, 3, 3)
"""Layers of each stage; the layers of a stage share one layer's weights."""


def measure_shared_layers(
    architecture: ViTArchitecture, batch: int, precision: str, repeats: int
) -> list[dict[str, Any]]:
    """Measure the steps of stage-wise weight sharing (SWS), and the passes of nested slices.

    - ``ordinary_step``: the reference.
    - ``shared_step``: an ordinary step of a ViT with :data:`STAGES`; its ratio is per layer.
    - ``distilled_step``: a step with soft labels from a frozen teacher of the same architecture.
    - ``forward``: the teacher's forward pass alone.
    - ``slices`` and ``separate``: see :func:`~benchmarks.nested.nested_passes`.

    Returns:
        One row for each step, see :func:`~benchmarks.steps.measure`.
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

    rows = measure(
        {
            "ordinary_step": ordinary_step(architecture, batch, precision),
            "shared_step": ordinary_step(shared, batch, precision),
            "distilled_step": training_step(student, distilled, precision),
            "forward": forward,
            **nested_passes(architecture, batch, precision),
        },
        reference="ordinary_step",
        repeats=repeats,
    )
    rows["shared_step"]["ratio"] *= architecture.depth / shared.depth
    return list(rows.values())
