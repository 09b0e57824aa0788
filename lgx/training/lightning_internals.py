"""Private members of Lightning, jsonargparse and argparse that lgx needs; no other module touches one of a package.

Each function says why there is no public way, and what happens if the member is gone.
``tests/training/test_lightning_internals.py`` fails when one of them changes.
"""

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands that do not train read command lines with this module, and need no Lightning
    from lightning.pytorch import Callback, Trainer
    from torch import Tensor
    from torch.optim.swa_utils import AveragedModel


def place_evaluation(trainer: "Trainer", step: int, epochs: int) -> None:
    """Let loggers show an evaluation at the step of its checkpoint.

    Lightning restores progress in ``fit`` alone, so that ``test`` and ``validate`` log at step 0
    (Lightning-AI/pytorch-lightning#12724). Without the member they do so again.
    """
    loop: Any = trainer.fit_loop
    if hasattr(loop.epoch_loop, "_batches_that_stepped"):
        loop.epoch_loop._batches_that_stepped = step
        loop.epoch_progress.current.completed = epochs


def find_unused_parameters(trainer: "Trainer") -> None:
    """Let DDP expect steps that use a part of the network; it costs time, so that only methods that need it have it.

    Which these are is known after the user's strategy is built; a name such as ``ddp`` has no options. Without the
    member DDP ends the run and names the option ``ddp_find_unused_parameters_true``.
    """
    from lightning.pytorch.strategies import DDPStrategy

    if isinstance(trainer.strategy, DDPStrategy) and hasattr(trainer.strategy, "_ddp_kwargs"):
        trainer.strategy._ddp_kwargs["find_unused_parameters"] = True


def warm_up_average(callback: "Callback") -> None:
    """Let the decay of an ``EMAWeightAveraging`` begin small: min(decay, (1 + t) / (10 + t)) after t averaged steps.

    With a constant decay of 0.999 the average of some hundred steps is mostly the start (timm's ``ModelEmaV3`` warms
    up, too). Lightning passes its function on when it makes the average. Without the member the decay is constant.

    Args:
        callback: The callback, before it is set up; any other callback stays as it is.
    """
    from lightning.pytorch.callbacks import EMAWeightAveraging

    options: Any = getattr(callback, "_kwargs", {})
    if not isinstance(callback, EMAWeightAveraging) or "avg_fn" not in options:
        return
    decay = float(options["avg_fn"](1.0, 0.0, 0))

    def warmed(mean: "Tensor", now: "Tensor", averaged: "Tensor") -> "Tensor":
        return mean + (1 - ((1 + averaged) / (10 + averaged)).clamp(max=decay)) * (now - mean)

    options["avg_fn"] = warmed


def averaged_model(callback: "Callback") -> "AveragedModel | None":
    """The network that a ``WeightAveraging`` keeps; None for other callbacks.

    Without the member it is None, too: until its first update the average is then the start's weights.
    """
    average: Any = getattr(callback, "_average_model", None)
    return average if hasattr(average, "n_averaged") else None


def option_strings(parser: ArgumentParser) -> list[str]:
    """All options of a parser with their dashes; argparse does not list them. Without the member there is none."""
    actions = getattr(parser, "_actions", ())
    return [option for action in actions for option in action.option_strings if option.startswith("-")]
