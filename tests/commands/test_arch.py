"""``lgx arch`` and ``lgx sample``."""

import json

from tests.support.command_line import lgx


def test_lgx_arch_prints_both_conventions():
    whole = lgx("arch", "Des-B-5", "--num_classes", "100")
    modules = lgx("arch", "Des-B-5", "--num_classes", "100", "--count", "modules")
    assert "36.26" in whole.out
    assert "36.11" in modules.out
    assert "7.09" in modules.out
    assert "without position embedding" in modules.out
    (row,) = json.loads(lgx("arch", "Des-B-5", "--num_classes", "100", "--count", "modules", "--json").out)
    assert (row["parameters"], row["depth"]) == (36_108_388, 5)


def test_arch_prints_json():
    rows = json.loads(lgx("arch", "6-Small", "Aux-B", "--json").out)
    assert [r["name"] for r in rows] == ["6-Small", "Aux-B"]
    assert rows[1]["parameters"] == 36_952_552
    assert rows[0]["macs"] > 2e9


def test_sample_writes_reproducible_json_lines(tmp_path):
    assert lgx("sample", "ViTs+-1K", "--count", 20, "--out", tmp_path / "set.jsonl").code == 0
    lines = (tmp_path / "set.jsonl").read_text().splitlines()
    assert len(lines) == 20
    assert lgx("sample", "ViTs+-1K", "--count", 3).out.splitlines() == lines[:3]
