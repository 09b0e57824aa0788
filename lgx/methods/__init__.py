"""Methods: importing this package makes every one of them known to the CLI by its short name."""

from lgx.methods.base import Method
from lgx.methods.baselines.finetune import Ancestor, Finetune
from lgx.methods.baselines.pretrained import Pretrained
from lgx.methods.baselines.random import RandomStart
from lgx.methods.baselines.vanilla_lg import VanillaLG
from lgx.methods.baselines.weight_selection import WeightSelection
from lgx.methods.distillation.method import Distill
from lgx.methods.hypernetworks.ghn3 import GHN3
from lgx.methods.hypernetworks.initializer import HypernetPrediction
from lgx.methods.hypernetworks.logah import LoGAH
from lgx.methods.hypernetworks.tal import TAL
from lgx.methods.lsamd.initializer import SelectedExpansion
from lgx.methods.lsamd.method import LSAMD
from lgx.methods.mini_deit.method import MiniDeiT
from lgx.methods.registry import INITIALIZERS, initializer_for
from lgx.methods.sws.initializer import StagewiseExpansion
from lgx.methods.sws.method import SWS
from lgx.methods.tleg.initializer import LinearExpansion
from lgx.methods.tleg.method import TLEG

__all__ = [
    "GHN3", "INITIALIZERS", "LSAMD", "SWS", "TAL", "TLEG", "Ancestor", "Distill", "Finetune", "HypernetPrediction",
    "LinearExpansion", "LoGAH", "Method", "MiniDeiT", "Pretrained", "RandomStart", "SelectedExpansion",
    "StagewiseExpansion", "VanillaLG", "WeightSelection", "initializer_for",
]  # fmt: skip
