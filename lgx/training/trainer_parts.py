"""What lgx adds to the user's callbacks and plugins."""

from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import StochasticWeightAveraging
from lightning.pytorch.plugins.environments import ClusterEnvironment, SLURMEnvironment, TorchElasticEnvironment

from lgx.training.callbacks import (
    AtomicCheckpointIO,
    BuildNetwork,
    ResumeAveraging,
)


def as_list(given: Any) -> list[Any]:
    """The callbacks or plugins of a configuration, which may also be a single one, or none.

    Args:
        given: Value of ``trainer.callbacks`` or ``trainer.plugins``.
    """
    if given is None:
        return []
    return given if isinstance(given, list) else [given]


def with_averaging(given: list[Callback]) -> list[Callback]:
    """The user's callbacks; around Lightning's averaging of weights over epochs, what it needs."""
    averages = [callback for callback in given if isinstance(callback, StochasticWeightAveraging)]
    return [*(BuildNetwork() for _ in averages), *given, *map(ResumeAveraging, averages)]


def with_own_plugins(given: Any) -> list[Any]:
    """The user's plugins, atomic checkpoints, and on SLURM an environment that leaves requeueing to the callback."""
    plugins = [*as_list(given), AtomicCheckpointIO()]
    if _on_slurm() and not any(isinstance(plugin, ClusterEnvironment) for plugin in plugins):
        plugins.append(SLURMEnvironment(auto_requeue=False))
    return plugins


def _on_slurm() -> bool:
    """Whether SLURM starts the processes; within a job of SLURM torchrun may do that instead."""
    return SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
