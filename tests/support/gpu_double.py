"""A double of a GPU: its tensors say ``cuda`` and compute on the CPU, so that mixed devices and waits are found."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

import lgx

GPU, CPU = torch.device("cuda:0"), torch.device("cpu")
_LGX = Path(lgx.__file__).parent
_aten = torch.ops.aten
_COPIES = {_aten._to_copy.default, _aten.copy_.default, _aten._foreach_copy_.default}
_WAITS = {_aten._local_scalar_dense.default, _aten.nonzero.default, _aten.equal.default, _aten.masked_select.default}
_ANSWERS = {
    "_lazy_init": None, "set_device": None, "empty_cache": None, "synchronize": None, "is_available": True,
    "is_bf16_supported": True, "device_count": 1, "current_device": 0, "get_device_name": "double",
    "get_device_capability": (9, 0),
}  # fmt: skip
"""Function of ``torch.cuda`` -> its answer."""


class OnGpu(Tensor):
    """A tensor that says that it is on a GPU.

    Attributes:
        held: Its values, on the CPU.
    """

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnGpu":
        form: Any = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made: OnGpu = Tensor._make_wrapper_subclass(cls, held.size(), **form, device=GPU)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.held.__reduce_ex__(protocol)

    def __repr__(self, **_: Any) -> str:
        return f"OnGpu({self.held})"

    def tolist(self) -> Any:
        """The values; torch refuses this for subclasses."""
        return self.cpu().tolist()


class _Double(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {}, self.waits)


def _compute(func: Any, args: Any, kwargs: Any, waits: Counter[str] | None = None) -> Any:
    """Run an operation on the CPU; its result is on the GPU if ``device`` says so, or else its tensors are.

    Raises:
        RuntimeError: If its tensors are on two devices and one on the CPU is no scalar, as on a real GPU.
    """
    if torch.is_inference_mode_enabled():  # where torch leaves composite operations whole
        with torch.inference_mode(False), torch.no_grad():
            parts = func.decompose(*args, **kwargs) if any(isinstance(each, OnGpu) for each in args) else NotImplemented
            return _compute(func, args, kwargs, waits) if parts is NotImplemented else parts
    if func is _aten._fused_sdp_choice.default:
        return 0  # no kernel of a GPU
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, OnGpu)]
    others = [tensor for tensor in tensors if not isinstance(tensor, OnGpu) and tensor.ndim]
    if there and others and func not in _COPIES:
        raise RuntimeError(f"{func}: tensors on two devices, {[(t.device.type, *t.shape) for t in tensors]}")
    if (device := kwargs.get("device")) is not None:
        on_gpu = torch.device(device).type == "cuda"
    else:
        on_gpu = isinstance(tensors[0], OnGpu) if func in _COPIES else bool(there)
    if waits is not None and there and (func in _WAITS or (func in _COPIES and not on_gpu)):
        _note(waits)
    held_args, held_kwargs = tree_map_only(OnGpu, lambda tensor: tensor.held, (args, kwargs))
    if device is not None and on_gpu:
        held_kwargs["device"] = CPU
    result = func(*held_args, **held_kwargs)
    return return_and_correct_aliasing(func, args, kwargs, tree_map_only(Tensor, OnGpu, result)) if on_gpu else result


def _note(waits: Counter[str]) -> None:
    """Count a wait of the second step of an epoch, under the innermost function of lgx or Lightning that runs."""
    place, frame = "", sys._getframe(1)
    while frame is not None and frame.f_back is not None:
        path, name = Path(frame.f_code.co_filename), frame.f_code.co_name
        if "lightning" in path.parts or path.is_relative_to(_LGX):
            place = place or f"{path.name}:{name}"
        if (path.name, name) == ("training_epoch_loop.py", "advance") and frame.f_locals["self"].batch_idx == 1:
            waits[place] += 1
        frame = frame.f_back


def _reached(loss: Tensor) -> Iterator[torch.nn.Parameter]:
    """The parameters that get a gradient from a loss, each once."""
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting += [following for following, _ in node.next_functions]


def _backward(loss: Tensor, *_: Any, **__: Any) -> None:
    for parameter in _reached(loss):
        parameter.grad = torch.zeros_like(parameter)


def _gradients(loss: Tensor, parameters: Any, **_: Any) -> list[Tensor | None]:
    reached = {id(parameter) for parameter in _reached(loss)}
    return [torch.zeros_like(each) if id(each) in reached else None for each in parameters]


@contextmanager
def gpu_double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Inside the block there seems to be one GPU. Backward passes need a real one; they give gradients of zeros.

    Yields:
        How often the second training step of an epoch waits for the GPU, by file and function.
    """
    torch._C._ensureCUDADeviceGuardSet()
    as_tensor = torch.as_tensor
    for name, answer in _ANSWERS.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
        monkeypatch.setattr(torch.optim.Optimizer, name, lambda _: None, raising=False)

    def read(data: Any, **options: Any) -> Tensor:  # torch reads tensors in a list where no mode sees it
        return as_tensor(tree_map_only(OnGpu, OnGpu.tolist, data) if isinstance(data, list) else data, **options)

    monkeypatch.setattr(torch, "as_tensor", read)
    monkeypatch.setattr(Tensor, "pin_memory", lambda self, *_: self)
    monkeypatch.setattr(Tensor, "backward", _backward)
    monkeypatch.setattr(torch.autograd, "grad", _gradients)
    monkeypatch.setattr(LightningModule, "cpu", lambda self: self)
    torch.__future__.set_swap_module_params_on_conversion(True)
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _Double() as double:
            yield double.waits
    finally:
        torch._C._set_only_lift_cpu_tensors(False)
        torch.__future__.set_swap_module_params_on_conversion(False)
