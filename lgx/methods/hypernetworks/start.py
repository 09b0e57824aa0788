"""The hypernetwork that a later stage of TAL starts from."""

from typing import NamedTuple

from lgx.architectures import Architecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.errors import UserError
from lgx.hypernet import HypernetConfig
from lgx.hypernet.checkpoints import read_config


class EarlierStage(NamedTuple):
    """What a stage needs to know of the one that it starts from.

    Attributes:
        config: Configuration of its hypernetwork.
        trained_widths: Widths of the networks that it was trained on; empty where unknown.
    """

    config: HypernetConfig
    trained_widths: tuple[int, ...]


def earlier_stage(start: str, architecture: Architecture) -> EarlierStage:
    """The stage that left a learngene file.

    Args:
        start: Learngene file of a hypernetwork.
        architecture: Whose inputs the new stage reads.

    Raises:
        UserError: If the file is no such learngene, or was trained on other inputs.
    """
    if not start.endswith(SUFFIX):
        raise UserError(f"model.start: expected a learngene file (*{SUFFIX}) of TAL, LoGAH or GHN-3, got {start}")
    learngene = Learngene.load(start)
    if learngene.hypernet is None:
        raise UserError(f"model.start: {start} is a learngene of {learngene.method}, not a hypernetwork")
    own, trained = (getattr(network, "vocab_size", None) for network in (architecture, learngene.architecture))
    if own != trained:
        read = ["images" if size is None else f"texts of {size} tokens" for size in (trained, own)]
        raise UserError(f"model.start: {start} was trained on {read[0]}, but model.arch reads {read[1]}")
    return EarlierStage(read_config(learngene.hypernet, start), learngene.trained_widths)
