"""Learning-rate schedules and parameter groups."""

import inspect
import math
from collections.abc import Callable, Sequence, Set
from functools import partial
from itertools import chain
from typing import Any, Protocol

import torch
from timm.optim import param_groups_layer_decay, param_groups_weight_decay
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from lgx.errors import UserError


class WarmupCosine(LambdaLR):
    """Linear warm-up followed by a cosine decay (Loshchilov and Hutter, 2017); stepped after every optimizer step.

    Args:
        optimizer: Set by the method.
        total_steps: Set by the method: optimizer steps of the whole run.
        warmup: Share of ``total_steps`` used for the warm-up, in [0, 1).
    """

    def __init__(self, optimizer: Optimizer, total_steps: int, warmup: float = 0.05) -> None:
        if not 0 <= warmup < 1:
            raise UserError(f"scheduler.warmup: must be a share of the run in [0, 1), got {warmup}")
        warm = round(warmup * total_steps)

        def factor(step: int) -> float:
            if step < warm:
                return (step + 1) / (warm + 1)
            progress = min(1.0, (step - warm) / max(1, total_steps - warm))
            return 0.5 * (1 + math.cos(math.pi * progress))

        super().__init__(optimizer, factor)


class Poly(LambdaLR):
    """Polynomial decay to zero, (1 - t / T)^power (LSAMD, appendix); stepped after every optimizer step.

    Args:
        optimizer: Set by the method.
        total_steps: Set by the method: T, optimizer steps of the whole run.
        power: Exponent.
    """

    def __init__(self, optimizer: Optimizer, total_steps: int, power: float = 0.9) -> None:
        super().__init__(optimizer, lambda step: max(0.0, 1 - step / max(1, total_steps)) ** power)


class SchedulerCallable(Protocol):
    """Makes a scheduler, which is stepped after every update, of an optimizer and the optimizer steps of the run."""

    def __call__(self, optimizer: Optimizer, /, total_steps: int) -> LRScheduler:
        """Make the scheduler."""
        ...


_LENGTHS = {"CosineAnnealingLR": "T_max", "PolynomialLR": "total_iters"}
"""torch's schedulers -> their argument for ``total_steps``."""


def length_argument(kind: type[LRScheduler]) -> str:
    """The argument of a scheduler for the length of the run in updates."""
    return _LENGTHS.get(kind.__name__, "total_steps")


def make_scheduler(make: SchedulerCallable, optimizer: Optimizer, total_steps: int) -> LRScheduler:
    """Make the scheduler of a run; a scheduler of torch gets the run's length if it has an argument for it.

    Args:
        make: The scheduler's class, a ``functools.partial`` of it, or any function of both other arguments.
        optimizer: The optimizer.
        total_steps: Optimizer steps of the whole run.
    """
    parts = (make.func, *make.args) if isinstance(make, partial) else (make,)
    kind = next((part for part in parts if inspect.isclass(part) and issubclass(part, LRScheduler)), None)
    if kind is None:
        return make(optimizer, total_steps)
    parameters = inspect.signature(kind).parameters
    options = make.keywords if isinstance(make, partial) else {}
    if "max_lr" in parameters and len({group["lr"] for group in optimizer.param_groups}) > 1:
        raise UserError(
            f"model.scheduler: {kind.__name__} sets one rate for all parameters, so model.layer_decay or the higher "
            "rate of a new head has no effect; choose another scheduler"
        )
    name = length_argument(kind)
    length = {name: total_steps} if name in parameters and options.get(name) is None else {}
    return partial(make, optimizer, **length)()


def check_length(make: SchedulerCallable, scheduler: LRScheduler, total_steps: int) -> None:
    """Refuse a restored scheduler of torch that was planned for another length of the run."""
    name = length_argument(type(scheduler))
    is_fixed = isinstance(make, partial) and make.keywords.get(name) is not None
    planned = getattr(scheduler, name, total_steps)
    if not is_fixed and planned != total_steps:
        raise UserError(
            f"--ckpt_path: {type(scheduler).__name__} was planned for {planned} updates, but the run has "
            f"{total_steps}; keep the run's length, or train again with --overwrite (WarmupCosine and Poly adapt to a "
            "new length)"
        )


def parameter_groups(module: nn.Module, layer_decay: float = 1.0) -> list[dict[str, Any]]:
    """Split trainable parameters into two groups: matrices have weight decay, vectors have none.

    Args:
        module: The network. If it has ``no_weight_decay()``, as timm's ViTs do, the parameters that it names (position
            embedding and class token) have no weight decay either.
        layer_decay: Factor of the learning rate from each layer to the one before it (timm's
            ``param_groups_layer_decay``, after BEiT); 1 for one rate. Other values make groups for every layer.

    Returns:
        Parameter groups for an optimizer, without empty ones. The group with weight decay sets no value, so the
        optimizer's ``weight_decay`` applies.
    """
    names: Callable[[], set[str]] = getattr(module, "no_weight_decay", set)
    by_layer = partial(param_groups_layer_decay, layer_decay=layer_decay)
    split: Callable[..., Any] = param_groups_weight_decay if layer_decay == 1 else by_layer
    groups: list[dict[str, Any]] = split(module, weight_decay=1.0, no_weight_decay_list=names())
    for group in groups:
        if group["weight_decay"]:
            del group["weight_decay"]  # so that the optimizer's value applies
    return [group for group in groups if group["params"]]


def with_rate(groups: Sequence[dict[str, Any]], parameters: Set[Tensor], scale: float) -> list[dict[str, Any]]:
    """Give some parameters a multiple of the learning rate, in groups apart.

    Args:
        groups: What :func:`parameter_groups` returns.
        parameters: The parameters.
        scale: Factor of the rate of their group.
    """
    split = []
    for group in groups:
        scaled = {**group, "lr_scale": scale * group.get("lr_scale", 1.0)}
        split += [
            {**group, "params": [each for each in group["params"] if each not in parameters]},
            {**scaled, "params": [each for each in group["params"] if each in parameters]},
        ]
    return [group for group in split if group["params"]]


def scale_rates(optimizer: Optimizer) -> None:
    """Give every group the multiple of the learning rate that is noted in it."""
    for group in optimizer.param_groups:
        group["lr"] *= group.pop("lr_scale", 1.0)


def fuse(optimizer: Optimizer) -> None:
    """Let an optimizer use torch's fused kernels, its fastest implementation, if possible.

    An optimizer is unchanged if it is not torch's, if ``fused`` or ``foreach`` is given, if it is differentiable, or if
    a parameter is sharded or on a device without these kernels. SGD with momentum is unchanged as well: its fused
    kernel fails if a parameter gets its first gradient later than others.

    Args:
        optimizer: Any optimizer that has not made a step yet.
    """
    if type(optimizer) not in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        return
    defaults = optimizer.defaults
    is_chosen = any(defaults.get(option) is not None for option in ("fused", "foreach"))
    if is_chosen or defaults.get("differentiable") or defaults.get("momentum"):
        return
    parameters = chain(*(group["params"] for group in optimizer.param_groups))
    if all(type(p) is nn.Parameter and p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters):
        for group in optimizer.param_groups:
            group["fused"] = True
