"""A run in a process of its own: an illegal access on a GPU poisons the process, and a hang must end."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dsl.command.failures import DEVICE_FAILED, INTERNAL, ChildFailure, render
from dsl.command.request import Request, execute
from dsl.report import Report, from_json


def run_in_child(request: Request, output: Any, time_limit: float) -> Report:
    """The report of a request. What the kernel prints goes to `output`. Raises ChildFailure."""
    with tempfile.TemporaryDirectory(prefix="dsl-run-") as folder:
        asked, told = Path(folder, "request.json"), Path(folder, "report.json")
        asked.write_text(json.dumps(asdict(request)))
        command = [sys.executable, "-m", "dsl.command.child", str(asked), str(told)]
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
    return from_json(record)


def main(asked: str, told: str) -> None:
    """The child: runs the request, and writes the report or the error."""
    request = Request(**json.loads(Path(asked).read_text()))
    try:
        record = asdict(execute(request))
    except Exception as error:
        text, status = render(error, request.file)
        record = {"text": text, "status": status if status else INTERNAL}
    Path(told).write_text(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:])
