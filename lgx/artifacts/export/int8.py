"""Quantize ONNX files to 8 bits with onnxruntime."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from lgx.artifacts.export.onnx_file import silent
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors

_OPERATORS = ["Conv", "Gemm", "MatMul"]
"""What is quantized: softmax, norms and sums of a ViT lose accuracy and save nothing."""


def write_int8(source: Path, out: Path, batches: Iterable[Tensor]) -> None:
    """Quantize weights and inputs of the matrix products of an ONNX file, each output channel by itself.

    Args:
        source: The file, with weights in float32; another one is written beside it.
        out: The file to write; it keeps the metadata.
        batches: Normalized images (B, C, H, W), from which the ranges of activations are calibrated.
    """
    with extra("export", str(out)):
        import onnx
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.batches: Iterator[Tensor] = iter(batches)

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"inputs": batch.numpy()}

    prepared = source.with_name("prepared.onnx")
    with silent(), foreign_errors(str(out), "onnxruntime cannot quantize it", "export it without --int8"):
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared, out, Reader(), QuantFormat.QDQ, _OPERATORS, per_channel=True,
            weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8,
        )  # fmt: skip
    written, known = onnx.load(out), onnx.load(source)
    del written.metadata_props[:]
    written.metadata_props.extend(known.metadata_props)
    written.producer_name, written.producer_version = known.producer_name, known.producer_version
    onnx.save(written, out)
