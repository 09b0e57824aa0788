"""Starts of models that are no ViTs of ours: timm's and torchvision's by name."""

from torch import Tensor

from lgx.architectures.zoo import ZooModel
from lgx.errors import UserError
from lgx.hypernet import trace
from lgx.initializers.base import Head, Initialisation, Initializer, loaded
from lgx.initializers.hypernet import HypernetPrediction
from lgx.initializers.random import RandomStart

STATISTICS = (
    "note      batch norm's means and variances are 0 and 1; re-estimate them on data before using it untrained"
)


def initialise_zoo(architecture: ZooModel, initializer: Initializer, head: Head = "keep") -> Initialisation:
    """Build a zoo's model and give it its start.

    Args:
        architecture: What to build; its ``num_classes`` is the descendant's.
        initializer: A hypernetwork or the random start; other methods know ViTs only.
        head: ``keep`` predicts the head too; ``new`` leaves it random.

    Returns:
        The model and a record of what came from where.

    Raises:
        UserError: If the initializer is for ViTs only, or the model cannot be traced.
    """
    if not isinstance(initializer, HypernetPrediction | RandomStart):
        raise UserError(
            f"method {initializer.method} starts ViTs only; {architecture.name} can be started by ghn3, logah, "
            f"logah_residual and random"
        )
    model = architecture.build()
    tensors: dict[str, Tensor] = {}
    notes: tuple[str, ...] = ()
    if isinstance(initializer, HypernetPrediction):
        graph = trace(model, architecture.image, initializer.loaded.config.convention, architecture.name)
        heads = {node.parameter for node in graph.nodes if node.head}
        predicted = initializer.for_model(model, graph)
        tensors = {name: t for name, t in predicted.items() if head == "keep" or name not in heads}
        notes = initializer.tiled(graph, tensors)
    if any(name.endswith("running_var") for name, _ in model.named_buffers()):
        notes += (STATISTICS,)
    return loaded(model, tensors, initializer.stored_parameters, notes)
