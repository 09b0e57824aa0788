"""Render pages in a headless browser."""

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.error import URLError

import pytest

from tests.support.command_line import free_port

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
DRIVER = shutil.which("chromedriver")
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # even if a proxy is set
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


class Page(NamedTuple):
    """A rendered page.

    Attributes:
        dom: The document after its scripts have run.
        console: What scripts and failed loads have written to the console.
    """

    dom: str
    console: list[str]


def render(url: str, profile: Path, wait: float = 5, picture: Path | None = None) -> Page:
    """Open a page and wait.

    Args:
        url: Its address.
        profile: Folder for the browser's own files.
        wait: Seconds of virtual time.
        picture: PNG file for a screenshot.
    """
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    options = [*_OPTIONS, "--enable-logging=stderr", f"--user-data-dir={profile}"]
    options += [f"--virtual-time-budget={int(1000 * wait)}", "--window-size=1400,2000"]
    options += [f"--screenshot={picture}"] if picture else ["--dump-dom"]
    done = subprocess.run([CHROMIUM, *options, url], capture_output=True, text=True, timeout=120, check=True)
    return Page(done.stdout, re.findall(r"CONSOLE:\d+\] (.*)", done.stderr))


class Window:
    """A browser's window, driven through chromedriver.

    Args:
        session: Address of the session.
    """

    def __init__(self, session: str) -> None:
        self._session = session

    def show(self, url: str, width: int, scheme: Literal["light", "dark"]) -> None:
        """Open a page.

        Args:
            url: Its address.
            width: Width of the screen, pixels.
            scheme: The color scheme that the reader prefers.
        """
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self._tool("Emulation.setDeviceMetricsOverride", screen)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._tool("Emulation.setEmulatedMedia", {"features": [feature]})
        _request(f"{self._session}/url", {"url": url})

    def run(self, script: str) -> Any:
        """What a script returns."""
        return _request(f"{self._session}/execute/sync", {"script": script, "args": []})

    def console(self) -> list[str]:
        """Messages since the last call."""
        return [entry["message"] for entry in _request(f"{self._session}/se/log", {"type": "browser"})]

    def picture(self, path: Path) -> None:
        """Save the whole page as a PNG file."""
        shot = self._tool("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))

    def _tool(self, command: str, parameters: dict[str, Any]) -> Any:
        return _request(f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})


@contextmanager
def open_window(profile: Path) -> Iterator[Window]:
    """A browser's window; the test is skipped without Chromium or chromedriver.

    Args:
        profile: Folder for the browser's own files.
    """
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium with chromedriver is installed")
    address = f"http://127.0.0.1:{(port := free_port())}"
    driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"{address}/status")
        browser = {"binary": CHROMIUM, "args": [*_OPTIONS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": browser, "goog:loggingPrefs": {"browser": "ALL"}}
        session = _request(f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        place = f"{address}/session/{session['sessionId']}"
        try:
            yield Window(place)
        finally:
            DIRECTLY.open(urllib.request.Request(place, method="DELETE"), timeout=60).close()
    finally:
        driver.terminate()
        driver.wait(30)


def _request(url: str, content: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(content).encode(), {"Content-Type": "application/json"})
    with DIRECTLY.open(request, timeout=120) as answer:
        return json.loads(answer.read())["value"]


def _wait_for(url: str) -> None:
    for _ in range(100):
        try:
            DIRECTLY.open(url, timeout=5).close()
            return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise TimeoutError(url)
