"""A browser without a window, driven through a pipe: what tests of pages need, and no more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser, or None."""
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--window-size=1600,1000")
PIPES = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
"""The protocol is spoken through the files 3 and 4."""


class Page:
    """One page of a browser of its own. `events`: what it told by itself."""

    def __init__(self, file: Path, profile: Path):
        assert PROGRAM is not None
        reads, self.writes = os.pipe()
        self.reads, writes = os.pipe()
        command = ["bash", "-c", PIPES, "pipes", str(reads), str(writes), PROGRAM, *OPTIONS]
        self.process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(reads, writes),
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self.rest, self.count, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Page.navigate", url=file.resolve().as_uri())
        self.value("new Promise(done => { const look = () => window.page ? done(1) : setTimeout(look, 20); look(); })")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers."""
        self.count += 1
        session = {"sessionId": self.session} if self.session else {}
        message = {"id": self.count, "method": method, "params": params, **session}
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.reads, 1 << 20)
                assert part, "the browser ended"
                self.rest += part
            one, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(one)
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def value(self, expression: str) -> Any:
        """What an expression, or its promise, comes to."""
        said = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def mouse(self, kind: str, x: float, y: float) -> None:
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def close(self) -> None:
        self.ask("Browser.close")
        self.process.wait(30)
        os.close(self.reads)
        os.close(self.writes)
