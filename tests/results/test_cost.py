"""``lgx compare --cost``: what runs have counted, and parameters as LSAMD's Table 2 counts them."""

import json
import shutil

from experiments.analyze.module_costs import cost_in_modules
from lgx.architectures import NAMES
from lgx.initialization.sizing import amount
from tests.support.command_line import lgx, ok, refusal


def test_lsamd_saves_95_percent_of_the_storage():
    counted = [cost_in_modules(NAMES[f"Des-B-{d}"].replace(num_classes=100)).parameters for d in range(5, 16)]
    assert round(sum(counted) / 1e6, 2) == 787.03
    assert round(counted[0] / 1e6, 2) == 36.11
    assert round(100 * (1 - counted[0] / sum(counted)), 2) == 95.41


def test_the_command_shows_what_every_run_counted_as_a_mean_over_its_seeds(sws, ancestor, tmp_path):
    for run, name in ((ancestor, "a/seed0"), (sws, "s/seed0"), (sws, "s/seed1")):
        folder = tmp_path / "runs/mine" / name
        shutil.copytree(run, folder)
        text = (folder / "results.csv").read_text()
        (folder / "results.csv").write_text(text.replace(str(run), str(folder)))
    summary = json.loads((sws / "summary.json").read_text())
    changed = tmp_path / "runs/mine/s/seed1/summary.json"
    changed.write_text(json.dumps(summary | {"seconds": 7200 - summary["seconds"]}))
    found = ok(lgx("compare", tmp_path / "runs", "--split=val", "--cost", "--out", tmp_path / "report")).out
    lines = {
        cells[1].strip(): [c.strip() for c in cells[2:-1]]
        for line in found.splitlines()
        if (cells := line.split("│"))[1:]
    }
    of_sws = lines["mine/s"]
    assert of_sws[1:] == ["2", "8", amount("macs", summary["flops"]), "1", f"{summary['peak_bytes'] / 1e9:.3g}"]
    assert lines["mine/a"][1:3] == ["1", "8"]
    changed.write_text(json.dumps(summary | {"flops": None}))
    found = ok(lgx("compare", tmp_path / "runs/mine/s", "--split=val", "--cost")).out
    assert "–" in found
    for place in ("s/seed0", "s/seed1"):
        (tmp_path / "runs/mine" / place / "summary.json").unlink()
    assert "needs folders of finished runs" in refusal(
        lgx("compare", tmp_path / "runs/mine/s", "--split=val", "--cost")
    )
