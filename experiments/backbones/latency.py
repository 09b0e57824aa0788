"""Time encoders of a run in torch, onnxruntime and OpenVINO: ``python -m experiments.backbones.latency RUN``.

It needs onnxruntime and openvino, and writes ``experiments/results/backbones_latency.csv``: milliseconds of one batch
on all cores, the median of 20, for texts of 32 tokens.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime
import openvino
import pandas
import torch

from lgx.commands.api import load_family
from lgx.commands.export import export
from lgx.commands.run import SizeOptions

SIZES = ("depth=5", "depth=3", "depth=2", "depth=1", *(f"depth={d},embed_dim=288,num_heads=9" for d in (5, 3, 1)),
         *(f"depth={d},embed_dim=256,num_heads=8" for d in (5, 3, 1)))  # fmt: skip
TOKENS = 32
OPTIONS = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}


def milliseconds(call: Callable[[], object]) -> float:
    """Median time of a call, after three others."""
    times = []
    for _ in range(23):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * median(times[3:])


def main(run: str) -> None:
    """Time every size with batches of 1 and 32."""
    rows = []
    family = load_family(run)
    for size in SIZES:
        network = family[size].eval()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "encoder.onnx")
            export(run, out=str(file), size=SizeOptions(arch=size))
            session = onnxruntime.InferenceSession(str(file))
            compiled = openvino.compile_model(str(file), "CPU", OPTIONS)
            for batch in (1, 32):
                ids = torch.randint(1000, 20_000, (batch, TOKENS))
                inputs = torch.stack([ids, torch.ones_like(ids), torch.zeros_like(ids)], 1)
                feed = dict(zip(("input_ids", "attention_mask", "token_type_ids"), inputs.unbind(1), strict=True))
                fed = {key: value.numpy().astype(np.int64) for key, value in feed.items()}
                with torch.inference_mode():
                    torch_time = milliseconds(lambda network=network, inputs=inputs: network(inputs))
                onnx_time = milliseconds(lambda session=session, fed=fed: session.run(None, fed))
                openvino_time = milliseconds(lambda compiled=compiled, fed=fed: compiled(fed))
                for name, value in (("torch", torch_time), ("onnxruntime", onnx_time), ("openvino", openvino_time)):
                    rows.append({"size": size, "runtime": name, "batch": batch, "milliseconds": round(value, 3)})
        pandas.DataFrame(rows).to_csv("experiments/results/backbones_latency.csv", index=False)


if __name__ == "__main__":
    main(sys.argv[1])
