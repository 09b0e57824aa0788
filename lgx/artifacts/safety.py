"""Checks of foreign files: they must not run code, and must not use more time and memory than their size suggests.

Descriptions of tasks and architectures, pickles, tensors and model folders are checked here, each once, by the module
that reads the file.
"""

import io
import mmap
import pickletools
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, get_args

import timm
import torch
from torch import Tensor

from lgx.architectures import Architecture, architecture_from_dict
from lgx.architectures.meta_device import building_on
from lgx.core.image_size import IMAGE_SIZE
from lgx.core.reading import ResizeMode
from lgx.core.schema import (
    CLASSES,
    LINE,
    MAPPING,
    NUMBERS,
    POSITIVE,
    Field,
    at_most,
    check_fields,
    list_of,
    one_of,
    shortened,
)
from lgx.core.task import Kind
from lgx.errors import UserError
from lgx.host.failures import foreign_errors
from lgx.host.safety import refuse_non_finite

AGAIN = "save it again"
"""Remedy for a file that contradicts itself."""
LARGEST_TUPLE = 10**6
"""Largest number of elements of a tuple; elements of an inner tuple count at each occurrence."""
MOST_STEPS = 2 * 10**6
"""Largest number of operations of a pickle: one byte can create 64; 10,000 tensors and their optimizer take 10^6."""

_ZIP = b"PK\x03\x04"
"""First bytes of torch's zip format; zipfile.is_zipfile would also accept a pickle before a zip file."""
_TUPLES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE"}
_LARGEST = 65_536
_LAYERS = ("depth", "depths", "layers", "num_layers", "num_blocks")
"""Arguments of timm's models that count modules which timm builds one by one."""
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of weights; eight-bit numbers are quantized and need a scale."""
_WHOLE = ("num_batches_tracked", "attention_bias_idxs", "position_ids", "relative_position_index")
"""Last parts of the names of integer buffers that may be in a file of weights."""

# -- descriptions -------------------------------------------------------------------------------------------------

TASK: Mapping[str, Field] = {
    "name": LINE,
    "num_classes": CLASSES,
    "kind": one_of(*get_args(Kind)),
    "metric": LINE,
    "num_train": at_most(2**62),
    "in_chans": at_most(1024),
    "img_size": Field(lambda value: value == 0 or IMAGE_SIZE.holds(value), f"0 or {IMAGE_SIZE.words}"),
    "mean": NUMBERS,
    "std": POSITIVE,
    "class_names": list_of(Field(lambda value: isinstance(value, str), "texts")),
    "max_len": at_most(2**31),
    "vocab_size": at_most(2**31),
    "value_range": Field(
        lambda value: NUMBERS.holds(value) and (not value or (len(value) == 2 and value[0] < value[1])),
        "two numbers, the smaller one first, or none",
    ),
    "resize": one_of(*get_args(ResizeMode)),
}
"""Keys of ``Task.to_dict``; files may lack some."""


def described_architecture(values: Any, place: str) -> Architecture:
    """The architecture that a file describes.

    Args:
        values: What ``to_dict`` of an architecture gives.
        place: Where the values stand, for the message.
    """
    try:
        return architecture_from_dict(check_fields(values, {}, f"{place}: architecture"))
    except UserError as error:
        raise UserError(f"{place}: {' '.join(str(error).split())}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{place}: its architecture is damaged ({error}); {AGAIN}") from error


# -- pickles ------------------------------------------------------------------------------------------------------


def check_pickle(source: Path | io.BytesIO) -> None:
    """Refuse a checkpoint that would take far more memory or time to read than its size suggests.

    ``torch.load(..., weights_only=True)`` runs no code, but a few hundred bytes can make it use any amount of memory or
    time: byte arrays of any length, compressed tensors, and tuples that hold the previous tuple twice, whose hash takes
    twice as long at each level.

    Args:
        source: A file, or its bytes, that ``torch.save`` wrote, as a zip file or in the older format.

    Raises:
        ValueError: If it is compressed, or its pickle has millions of operations, or makes byte arrays or tuples of
            exponential size.
        Exception: Any error that a damaged file causes in pickle or zip.
    """
    with source.open("rb") if isinstance(source, Path) else source as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        is_zip = file.read(4) == _ZIP
        file.seek(0)
        if not is_zip:
            # A damaged pickle may name any length, and a file object would allocate it; a buffer ends with the file.
            content: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if isinstance(source, Path) else file
            for _ in range(5):  # magic number, version, system, the saved object, and the names of its storages
                _follow(content)
            return
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            are_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
            if not are_stored or sum(member.file_size for member in members) > size:
                raise ValueError("it is compressed")
            for member in members:
                if member.filename.endswith(".pkl"):
                    _follow(io.BytesIO(archive.read(member)))  # read at once: pickletools reads bytes


def _follow(file: IO[bytes]) -> None:
    """Simulate the pickle's stack, with each tuple replaced by its size."""
    stack: list[Any] = []  # None is a mark
    memo: dict[Any, Any] = {}
    for step, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if step == MOST_STEPS:
            raise ValueError(f"its pickle has more than {MOST_STEPS:,} operations")
        name, before = opcode.name, list(opcode.stack_before)
        if name == "GLOBAL" and str(argument).endswith(" bytearray"):
            raise ValueError("it makes byte arrays of any length")
        if name == "MARK":
            stack.append(None)
        elif "PUT" in name or name == "MEMOIZE":
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif "GET" in name:
            stack.append(memo[argument])
        else:
            taken: list[int] = []
            if pickletools.markobject in before:
                while (top := stack.pop()) is not None:
                    taken.append(top)
                before = before[: before.index(pickletools.markobject)]
            taken += [stack.pop() for _ in before]
            size = 1 + sum(taken) if name in _TUPLES else 1
            if size > LARGEST_TUPLE:
                raise ValueError("its tuples hold each other")
            stack += [size] * len(opcode.stack_after)


