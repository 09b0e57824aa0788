"""Initialize models of timm and torchvision."""

from lgx.architectures.library_models import LibraryModel
from lgx.initialization.descendants import Initialization, load_parameters
from lgx.initialization.initializer import Head, Initializer

_STATISTICS = (
    "note      batch norm's means and variances are 0 and 1; estimate them on data before you use the model untrained"
)


def initialize_library_model(
    architecture: LibraryModel, initializer: Initializer, head: Head = "keep"
) -> Initialization:
    """Build a model of timm or torchvision and initialize it.

    Args:
        architecture: The model, with the descendant's number of classes.
        initializer: An initializer that starts this model.
        head: ``keep`` takes the head from the initializer, too; ``new`` initializes it at random.

    Returns:
        The model and a record of its initialization.
    """
    model = architecture.build()
    tensors, notes = initializer.start_model(model, architecture, head)
    if any(name.endswith("running_var") for name, _ in model.named_buffers()):
        notes += (_STATISTICS,)
    return load_parameters(model, tensors, initializer.stored_parameters, notes)
