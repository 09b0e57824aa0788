"""Private members of Lightning, jsonargparse and argparse that lgx needs.

Each function says why there is no public way, and what happens if the member is gone. A test of what it serves fails
when the member changes.
"""

import inspect
from argparse import ArgumentParser
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, TypeVar, get_args

if TYPE_CHECKING:  # commands that do not train read command lines with this module, and need no Lightning
    from lightning.pytorch import Trainer

C = TypeVar("C")


def callbacks_of(trainer: "Trainer", kind: type[C]) -> list[C]:
    """The trainer's callbacks of a class, in their order. Its list is public, but not declared."""
    return [callback for callback in vars(trainer)["callbacks"] if isinstance(callback, kind)]


def find_unused_parameters(trainer: "Trainer") -> None:
    """Let DDP expect steps that use a part of the network; it costs time, so that only methods that need it have it.

    Which these are is known after the user's strategy is built; a name such as ``ddp`` has no options. Without the
    member DDP ends the run and names the option ``ddp_find_unused_parameters_true``.
    """
    from lightning.pytorch.strategies import DDPStrategy

    if isinstance(trainer.strategy, DDPStrategy) and hasattr(trainer.strategy, "_ddp_kwargs"):
        trainer.strategy._ddp_kwargs["find_unused_parameters"] = True


def begin_epochs_after_whole_ones(trainer: "Trainer") -> None:
    """Let a run with ``max_steps`` that resumes after a whole epoch begin the next epoch, as a run without it does.

    Lightning takes every resumed run with ``max_steps`` for one that stopped within an epoch. It would lose the next
    epoch. No option changes this. Without the member ``test_resume.py`` fails.
    """
    trainer.fit_loop._iteration_based_training = lambda: False  # type: ignore[method-assign]


def forget_averages(trainer: "Trainer") -> None:
    """Let validations after training see the network's weights, which its end has set.

    Lightning's callbacks that average weights keep the average, and put it into the network for each validation. No
    option changes this. Without the member a validation has the average.
    """
    from lightning.pytorch.callbacks import WeightAveraging

    for callback in callbacks_of(trainer, WeightAveraging):
        callback._average_model = None


def read_whole_numbers_first(trainer: "type[Trainer]") -> None:
    """Let jsonargparse read ``limit_train_batches`` and its like as whole numbers first, then as shares.

    typing returns ``Optional[Union[float, int]]`` for the equal ``Optional[Union[int, float]]`` if another package
    wrote the former first. 100 batches would then be the share 100.0. No option of jsonargparse changes this.
    """
    hints = inspect.unwrap(trainer.__init__).__annotations__
    for name, hint in hints.items():
        if {int, float} <= set(parts := get_args(hint)):
            hints[name] = reduce(or_, sorted(parts, key=lambda part: part is not int))


def option_strings(parser: ArgumentParser) -> list[str]:
    """All options of a parser with their dashes; argparse does not list them. Without the member there is none."""
    actions = getattr(parser, "_actions", ())
    return [option for action in actions for option in action.option_strings if option.startswith("-")]
