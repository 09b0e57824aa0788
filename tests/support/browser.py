"""One headless browser for many pages, driven by chromedriver's HTTP interface (W3C WebDriver)."""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import answers, free_port, wait_until

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # even if a proxy is set
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars",
)  # fmt: skip


class Browser:
    """A session of a browser, by its address at chromedriver."""

    def __init__(self, address: str) -> None:
        self._address = address

    def open(self, url: str) -> None:
        """Load a page and wait until its scripts have run."""
        self._log("browser"), self._log("performance")
        _request(f"{self._address}/url", {"url": url})

    def look(self, width: int, dark: bool) -> None:
        """Set the width of the screen in pixels, and the color scheme that the reader prefers."""
        screen = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": width < 600}
        self._tool("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tool("Emulation.setEmulatedMedia", {"features": [scheme]})

    def run(self, script: str) -> Any:
        """The value of a script, a function body, in the page."""
        return _request(f"{self._address}/execute/sync", {"script": script, "args": []})

    def wait_for(self, script: str, seconds: float = 60) -> bool:
        """Whether a script becomes true in time."""
        end = time.monotonic() + seconds
        while not (done := bool(self.run(script))) and time.monotonic() < end:
            time.sleep(0.2)
        return done

    def console(self) -> list[str]:
        """Errors and warnings on the console since the page was opened."""
        return [entry["message"] for entry in self._log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Addresses that the page has asked for since it was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = _request(f"{self._address}/se/log", {"type": kind})
        return entries

    def _tool(self, command: str, parameters: dict[str, Any]) -> Any:
        return _request(f"{self._address}/goog/cdp/execute", {"cmd": command, "params": parameters})


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start chromedriver and a browser with its files in a folder, and end both; without them the test is skipped."""
    driver = shutil.which("chromedriver")
    if CHROMIUM is None or driver is None:
        pytest.skip("no Chromium with chromedriver is installed")
    address = f"http://127.0.0.1:{(port := free_port())}"
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(f"{address}/status"), 30, "chromedriver answers")
        options = {"binary": CHROMIUM, "args": [*_OPTIONS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        session = _request(f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        try:
            yield Browser(f"{address}/session/{session}")
        finally:
            _request(f"{address}/session/{session}", method="DELETE")
    finally:
        process.terminate()
        process.wait(30)


def _request(url: str, content: dict[str, Any] | None = None, method: str | None = None) -> Any:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with DIRECTLY.open(request, timeout=180) as answer:
        return json.load(answer)["value"]
