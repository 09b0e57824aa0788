"""The notebook of the documentation runs."""

import pytest

from tests.support.command_line import lgx, ok
from tests.support.paths import ROOT

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
