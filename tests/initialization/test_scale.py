"""A network that is larger than what its descendant needs is cut without being loaded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.extras import import_transformers

INIT = """
import re, sys, threading, time
from lgx.architectures import HFArchitecture
from lgx.cli import main
anonymous = lambda: int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
def watch():
    while True:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.005)
HFArchitecture(2, 64, 4, kind="language").build()
peak, base = [0], anonymous()
threading.Thread(target=watch, daemon=True).start()
main(["init", *sys.argv[1:]])
print(peak[0] - base)
"""
"""Files that are mapped do not count: the system may drop their pages."""


def write_llama(folder: Path, width: int, depth: int) -> int:
    """Write a network of zeros in bfloat16, a few tensors a file; the bytes of the largest file."""
    transformers = import_transformers()
    sizes = {"hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": depth}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=width // 64, num_key_value_heads=width // 256)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    with torch.device("meta"):
        shapes = {name: p.shape for name, p in transformers.LlamaForCausalLM(config).named_parameters()}
    files = {}
    for first in range(0, len(shapes), 12):
        names, file = [*shapes][first : first + 12], f"model-{first}.safetensors"
        write_zeros(folder / file, {name: shapes[name] for name in names})
        files |= dict.fromkeys(names, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return max(path.stat().st_size for path in folder.glob("*.safetensors"))


def write_zeros(path: Path, shapes: dict[str, Any]) -> None:
    """Write tensors without values, so that the file takes no space on the disk."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * shape.numel()
        header[name] = {"dtype": "BF16", "shape": [*shape], "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(file.tell() + end)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the memory counters of Linux")
def test_memory_is_that_of_the_descendant_and_one_file(tmp_path):
    largest = write_llama(tmp_path / "large", width=2048, depth=40)  # 2 B parameters
    options = f"--source {tmp_path}/large --method weight_selection --out {tmp_path}/small".split()
    options += ["--arch", "depth=6,embed_dim=512,num_heads=8"]
    done = subprocess.run([sys.executable, "-c", INIT, *options], capture_output=True, text=True, check=True)
    small = sum(path.stat().st_size for path in (tmp_path / "small").glob("*.safetensors"))
    assert int(done.stdout.split()[-1]) <= 2 * small + largest, (done.stdout, small, largest)
