"""Operations that a training step starts. On a GPU the CPU, which starts them, often decides the time of a step."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.fit_steps import bare_step, timed_run
from benchmarks.hypernet_steps import LARGEST, NORM_WEIGHT
from benchmarks.methods import command
from benchmarks.nested import nested_passes
from benchmarks.steps import ordinary_step, random_images, training_step
from lgx.architectures import ViTArchitecture
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.functional_forward import Projection, meta_batch_loss
from lgx.methods.hypernetworks.tal import feature_divergence

PREDICTED = ("LoGAH", "TAL", "GHN3")
"""Methods whose networks are drawn: their steps are counted with the architecture of the ordinary step."""
_FEATURES = 768
"""Width of the ancestor's features."""
_ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view"}


class _Operations(TorchDispatchMode):
    """Counts operations, without views and without memory that is only allocated.

    Attributes:
        total: Number of operations.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.total += not (func.is_view or func.overloadpacket.__name__ in {*_ALLOCATIONS, "detach"})
        return func(*args, **(kwargs or {}))


def operations(step: Callable[[], object]) -> int:
    """Number of operations that a step starts after the first one, in which the optimizer creates its state."""
    step()
    counted = _Operations()
    with counted:
        step()
    return counted.total


def predicted_step(method: str, architecture: ViTArchitecture, batch: int) -> tuple[Hypernet, Callable[[], None]]:
    """A hypernetwork and its training step with one architecture.

    Args:
        method: One of :data:`PREDICTED`. TAL is its first stage, without the forward pass of the ancestor.
        architecture: The predicted network.
        batch: Images of the step.
    """
    decoder: Any = "conv" if method == "GHN3" else "low_rank"
    hypernet = Hypernet(HypernetConfig(decoder=decoder, max_shape=LARGEST[decoder]))
    inputs, targets = random_images(architecture, batch)
    wanted = torch.randn(batch, _FEATURES)
    projection: Projection = "predicted" if method == "TAL" else "none"

    def losses(logits: Tensor, features: Tensor) -> Tensor:
        labels = F.cross_entropy(logits, targets)
        return torch.stack([labels, feature_divergence(features, wanted)]) if method == "TAL" else labels

    def loss() -> Tensor:
        means, norms = meta_batch_loss(hypernet, [architecture], inputs, losses, None, projection, _FEATURES)
        return means.sum() + NORM_WEIGHT * norms

    return hypernet, training_step(hypernet, loss, "32")


def count_predicted(architecture: ViTArchitecture, batch: int) -> list[dict[str, Any]]:
    """Count the steps and predictions of hypernetworks, and passes of slices, beside an ordinary step.

    Returns:
        Rows with ``what``, ``operations``, and ``ratio`` to those of the ordinary step.
    """
    counts = {"ordinary step": operations(ordinary_step(architecture, batch, "32"))}
    for method in PREDICTED:
        hypernet, step = predicted_step(method, architecture, batch)
        counts[f"{method} step"] = operations(step)
        counts[f"{method} prediction"] = operations(torch.no_grad()(lambda net=hypernet: net.predict(architecture)))
    torch.manual_seed(0)
    for name, passes in nested_passes(architecture, batch, "32").items():
        counts[f"passes of three {'slices' if name == 'slices' else 'separate networks'}"] = operations(passes)
    first = counts["ordinary step"]
    return [{"what": what, "operations": count, "ratio": count / first} for what, count in counts.items()]


def count_method(method: str, arch: str, root: str, batch: int) -> list[dict[str, Any]]:
    """Count a step of a method of :data:`~benchmarks.methods.METHODS` after a short run; arguments as there.

    Returns:
        One row with ``what`` and ``operations``.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        cli, times = timed_run(command(method, arch, root, batch, Path(folder)), folder, 1, held)
        assert times.batch is not None
        return [{"what": method, "operations": operations(bare_step(cli, times.batch))}]
