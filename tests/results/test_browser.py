"""Reports and TensorBoard in a real browser."""

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from PIL import Image

from tests.support.browser import render
from tests.support.command_line import arguments, free_port, lgx
from tests.support.paths import EXPERIMENTS

DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # even if a proxy is set
ROWS = EXPERIMENTS / "results" / "sws_fashion_mnist.csv"


@pytest.fixture(scope="module")
def runs(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with curves."""
    folder = tmp_path_factory.mktemp("runs")
    command = arguments("fit", "Finetune", images, folder, "--name=shapes-3-random", "--model.initializer=RandomStart")
    assert lgx(*command, "--trainer.max_epochs=2", "--test_end=true").code == 0
    return folder


@pytest.mark.parametrize("of", ["runs", "rows"])
def test_a_report_renders_without_errors_and_without_other_files(of, runs, tmp_path):
    source = runs if of == "runs" else ROWS
    result = lgx("compare", source, "--out", tmp_path / "report", *(["--baseline", "sws"] if of == "rows" else []))
    assert result.code == 0, result.err
    address = (tmp_path / "report" / "report.html").as_uri()
    page = render(address, tmp_path / "profile")
    assert page.console == []
    assert page.dom.count("<table") >= 1
    assert page.dom.count("<svg") >= 1
    for target in re.findall(r'(?:src|href)="([^"]*)"', page.dom):
        assert target.startswith(("#", "data:")), target
    anchors = set(re.findall(r'href="#([^"]+)"', page.dom))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page.dom))
    render(address, tmp_path / "profile", picture=tmp_path / "page.png")
    with Image.open(tmp_path / "page.png") as picture:
        assert len(np.unique(np.asarray(picture.convert("L")))) > 10


@pytest.fixture(scope="module")
def tensorboard(runs: Path) -> Iterator[str]:
    """Address of a TensorBoard that shows the runs."""
    port = free_port()
    command = [sys.executable, "-m", "tensorboard.main", f"--logdir={runs}", f"--port={port}", "--load_fast=false"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                if b"seed0" in DIRECTLY.open(f"{address}/data/runs", timeout=5).read():
                    break
            except (URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def test_tensorboard_shows_runs_by_name_with_their_curves(tensorboard, tmp_path):
    page = render(f"{tensorboard}/#timeseries", tmp_path / "profile", wait=20)
    assert [line for line in page.console if "Uncaught" in line or "Failed to load" in line] == []
    shown = "".join(page.dom.split())
    for word in ("test/shapes-3-random/seed0", "train", "val"):
        assert word in shown, word


def test_tensorboard_shows_hyper_parameters_and_scores(tensorboard, tmp_path):
    """The tab is a closed component: the test repeats its request, and looks at the picture that it paints."""
    asked = DIRECTLY.open(f"{tensorboard}/data/plugin/hparams/experiment?request=%7B%7D", timeout=30)
    answer = json.loads(asked.read())
    names = [parameter["name"] for parameter in answer["hparamInfos"]]
    assert {"model", "model.arch", "data", "data.batch_size", "seed_everything", "model.optimizer.lr"} <= set(names)
    assert not any(name.startswith(("checkpoint.", "logger.")) for name in names)
    assert "hp/best_val" in [metric["name"]["tag"] for metric in answer["metricInfos"]]
    picture = tmp_path / "tab.png"
    page = render(f"{tensorboard}/#hparams", tmp_path / "profile", wait=20, picture=picture)
    assert [line for line in page.console if "Uncaught" in line or "Failed to load" in line] == []
    with Image.open(picture) as painted:
        assert len(np.unique(np.asarray(painted.convert("L")))) > 10
