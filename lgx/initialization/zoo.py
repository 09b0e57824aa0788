"""Starts of models that are no ViTs of lgx: models of timm and torchvision by name."""

from lgx.architectures.zoo import ZooModel
from lgx.errors import UserError
from lgx.initialization.base import Head, Initialization, Initializer, loaded

STATISTICS = (
    "note      batch norm's means and variances are 0 and 1; re-estimate them on data before using it untrained"
)


def initialize_zoo(architecture: ZooModel, initializer: Initializer, head: Head = "keep") -> Initialization:
    """Build a model of a zoo and give it its start.

    Args:
        architecture: What to build; its ``num_classes`` is the descendant's.
        initializer: An initializer with ``starts_any_model``.
        head: ``keep`` takes the head from the initializer too; ``new`` leaves it random.

    Returns:
        The model and a record of what came from where.

    Raises:
        UserError: If the initializer starts ViTs only, or the model cannot be traced.
    """
    if not initializer.starts_any_model:
        raise UserError(f"method {initializer.method} starts ViTs only, and {architecture.name} is another model")
    model = architecture.build()
    tensors, notes = initializer.start_model(model, architecture, head)
    if any(name.endswith("running_var") for name, _ in model.named_buffers()):
        notes += (STATISTICS,)
    return loaded(model, tensors, initializer.stored_parameters, notes)
