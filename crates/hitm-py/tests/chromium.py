"""A headless Chromium, driven over a pipe (--remote-debugging-pipe): no port, no package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any


def find() -> str | None:
    """Returns the path of a Chromium; none when there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class ScriptError(Exception):
    """An expression that failed in the page."""


class Chromium:
    """One browser with one page. Keeps what the page logs, throws and requests."""

    def __init__(self, program: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="hitm-chromium-", ignore_cleanup_errors=True)
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to 4. Ours may have these numbers themselves.
        high = [os.dup2(fd, 60 + at) for at, fd in enumerate((to_browser, from_browser))]

        def place() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                f"--user-data-dir={self.folder.name}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place,
        )
        for fd in (to_browser, from_browser, *high):
            os.close(fd)
        self.buffer = b""
        self.last_id = 0
        self.session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its result."""
        self.last_id += 1
        message: dict[str, Any] = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._take(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def _take(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                thrown = details.get("exception", {}).get("description", details["text"])
                self.problems.append(thrown)
            case "Runtime.consoleAPICalled":
                self.problems.append(f"console.{parameters['type']}: {parameters['args']}")
            case "Log.entryAdded":
                self.problems.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])

    def evaluate(self, expression: str) -> Any:
        """Returns the value of an expression in the page; promises are awaited."""
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise ScriptError(result["exceptionDetails"]["exception"].get("description"))
        return result["result"].get("value")

    def size(self, width: int, height: int) -> None:
        """Sets the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefers(self, theme: str) -> None:
        """Sets the theme that the system prefers: light or dark."""
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, page: Path) -> None:
        """Opens a file and waits until the page says that it is drawn."""
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.until("document.documentElement?.dataset.ready === 'yes'")

    def until(self, condition: str, seconds: float = 240) -> None:
        """Waits until a condition holds in the page."""
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}; problems: {self.problems}")
            time.sleep(0.02)

    def settle(self) -> None:
        """Waits until what was asked for is drawn."""
        self.evaluate(
            "new Promise((done) => setTimeout(() => requestAnimationFrame(() => "
            "requestAnimationFrame(done)), 90)).then(() => true)"
        )

    def screenshot(self, path: Path) -> None:
        """Writes the whole page as a picture."""
        self.settle()
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def key(self, key: str) -> None:
        """Presses a key."""
        codes = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowRight": 39, "ArrowUp": 38}
        text = "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode=codes[key],
            )

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drags with the left button."""
        for kind, (x, y) in (
            ("mouseMoved", start),
            ("mousePressed", start),
            ("mouseMoved", end),
            ("mouseReleased", end),
        ):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
            )
