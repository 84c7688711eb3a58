"""A run in a process of its own: an illegal access on a GPU poisons the process, and a hang must end."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from dsl.command.failures import DEVICE_FAILED, INTERNAL, ChildFailure, render
from dsl.command.request import Request
from dsl.report import Report, from_json


def run_in_child(request: Request, output: Any, time_limit: float) -> Report:
    """The report of a request. What the kernel prints goes to `output`. Raises ChildFailure."""
    return from_json(answer_of_child("dsl.command.request", asdict(request), output, time_limit))


def answer_of_child(module: str, request: dict[str, Any], output: Any, time_limit: float) -> dict[str, Any]:
    """What the function `answer` of `module` says in a process of its own; both are JSON, and `request` has the
    `file`. Raises ChildFailure."""
    with tempfile.TemporaryDirectory(prefix="dsl-run-") as folder:
        asked, told = Path(folder, "request.json"), Path(folder, "answer.json")
        asked.write_text(json.dumps(request))
        command = [sys.executable, "-m", "dsl.command.child", module, str(asked), str(told)]
        sys.stdout.flush()
        try:
            status = subprocess.run(command, stdout=output, timeout=time_limit).returncode
        except subprocess.TimeoutExpired:
            text = f"error[time-limit]: the launch did not end in {time_limit:g} seconds and was stopped"
            raise ChildFailure(text, DEVICE_FAILED) from None
        if not told.is_file():
            raise ChildFailure(f"error[device]: the process of the launch ended with status {status}", DEVICE_FAILED)
        record = json.loads(told.read_text())
    if "text" in record:
        raise ChildFailure(record["text"], record["status"])
    return record


def main(module: str, asked: str, told: str) -> None:
    """The child: answers the request, or writes the error."""
    request = json.loads(Path(asked).read_text())
    try:
        record = import_module(module).answer(request)
    except Exception as error:
        text, status = render(error, request["file"])
        record = {"text": text, "status": status if status else INTERNAL}
    Path(told).write_text(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:])
