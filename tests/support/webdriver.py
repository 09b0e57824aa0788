"""One headless browser for many pages, driven by chromedriver's HTTP interface (W3C WebDriver)."""

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import CHROMIUM
from tests.support.command_line import free_port

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip


class Browser:
    """A session of a browser.

    Args:
        address: Address of the session at chromedriver.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def open(self, url: str) -> None:
        """Load a page and wait until its scripts have run."""
        self._log("browser"), self._log("performance")
        _call(f"{self.address}/url", {"url": url})

    def run(self, script: str) -> Any:
        """The value of a script, a function body, in the page."""
        return _call(f"{self.address}/execute/sync", {"script": script, "args": []})

    def wait_for(self, script: str, seconds: float = 60) -> bool:
        """Whether a script becomes true in time."""
        end = time.monotonic() + seconds
        while not (done := bool(self.run(script))) and time.monotonic() < end:
            time.sleep(0.2)
        return done

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return _call(f"{self.address}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width: int, dark: bool) -> None:
        """Set the width of the window, and the color scheme of the system."""
        size = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write a screenshot."""
        path.write_bytes(base64.b64decode(_call(f"{self.address}/screenshot")))

    def console(self) -> list[str]:
        """Errors and warnings on the console since the page was opened."""
        return [entry["message"] for entry in self._log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Addresses that the page has asked for since it was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = _call(f"{self.address}/se/log", {"type": kind})
        return entries


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start chromedriver and a browser, and end both.

    Args:
        profile: Folder for the browser's own files.
    """
    driver = shutil.which("chromedriver")
    if CHROMIUM is None or driver is None:
        pytest.skip("no Chromium or no chromedriver is installed")
    port = free_port()
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = {"binary": CHROMIUM, "args": [*_FLAGS, f"--user-data-dir={profile}"]}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
    try:
        base = f"http://127.0.0.1:{port}"
        _wait(base)
        session = _call(f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        try:
            yield Browser(f"{base}/session/{session}")
        finally:
            _call(f"{base}/session/{session}", method="DELETE")
    finally:
        process.terminate()
        process.wait(30)


def _wait(base: str) -> None:
    for _ in range(300):
        try:
            _call(f"{base}/status")
        except urllib.error.URLError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("chromedriver does not answer")


def _call(url: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=180) as answer:
        return json.load(answer)["value"]
