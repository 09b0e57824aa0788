"""A comparison shows how training went, and names the runs whose loss was not finite."""

import json

from lgx.core.rows import Row, write_rows
from tests.support.command_line import lgx, ok


def write_run(folder, method, seed, **health):
    place = folder / method / f"seed{seed}"
    row = Row(method, "6-Small", "digits", "test", 3, "acc", 0.5, seed, 100, str(place))
    write_rows(place / "results.csv", [row])
    (place / "summary.json").write_text(json.dumps({"health": health} if health else {}))


def test_medians_of_each_method_and_diverged_runs(tmp_path):
    write_run(tmp_path, "sws", 0)  # a run that stored nothing
    assert "Training health" not in lgx("compare", tmp_path).out
    healthy = {"first_non_finite_step": None, "loss_at_start": 2.3, "gradient_norm": 1.5}
    for seed, loss in enumerate((0.1, 0.2, 0.6)):
        write_run(tmp_path, "sws", seed, **healthy, loss_at_end=loss)
    write_run(tmp_path, "random", 0, **{**healthy, "first_non_finite_step": 12}, loss_at_end=None)
    ok(lgx("compare", tmp_path, "--out", tmp_path / "report"))
    text = (tmp_path / "report/results.md").read_text()
    section = text[text.index("Training health") :]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert any("SWS" in line and "| 3 | 2.3 | 0.2 | 1.5 | 0 |" in line for line in lines), lines
    assert any("| 1 | 2.3 | - | 1.5 | 1 |" in line for line in lines), lines
    assert "random/seed0 (step 12)" in section
