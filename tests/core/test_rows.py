"""Rows of results: written, read again, with their code and machine; predictions of equal logits."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lgx
from lgx.commands import int8
from lgx.components.metrics import agreement_with, metrics_for, update_metrics
from lgx.core.batch import Batch
from lgx.core.predictions import prediction_cells, top_classes
from lgx.core.provenance import commit, config_hash
from lgx.core.rows import Row, read_rows, write_rows
from lgx.core.task import Task
from lgx.errors import UserError

ROW = Row("sws", "6-Small", "dtd", "test", 1, "acc", 0.5, 0, 10, "runs/a/seed0")

TEXTS = st.text(st.sampled_from("=+-@'a1 ,\"é|") | st.characters(exclude_categories=("Cc", "Cs")), max_size=12)


@given(method=TEXTS, architecture=TEXTS, task=TEXTS, run=TEXTS, value=st.floats(allow_nan=False))
def test_every_row_is_read_as_it_was_written(tmp_path_factory, method, architecture, task, run, value):
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    row = Row(method, architecture, task, "test", 1, "loss", value, 0, 10, run, commit="-x")
    write_rows(path, [row])
    assert read_rows(path) == [row]


def test_a_table_that_excel_saved_is_read(tmp_path):
    write_rows(tmp_path / "r.csv", [ROW])
    (tmp_path / "r.csv").write_bytes("\ufeff".encode() + (tmp_path / "r.csv").read_bytes())
    assert read_rows(tmp_path / "r.csv") == [ROW]


def test_a_column_that_occurs_twice_is_refused(tmp_path):
    write_rows(tmp_path / "r.csv", [ROW])
    header, row = (tmp_path / "r.csv").read_text().splitlines()
    (tmp_path / "r.csv").write_text(f"{header},value\n{row},0.1\n")
    with pytest.raises(UserError, match=r"r\.csv, line 1: the column 'value' occurs twice"):
        read_rows(tmp_path / "r.csv")


TASK = Task("ties", 30, img_size=2, in_chans=1)


def test_ties_go_to_the_first_class(monkeypatch, tmp_path):
    logits = torch.randint(0, 4, (64, 30), generator=torch.Generator().manual_seed(0)) / 8  # as of a network in 8 bits
    logits[0] = 0.1
    logits[0, 7] = torch.nextafter(torch.tensor(0.1), torch.tensor(1.0))  # the largest, but not after a softmax
    order = [sorted(range(30), key=lambda k: (-row[k], k)) for row in logits.tolist()]
    first = torch.tensor(order)[:, 0]
    batch = Batch(torch.zeros(64, 1, 2, 2), first, "ties")
    metrics = metrics_for(TASK, "test")
    update_metrics(metrics, logits, first)
    assert metrics["acc"].compute() == metrics["acc5"].compute() == 1
    right, predicted, _ = metrics["counts"].compute().unbind(dim=1)
    assert torch.equal(right, predicted)
    assert metrics["confusion"].compute().trace() == 64
    assert [label for label, *_ in prediction_cells(logits, (), several=False)] == first.tolist()
    assert agreement_with(logits, torch.nn.functional.one_hot(first, 30).float())[1].all()
    assert top_classes(logits, 5).tolist() == [row[:5] for row in order]
    monkeypatch.setattr(int8, "run_onnx", lambda file: (lambda inputs: logits, {}))
    assert int8._accuracy(tmp_path, [batch]) == 100


def test_rows_of_a_run_name_its_configuration_and_the_machine(ancestor: Path) -> None:
    (config,) = {row.config for row in read_rows(ancestor / "results.csv")}
    text = (ancestor / "config.yaml").read_text()
    assert config == config_hash(text) == config_hash("# another version\n" + text)
    assert config != config_hash(text.replace("max_epochs: ", "max_epochs: 1"))
    assert all("CPU cores" in row.hardware and row.commit == commit() for row in read_rows(ancestor / "results.csv"))


def test_the_commit_is_marked_when_the_code_was_changed(tmp_path: Path) -> None:
    root = tmp_path / "clone"
    shutil.copytree(Path(lgx.__file__).parent, root / "lgx", ignore=shutil.ignore_patterns("__pycache__"))

    # Independent of a repository that a git hook names, and of the user's settings.
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def version() -> str:
        script = "import sys; sys.path.insert(0, '.'); from lgx.core.provenance import commit; print(commit())"
        return subprocess.run(
            [sys.executable, "-c", script], cwd=root, env=env, check=True, capture_output=True, text=True
        ).stdout

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, cwd=root, env=env, check=True, capture_output=True, text=True).stdout.strip()

    assert version() == f"lgx {lgx.__version__}\n"
    git("init", "-q")
    git("add", "lgx")
    git("commit", "-qm", "first")
    head = git("rev-parse", "--short=10", "HEAD")
    (root / "lgx/__pycache__").mkdir(exist_ok=True)
    (root / ".gitignore").write_text("__pycache__\n")
    os.utime(root / "lgx/errors.py", (0, 0))  # git would note in its index that the file is the same, under a lock
    index = (root / ".git/index").read_bytes()
    assert version() == f"{head}\n"
    assert (root / ".git/index").read_bytes() == index
    (root / "lgx/errors.py").write_text((root / "lgx/errors.py").read_text() + "\n")
    assert version() == f"{head}+\n"


def test_no_text_of_a_table_begins_like_a_formula(tmp_path):
    row = Row("=1+1", "@x", "-3.1", "test", 1, "loss", -0.5, 0, 10, "+run", "'=x", "-1e-3", "-1+2")
    write_rows(tmp_path / "r.csv", [row])
    _, line = (tmp_path / "r.csv").read_text().splitlines()
    assert line.startswith("'=1+1,'@x,-3.1,test,1,loss,-0.5,0,10,'+run,''=x,-1e-3,'-1+2")
