"""The documentation is built strictly and read in a real browser."""

import http.server
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.support.browser import browser
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    if shutil.which("mkdocs", path=Path(sys.executable).parent) is None or not importlib.util.find_spec("mkdocstrings"):
        pytest.skip("needs the docs extra: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder], cwd=ROOT,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """Paths of the pages of the site."""
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


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
def test_every_page_loads_in_a_browser_without_errors_and_without_other_machines(site, pages, address, tmp_path):
    names = [name for name in pages if name != "404.html"]
    assert len(names) >= 25
    pictures = Path(os.environ["LGX_PICTURES"]) if "LGX_PICTURES" in os.environ else None
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
                if pictures:
                    chromium.picture(pictures / f"{name.replace('/', '_')}_{width}.png")
    assert wide == {}, "pages that must be scrolled to the side"
