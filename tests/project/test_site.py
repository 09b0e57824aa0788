"""The documentation is built strictly; its notebook runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import lgx, ok
from tests.support.paths import ROOT


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path):
    if shutil.which("mkdocs", path=Path(sys.executable).parent) is None:
        pytest.skip("needs the docs extra: pip install -e '.[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path], cwd=ROOT,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len([*tmp_path.rglob("*.html")]) >= 25


NOTEBOOK = ROOT / "docs/tutorials/python.ipynb"


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_notebook_runs_after_the_first_steps(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    assert lgx("data", "prepare", "pocket", "--root", "data").code == 0
    for name in ("ancestor", "sws"):
        ok(lgx("fit", "--config", f"experiments/sws/demo/{name}.yaml", "--trainer.max_epochs=2"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = [len(cell["outputs"]) for cell in code_cells(notebook)]
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=500, coalesce_streams=True, resources=resources).execute()
    printed = ["".join(o.get("text", "") for o in cell["outputs"]) for cell in code_cells(notebook)]
    assert [bool(count) for count in stored] == [bool(cell["outputs"]) for cell in code_cells(notebook)]
    assert any("1438 training images" in text for text in printed)
    assert (tmp_path / "my_digits.safetensors").is_file()
