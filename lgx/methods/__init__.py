"""Methods: importing this package makes every one of them known to the CLI by its short name."""

from lgx.methods.base import Method
from lgx.methods.distill import Distill
from lgx.methods.finetune import Ancestor, Finetune
from lgx.methods.sws import SWS

__all__ = ["SWS", "Ancestor", "Distill", "Finetune", "Method"]
