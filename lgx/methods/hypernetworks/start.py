"""The hypernetwork that a later stage of TAL starts from."""

from lgx.architectures import Architecture
from lgx.artifacts.learngene import SUFFIX, Learngene, is_learngene
from lgx.errors import UserError
from lgx.hypernet import HypernetConfig
from lgx.hypernet.checkpoints import read_config


def config_of(start: str, architecture: Architecture) -> HypernetConfig:
    """The configuration of the hypernetwork in a learngene file.

    Args:
        start: Learngene file of a hypernetwork.
        architecture: Whose inputs the new stage reads.

    Raises:
        UserError: If the file is no such learngene, or was trained on other inputs.
    """
    if not is_learngene(start):
        raise UserError(f"model.start: expected a learngene file (*{SUFFIX}) of TAL, LoGAH or GHN-3, got {start}")
    learngene = Learngene.load(start)
    if learngene.hypernet is None:
        raise UserError(f"model.start: {start} is a learngene of {learngene.method}, not a hypernetwork")
    own, trained = (getattr(network, "vocab_size", None) for network in (architecture, learngene.architecture))
    if own != trained:
        read = ["images" if size is None else f"texts of {size} tokens" for size in (trained, own)]
        raise UserError(f"model.start: {start} was trained on {read[0]}, but model.arch reads {read[1]}")
    return read_config(learngene.hypernet, start)
