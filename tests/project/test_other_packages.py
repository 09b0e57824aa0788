"""A method of another installed package: it needs no edit in this project."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_line import ARCH, arguments
from tests.support.sweeps import write_sweep

TOY = Path(__file__).parents[1] / "support" / "toy_method"
SCRIPT = """
import contextlib, io, json, sys
from lgx.cli import main
from tests.support.command_line import lgx
ended = {}
for name, words in json.load(sys.stdin).items():
    result = lgx(*words)
    ended[name] = {"code": result.code, "out": result.out, "err": result.err}
print("RESULTS" + json.dumps(ended))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed by pip into a folder of its own."""
    copy, site = tmp_path_factory.mktemp("source") / "toy", tmp_path_factory.mktemp("site")
    shutil.copytree(TOY, copy, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", site, copy], check=True, timeout=120)
    return site


def run(site: Path, commands: Mapping[str, list[str]]) -> dict[str, dict[str, str]]:
    """Run command lines in one process that sees the package."""
    paths = os.pathsep.join([str(site), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(commands), capture_output=True, text=True, timeout=170,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    results: dict[str, dict[str, str]] = json.loads(done.stdout.rsplit("RESULTS", 1)[1])
    for name, result in results.items():
        assert result["code"] == 0, (name, result["err"][-2000:])
    return results


@pytest.mark.slow
def test_a_method_of_another_package_does_all_that_one_of_lgx_does(installed, images, ancestor, tmp_path):
    runs, guide = tmp_path / "runs", f"--model.guide={ancestor}/final.learngene.safetensors"
    learngene, model = f"{runs}/test/halves/seed0/final.learngene.safetensors", str(tmp_path / "model")
    start = f"--model.initializer.source={learngene}"
    again = {"name": "halves", "config": f"{runs}/test/halves/seed0/config.yaml", "options": {"trainer.max_epochs": 1}}
    sweep = write_sweep(tmp_path, again)
    fit = arguments("fit", "Halves", images, runs, guide, "--name=halves", "--trainer.max_epochs=1")
    descend = arguments("fit", "Finetune", images, runs, "--model.initializer=RepeatedHalf", start, "--name=d")
    descend += ["--trainer.max_epochs=2"]  # two validations: the report draws a curve
    plan = [word for word in fit[1:] if not word.startswith(("--runs_dir", "--name"))]
    results = run(
        installed,
        {
            "fit": fit,
            "help": ["fit", "--model.help=Halves"],
            "init": ["init", "--source", learngene, "--arch", ARCH, "--out", model],
            "option": ["init", "--source", learngene, "--arch", ARCH, "--out", f"{model}2", "--backwards", "true"],
            "init help": ["init", "--help"],
            "descendant": [*descend, "--test_end"],
            "export": ["export", f"{runs}/test/d/seed0/checkpoints/best.ckpt", "--out", str(tmp_path / "exported")],
            "plan": ["plan", *plan, "--samples=48", "--json"],
            "sweep": ["sweep", str(sweep), "--runs_dir", str(runs)],
            "compare": ["compare", str(runs), "--out", str(tmp_path / "report"), "--cost"],
        },
    )
    assert "guide" in results["help"]["out"]
    assert "halves" in results["init help"]["out"]
    assert "--backwards" in results["init help"]["out"]
    assert "halves" in results["compare"]["out"]
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert (tmp_path / "exported" / "model.safetensors").is_file()
    plans = json.loads(results["plan"]["out"])
    assert plans["parameters"]["teacher"] > 0, "the method's own teacher is counted"
    assert (runs / "s" / "halves" / "seed0" / "results.csv").is_file()
    assert "halves" in (tmp_path / "report" / "report.html").read_text()
