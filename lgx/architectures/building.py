"""Build networks on a device; on ``meta`` without memory and without random numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_OF_VALUES = frozenset({
    "add_", "clamp_", "constant_", "copy_", "div_", "erfinv_", "fill_", "kaiming_uniform_", "mul_", "normal_", "ones_",
    "random_", "sub_", "trunc_", "trunc_normal_", "uniform_", "xavier_uniform_", "zero_", "zeros_",
})  # fmt: skip
"""Names of operations of tensors and of ``torch.nn.init`` that change nothing but values."""


class _WithoutValues(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _OF_VALUES:
            tensor = args[0] if args else kwargs.get("tensor")  # the name in torch.nn.init
            if isinstance(tensor, Tensor) and tensor.is_meta:
                return tensor
        return func(*args, **kwargs)


@contextmanager
def building_on(device: str | None) -> Iterator[None]:
    """Create tensors on a device; on ``meta``, skip random initialization, which would take most of the time.

    Args:
        device: The device; None for the CPU.
    """
    with torch.device(device or "cpu"):
        if device != "meta":
            yield
            return
        with _WithoutValues():
            yield


def fill_buffers(model: nn.Module, device: str = "cpu") -> None:
    """Compute the buffers that no file stores, such as those of RoPE, of a network that was built on the meta device.

    Args:
        model: The network; its buffers are replaced.
        device: Where the buffers shall lie.
    """
    stored = model.state_dict().keys()
    for path, module in model.named_modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            if f"{path}.{name}" not in stored:
                setattr(module, name, torch.empty_like(buffer, device=device))
    for module in model.modules():
        compute = getattr(module, "init_non_persistent_buffers", None)
        if compute is not None:
            compute()
