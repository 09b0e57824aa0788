"""Initializers: every way to give a descendant its start, behind one protocol."""

from lgx.initializers.base import Initialisation, Initializer, initialise
from lgx.initializers.hypernet import HypernetPrediction
from lgx.initializers.linear import LinearExpansion
from lgx.initializers.pretrained import Pretrained, VanillaLG, WeightSelection
from lgx.initializers.random import RandomStart
from lgx.initializers.registry import INITIALIZERS, initializer_for
from lgx.initializers.searched import SearchedExpansion
from lgx.initializers.stagewise import StagewiseExpansion
from lgx.initializers.zoo import initialise_zoo

__all__ = [
    "INITIALIZERS",
    "HypernetPrediction",
    "Initialisation",
    "Initializer",
    "LinearExpansion",
    "Pretrained",
    "RandomStart",
    "SearchedExpansion",
    "StagewiseExpansion",
    "VanillaLG",
    "WeightSelection",
    "initialise",
    "initialise_zoo",
    "initializer_for",
]
