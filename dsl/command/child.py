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

from dsl.command.failures import DEVICE_FAILED, INTERNAL, ChildFailure, record, told
from dsl.command.request import CommandRequest
from dsl.examples.report import Report, from_json
from dsl.kernels.plugin_files import load_plugins
from lowering.location import TileError
from lowering.plugins import current, give


def run_in_child(request: CommandRequest, output: Any, time_limit: float) -> Report:
    """The report of a request. What the kernel prints goes to `output`. Raises ChildFailure."""
    return from_json(answer_of_child("dsl.command.request", asdict(request), output, time_limit))


def answer_of_child(module: str, request: dict[str, Any], output: Any, time_limit: float) -> dict[str, Any]:
    """What the function `answer` of `module` says in a process of its own; both are JSON, and `request` has the
    `file`. Raises ChildFailure."""
    with tempfile.TemporaryDirectory(prefix="dsl-run-") as folder:
        asked, answered = Path(folder, "request.json"), Path(folder, "answer.json")
        asked.write_text(json.dumps({"plugins": current().files, "request": request}))
        command = [sys.executable, "-m", "dsl.command.child", module, str(asked), str(answered)]
        sys.stdout.flush()
        into = output if is_file(output) else subprocess.PIPE
        try:
            done = subprocess.run(command, stdout=into, timeout=time_limit)
        except subprocess.TimeoutExpired:
            raise failure("time-limit", f"the launch did not end in {time_limit:g} seconds and was stopped") from None
        if done.stdout:
            (output or sys.stdout).write(done.stdout.decode(errors="replace"))
        if not answered.is_file():
            raise failure("device", f"the process of the launch ended with status {done.returncode}")
        said = json.loads(answered.read_text())
    if "errors" in said:
        raise ChildFailure(said["error"], said["status"], said["errors"])
    return said


def is_file(stream: Any) -> bool:
    """Whether a process can write to a stream itself (None: that of this one): those of notebooks have no file."""
    try:
        (stream or sys.stdout).fileno()
    except (OSError, AttributeError, ValueError):
        return False
    return True


def failure(code: str, message: str) -> ChildFailure:
    """Of a child that gave no answer."""
    error = TileError(code, None, message)
    return ChildFailure(error.render(), DEVICE_FAILED, [record(error)])


def main(module: str, asked: str, answered: str) -> None:
    """The child: answers the request, or writes the error."""
    given = json.loads(Path(asked).read_text())
    request = given["request"]
    try:
        if given["plugins"]:
            plugins = load_plugins(given["plugins"])
            give(lambda: plugins)
        said = import_module(module).answer(request)
    except Exception as error:
        said = told(error, request["file"])
        said["status"] = said["status"] or INTERNAL
    Path(answered).write_text(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
