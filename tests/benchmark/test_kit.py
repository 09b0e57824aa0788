"""The measurements for a machine with a GPU, at a small scale on the CPU."""

import json

import pytest
import torch

from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.benchmark import kit
from tests.support.command_line import ARCH, lgx


@pytest.fixture
def small(fit, tmp_path, monkeypatch) -> kit.Kit:
    assert fit("Ancestor", "--name=measured").code == 0
    monkeypatch.setattr("lgx.benchmark.loaders._IMAGES", 32)
    monkeypatch.setattr("lgx.benchmark.fit_steps.WARM_UP", 1)
    vit = parse_architecture(ARCH)
    assert isinstance(vit, ViTArchitecture)
    config = tmp_path / "runs" / "test" / "measured" / "seed0" / "config.yaml"
    return kit.Kit({"tiny": vit}, (2,), ("tf32",), loader_pixels=16, repeats=1, configs=(str(config),))


def test_every_part_is_measured(small, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: None)  # takes a minute on a CPU
    seen: list[int] = []
    rows = kit.run(small, 10, lambda rows: seen.append(len(rows)))
    assert seen == sorted(seen)
    assert not [row for row in rows if "failure" in row]
    assert {row["suite"] for row in rows} == {"fit", "data", "hypernet", "shared_layers"}
    steps = [row for row in rows if row["what"] == "hyper_step"]
    assert {(row["precision"], row["decoder"], row["compile"]) for row in steps} == {
        ("tf32", "low_rank", False), ("tf32", "conv", False), ("bf16", "low_rank", True),
    }  # fmt: skip
    assert all(row["seconds"] > 0 and row["device"] for row in rows)
    assert torch.get_float32_matmul_precision() == "highest"


def test_what_finds_no_time_or_memory_is_noted(small, monkeypatch):
    def full(*arguments, **options):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(kit, "measure_hypernet_steps", full)
    monkeypatch.setattr(kit, "measure_loaders", lambda *arguments: [])
    rows = kit.run(small, 10, lambda rows: None)
    assert {row["failure"] for row in rows if row["suite"] == "hypernet"} == {"the memory of the GPU is too small"}
    late = kit.run(small, 0, lambda rows: None)
    assert {row["failure"] for row in late} == {"not measured within 0 minutes"}


def test_the_command_saves_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(kit, "entries", lambda what: iter([kit.Entry({"suite": "data", "size": "16 px"}, rows)]))

    def rows():
        return [{"what": "cache", "seconds": 0.5, "ratio": 0.1, "peak_mb": 0.0}]

    result = lgx("bench", "--suite=kit", "--size=tiny", "--json", tmp_path / "kit.json")
    assert result.code == 0, result.err
    assert "data 16 px cache 0.5000 s, ratio 0.100" in result.out
    assert json.loads((tmp_path / "kit.json").read_text())[0]["what"] == "cache"
    assert lgx("bench", "--suite=kit", "--size=tiny", "--json", tmp_path / "kit.json").code == 0
