"""The documentation is built strictly and read in a real browser."""

import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest

from tests.support.browser import browser
from tests.support.paths import ROOT


class Links(HTMLParser):
    """What a page links to, loads, and can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links, self.loaded, self.anchors = set(), set(), {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.anchors |= {named[key] for key in ("id", "name") if named.get(key)}
        if tag == "a" and "href" in named:
            self.links.add(named["href"])
        elif tag in ("img", "script") and "src" in named:
            self.loaded.add(named["src"])
        elif tag == "link" and named.get("rel") in ("stylesheet", "icon"):
            self.loaded.add(named["href"])


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
    """Pages of the site by their path."""
    return {path.relative_to(site).as_posix(): Links(path) for path in sorted(site.rglob("*.html"))}


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
const commands = [...document.querySelectorAll(".language-bash pre > code")];
return commands.some(code => code.scrollWidth > code.clientWidth + 1);
"""


def target_of(page, link):
    """The file that a link of a page leads to, and the anchor in it; None for another machine."""
    url, anchor = urldefrag(urljoin(f"site:///{page}".replace("site", "http"), link))
    path = unquote(url.removeprefix("http:///"))
    if ":" in path.split("/", maxsplit=1)[0]:
        return None
    return path + ("index.html" if path.endswith("/") or not path else ""), anchor


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


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_link_anchor_or_file_of_a_page_is_missing(site, pages):
    missing, outside = set(), set()
    for page, found in pages.items():
        if page == "404.html":  # it is served at any address, so that its links are absolute
            continue
        for link in found.links | found.loaded:
            target = target_of(page, link)
            if target is None or link.startswith(("mailto:", "data:")):
                outside |= {link} & found.loaded
            elif not (site / target[0]).is_file():
                missing.add((page, link))
            elif target[0] in pages and target[1] not in pages[target[0]].anchors:
                missing.add((page, link))
    assert missing == set()
    assert {link for link in outside if not link.startswith("data:")} == set()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_search_finds_every_page(site, pages):
    index = json.loads((site / "search/search_index.json").read_text())
    found = {entry["location"].split("#")[0] + "index.html" for entry in index["docs"]}
    assert found == pages.keys() - {"404.html"}