# -- tensors ------------------------------------------------------------------------------------------------------


def check_weights(tensors: Mapping[str, Tensor], place: str) -> None:
    """Refuse tensors whose values would change on conversion to float32, in which lgx computes.

    Every file of weights is checked before its tensors are converted.
    """
    for name, tensor in tensors.items():
        if not is_weight(tensor):
            is_index = name.rpartition(".")[2] in _WHOLE and tensor.dtype in (torch.int64, torch.int32)
            if not is_index or not is_number_tensor(tensor):
                held = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
                raise UserError(
                    f"{place}: {name[:100]} is of {held}, expected floating-point numbers; give the file before "
                    f"quantization or conversion"
                )
        elif tensor.dtype == torch.float64 and (tensor.isfinite() & ~tensor.float().isfinite()).any():
            raise UserError(
                f"{place}: {name[:100]} holds values beyond float32, in which lgx computes; train again with a lower "
                "learning rate, or give another file"
            )
    refuse_non_finite(tensors, place)


def is_weight(value: Any) -> bool:
    """Whether a value is a dense tensor of floating-point numbers."""
    return is_number_tensor(value) and value.dtype in _FLOATS


def is_number_tensor(value: Any) -> bool:
    """Whether a value is a dense tensor of floating-point or integer numbers."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_meta:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def count_layers(names: Iterable[str], prefix: str, place: str) -> int:
    """Count the layers among names of parameters.

    Args:
        names: Names of parameters; those of layers begin with ``prefix`` and the layer's number.
        prefix: :attr:`Architecture.layers`.
        place: Where the names come from, for the message.
    """
    found = {name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)}
    if wrong := found ^ {str(layer) for layer in range(len(found))}:
        raise UserError(
            f"{place}: its layers are not numbered 0 to {len(found) - 1}: {prefix}{min(wrong)[:40]}; {AGAIN}"
        )
    return len(found)


def check_shapes(tensors: Mapping[str, Tensor], architecture: Architecture, place: str, strict: bool = False) -> int:
    """Compare tensors with an architecture's parameters of the same names, for any number of layers.

    Args:
        tensors: Parameters; some of the architecture's may be missing.
        architecture: The architecture, with any depth.
        place: Where the tensors come from, for the message.
        strict: Whether to refuse unknown parameters, and incomplete parts: layers, a head, or the rest.

    Returns:
        Number of layers among the tensors.
    """
    # Only as many layers are built as the file has, so a false description takes no memory.
    layers = count_layers(tensors, architecture.layers, place)
    with foreign_errors(place, "its architecture cannot be built", AGAIN, (RuntimeError, TypeError)):
        expected = architecture.unshared().replace(depth=max(1, layers)).build("meta").state_dict()
    for name, tensor in tensors.items():
        if strict and name not in expected:
            raise UserError(f"{place}: holds {name[:100]}, which its architecture lacks; {AGAIN}")
        if name in expected and tensor.shape != expected[name].shape:
            raise UserError(
                f"{place}: {name} has shape {tuple(tensor.shape)}, but its architecture has "
                f"{tuple(expected[name].shape)}; {AGAIN}"
            )

    def part(name: str) -> str:
        if name.startswith(architecture.layers):
            return name.removeprefix(architecture.layers).partition(".")[0]
        return "head" if name.startswith(architecture.head_prefixes) else ""

    held = {part(name) for name in tensors}
    if strict and (missing := [name for name in expected if name not in tensors and part(name) in held]):
        raise UserError(f"{place}: lacks {missing[0]}, but has other parameters of the same part; {AGAIN}")
    return layers


# -- model folders ------------------------------------------------------------------------------------------------
# timm first builds what ``config.json`` describes, in memory of any size, and then compares it with the weights.


def check_timm_folder(about: Mapping[str, Any], tensors: Mapping[str, Tensor], config: Path) -> None:
    """Refuse a configuration of timm that describes a much larger network than the weights beside it."""
    check_weights(tensors, str(config.parent))
    about = check_fields(about, {"architecture": LINE, "model_args": MAPPING, "pretrained_cfg": MAPPING}, str(config))
    for key, size in _sizes(about.get("model_args", {})):
        most = len(tensors) if key in _LAYERS else _LARGEST
        if not abs(size) <= most:
            raise UserError(
                f"{config}: model_args: {key} is {shortened(size)}, but the weights beside it allow at most {most:,}; "
                f"{AGAIN}"
            )
    try:
        with building_on("meta"):
            expected = timm.create_model(f"local-dir:{config.parent}", pretrained=False).state_dict()
    except Exception:  # some models of timm cannot be built on the meta device; timm reports other mistakes itself
        return
    # The names are not compared, because timm renames the parameters of other projects' models.
    described, held = (sum(tensor.numel() for tensor in each.values()) for each in (expected, tensors))
    if described > 2 * held + 10**7:
        raise UserError(f"{config}: describes {described:,} parameters, but model.safetensors holds {held:,}; {AGAIN}")


def _sizes(arguments: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """All numbers in nested arguments, each with the name of its argument."""
    waiting: list[tuple[str, Any]] = list(arguments.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, inner) for inner in value]
        elif isinstance(value, int | float):
            yield key, value
