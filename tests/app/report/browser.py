"""A real browser for tests: headless Chromium, controlled through two pipes by its DevTools protocol."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60.0
"""Seconds to wait for an answer, enough for a busy machine."""

_LAUNCH = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
"""Chromium reads commands from descriptor 3 and answers on 4."""

KEYS = {"Enter": (13, "\r"), " ": (32, " "), "Tab": (9, "")}


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page; it records every request and every message of the console."""

    def __init__(self, program: str, profile: Path) -> None:
        mine, theirs = os.pipe(), os.pipe()
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20) for descriptor in (mine[0], theirs[1])]  # away from 3 and 4
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
        ]
        options += ["--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        command = [sys.executable, "-c", _LAUNCH, *map(str, high), program, *options]
        self._process = subprocess.Popen(command, pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for descriptor in (mine[0], theirs[1], *high):
            os.close(descriptor)
        self._out, self._in = mine[1], theirs[0]
        self._buffer, self._numbers = b"", itertools.count(1)
        self._session: str | None = None
        self.requests: list[str] = []
        self.logged: list[str] = []
        self._attach()

    def _attach(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for the answer; events that arrive meanwhile are recorded."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._next(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._in, 1 << 16) if ready else b""
            if not part:
                raise RuntimeError("the browser does not answer" if not ready else "the browser has ended")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._record(message.get("method", ""), message.get("params", {}))
        return message

    def _record(self, event: str, details: Mapping[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif event == "Runtime.consoleAPICalled":
            self.logged.append(f"{details['type']}: {[argument.get('value') for argument in details['args']]}")
        elif event == "Runtime.exceptionThrown":
            self.logged.append(str(details["exceptionDetails"]))
        elif event == "Log.entryAdded":
            self.logged.append(details["entry"]["text"])

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a page in a window of this size, and wait until it is complete."""
        self.requests.clear()
        self.logged.clear()
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.send("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + PATIENCE
        while self.run("document.readyState") != "complete" or not self.run(f"location.href === {json.dumps(path.as_uri())}"):
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        code, text = KEYS[key]
        event = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def click(self, selector: str) -> None:
        """Click the mouse in the middle of an element."""
        query = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{query}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y = self.run(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({query}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        data = self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._session = None
        try:
            self.send("Browser.close")
            self._process.wait(PATIENCE)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
