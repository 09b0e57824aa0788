"""Methods: importing this package makes every one of them known to the CLI by its short name."""

from lgx.methods.base import Method
from lgx.methods.distill import Distill
from lgx.methods.finetune import Ancestor, Finetune
from lgx.methods.ghn import GHN3, LoGAH
from lgx.methods.lsamd import LSAMD
from lgx.methods.multiplex import MiniDeiT
from lgx.methods.sws import SWS
from lgx.methods.tal import TAL
from lgx.methods.tleg import TLEG

__all__ = ["GHN3", "LSAMD", "SWS", "TAL", "TLEG", "Ancestor", "Distill", "Finetune", "LoGAH", "Method", "MiniDeiT"]
