"""The documentation is built strictly and read in a real browser; its notebook runs."""

import http.server
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.support.browser import browser
from tests.support.command_line import lgx, ok
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    if shutil.which("mkdocs", path=Path(sys.executable).parent) is None:
        pytest.skip("needs the docs extra: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder], cwd=ROOT,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    """Where a server of this machine serves the site."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=site)
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


CUT = """
const commands = [...document.querySelectorAll(".language-bash pre > code, .language-python pre > code")];
return commands.some(code => code.scrollWidth > code.clientWidth + 1);
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_page_loads_in_a_browser_without_errors_and_without_other_machines(site, address, tmp_path):
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")
    assert len(names) >= 25
    wide = {}
    with browser(tmp_path / "profile") as chromium:
        for name in names:
            for width, dark in ((1280, False), (390, True)):
                chromium.look(width, dark)
                chromium.open(address + name.removesuffix("index.html"))
                drawn = "return [...document.querySelectorAll('.mermaid')].every(e => e.tagName == 'DIV')"
                assert chromium.wait_for(drawn), f"{name}: a diagram is not drawn"
                assert chromium.console() == [], name
                assert [url for url in chromium.requests() if not url.startswith((address, "data:", "blob:"))] == []
                assert len(chromium.run("return document.querySelector('article').innerText")) > 100, name
                if chromium.run("return document.documentElement.scrollWidth > window.innerWidth") or chromium.run(CUT):
                    wide[name, width] = chromium.run("return document.documentElement.scrollWidth")
    assert wide == {}, "pages that must be scrolled to the side"


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
