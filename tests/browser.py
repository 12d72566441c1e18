"""A headless Chromium, driven over a pipe: no driver, no port, nothing to install beside the browser."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
"""Rules of access, where `npm install --prefix .venv axe-core` brought them."""
MOUSE = "availablePointerTypes=4,primaryPointerType=4,availableHoverTypes=2,primaryHoverType=2"
"""A fine pointer that hovers, which a machine without a screen has not."""
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe"),
    f"--blink-settings={MOUSE}",
)


PHONE = 430


class Page:
    """One tab. `errors` gathers what the console complained of, `requests` what the page asked for."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._numbers, self._rest, self._session = itertools.count(1), b"", None
        self._loaded, self._touched = "", False
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._answers, 1 << 20)
            assert part, "Chromium ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        found = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(found["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if found["type"] in ("error", "warning", "assert"):
                self.errors.append(str([a.get("value", a.get("description")) for a in found["args"]]))
            case "Log.entryAdded" if found["entry"]["level"] in ("error", "warning"):
                self.errors.append(found["entry"]["text"])
            case "Page.lifecycleEvent" if found["name"] == "load":
                self._loaded = found["loaderId"]
            case "Network.requestWillBeSent":
                self.requests.append(found["request"]["url"])

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The window's size; what is as narrow as a phone is touched."""
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **shape)
        if self._touched != (width <= PHONE):  # asked twice, Chromium forgets the mouse
            self._touched = not self._touched
            self.call("Emulation.setTouchEmulationEnabled", enabled=self._touched)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, file: Path | str) -> None:
        """A file, or an address; waits until that is loaded, and not what a page before it reloads."""
        there = self.call("Page.navigate", url=file if isinstance(file, str) else file.resolve().as_uri())
        while self._loaded != there.get("loaderId", self._loaded):  # another place of the same page has none
            self._note(self._read())

    def run(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def barriers(self) -> list[str]:
        """What axe-core calls serious or critical on this page: rule, element and why, a line each."""
        self.run(AXE.read_text(encoding="utf-8"))  # by the debugger: the page's own policy lets nothing in
        answer = self.run("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{rule['id']} ({rule['impact']}): {node['html']} {node['failureSummary']}"
            for rule in answer["violations"]
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]

    def press(self, key: str) -> None:
        """A key of the keyboard, by its name: Tab, Enter, ArrowDown."""
        code = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}.get(key)
        arrows = ("End", "Home", "ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown")
        number = 35 + arrows.index(key) if code is None else code
        text = {"Enter": "\r", " ": " "}.get(key, "")
        pressed = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": number}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def until(self, condition: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, (
                f"{condition} did not come true in {seconds} s; console: {self.errors}"
            )
            time.sleep(0.05)

    def screenshot(self, file: Path, *, clip: dict[str, float] | None = None) -> None:
        found = self.call(
            "Page.captureScreenshot", format="png", **({"clip": {**clip, "scale": 1}} if clip else {})
        )
        file.write_bytes(base64.b64decode(found["data"]))


def without_axe() -> str:
    """Why axe-core cannot be asked here; nothing where it can."""
    if CHROMIUM is None:
        return "not run: no Chromium"
    return "" if AXE.is_file() else "not run: no axe-core (npm install --prefix .venv axe-core)"


@contextlib.contextmanager
def chromium() -> Iterator[Page]:
    """A browser with one tab, ended afterwards."""
    assert CHROMIUM, "no Chromium"
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="attnlab-chromium-", ignore_cleanup_errors=True) as profile:

        def three_and_four() -> None:
            high = [os.dup(read_commands), os.dup(write_answers)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
            preexec_fn=three_and_four,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        try:
            yield Page(commands, answers)
        finally:
            os.close(commands)  # Chromium ends with its pipe
            os.close(answers)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
