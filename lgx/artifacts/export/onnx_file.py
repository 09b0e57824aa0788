"""Write networks as ONNX files, quantize such files to 8 bits, and run them with onnxruntime."""

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from lgx.artifacts.export.program import TEXT_INPUTS, WRITER, Program, check_parity, silent, trace
from lgx.core.task import Task
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors, write_errors
from lgx.host.files import atomic_path

LARGEST = 2**31 - 2**24
"""Largest size of weights in bytes: protobuf, the format of ONNX files, allows 2 GiB, and the graph needs a part."""

_INPUT, _OUTPUT = "inputs", "logits"

_OPERATORS = ["Conv", "Gemm", "MatMul"]
"""Quantized operations. Quantizing softmax, norms and sums of a ViT would lose accuracy and save nothing."""


def write_onnx(out: str | Path, model: nn.Module, task: Task, texts: Mapping[str, str]) -> float | None:
    """Write a network as one ONNX file.

    Args:
        out: The file.
        model: The network, in eval mode.
        task: What it reads.
        texts: Metadata, written as ``metadata_props``.

    Returns:
        The largest difference between logits of onnxruntime and of the network; None if onnxruntime is not installed.
    """
    with extra("export", str(out)):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    if size > LARGEST:
        raise UserError(f"--out {out}: weights of {size / 2**30:.1f} GiB exceed an ONNX file's 2 GiB; write a .pt2")
    program = _translated(model, task, texts, str(out))
    with atomic_path(out) as temporary:
        with write_errors(out):
            program.save(temporary, external_data=False)
        if importlib.util.find_spec("onnxruntime") is None:
            return None
        return check_parity(model, run_onnx(temporary)[0], task, out)


def _translated(model: nn.Module, task: Task, texts: Mapping[str, str], place: str) -> Any:
    """The network as a program of torch.onnx, with metadata."""
    traced = trace(model, task, place)
    with silent(), foreign_errors(place, "torch.onnx cannot translate it", "write a .pt2 file"):
        program: Any = torch.onnx.export(
            traced, dynamo=True, input_names=[*(TEXT_INPUTS if task.reads_text else [_INPUT])],
            output_names=[_OUTPUT if task.is_labeled else "vectors"], external_data=False, verbose=False,
        )  # fmt: skip
    names = {0: "batch", 1: "length"} if task.reads_text else {0: "batch"}
    if hasattr(program, "rename_axes"):  # not in torch 2.8
        shape = program.model.graph.inputs[0].shape
        program.rename_axes({str(shape[axis].value): name for axis, name in names.items()})
    program.model.producer_name, program.model.producer_version = WRITER, __version__
    program.model.metadata_props.update(texts)
    return program


def write_int8(source: Path, out: Path, batches: Iterable[Tensor]) -> None:
    """Quantize weights and inputs of the matrix products of an ONNX file, per output channel.

    Args:
        source: The file, with weights in float32; a temporary file is written beside it.
        out: The file to write; it keeps the metadata.
        batches: Normalized images (B, C, H, W), from which the ranges of activations are calibrated.
    """
    with extra("export", str(out)):
        import onnx
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

    feeds: Iterator[Any] = ({_INPUT: batch.numpy()} for batch in batches)
    reader: Any = SimpleNamespace(get_next=lambda: next(feeds, None))
    prepared = source.with_name("prepared.onnx")
    with silent(), foreign_errors(str(out), "onnxruntime cannot quantize it", "export it without --int8"):
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared, out, reader, QuantFormat.QDQ, _OPERATORS, per_channel=True,
            weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8,
        )  # fmt: skip
    written, original = onnx.load(out), onnx.load(source)
    del written.metadata_props[:]
    written.metadata_props.extend(original.metadata_props)
    written.producer_name, written.producer_version = original.producer_name, original.producer_version
    onnx.save(written, out)


def run_onnx(path: str | Path) -> tuple[Program, dict[str, str]]:
    """Open an ONNX file with onnxruntime, on the processor.

    Returns:
        The program, and the file's metadata.
    """
    with extra("export", str(path)):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, too
    with foreign_errors(str(path), "not an intact ONNX file", "write it again with `lgx export`"):
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def program(values: Tensor) -> Tensor:
        feeds = dict(zip(TEXT_INPUTS, values.unbind(1), strict=True)) if names[0] in TEXT_INPUTS else {names[0]: values}
        return torch.from_numpy(session.run(None, {name: feeds[name].numpy() for name in names})[0])

    return program, dict(session.get_modelmeta().custom_metadata_map)
