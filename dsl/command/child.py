"""Runs a request in a child process, for two reasons. An illegal access on a GPU makes the launching process unusable.
A launch that never ends can only be stopped by ending its process.

The child waits for each launch until the time limit, and reports a launch that has not ended. If the child does not
end, the parent stops it `GRACE` seconds after the time limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins

from dsl.command.failures import DEVICE_FAILED, INTERNAL, ChildFailure, record, told
from dsl.command.request import CommandRequest
from dsl.examples.report import Report
from dsl.kernels.plugin_files import load_plugins
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.plugins import current, give

GRACE = 60.0
"""Seconds beyond the time limit of a launch on a GPU. They cover everything else: process start, compilation and the
emulator's counters."""


def run_in_child(request: CommandRequest, output: Any, time_limit: float) -> Report:
    """Runs a request and returns its report. What the kernel prints is written to `output`. Raises ChildFailure."""
    return convert(answer_of_child("dsl.command.request", to_builtins(request), output, time_limit), Report)


def answer_of_child(module: str, request: dict[str, Any], output: Any, time_limit: float) -> dict[str, Any]:
    """Calls the function `answer` of `module` in a child process, and returns its result. The request and the result
    are JSON. `request` must contain `file` and `device`. Raises ChildFailure.

    `time_limit` is a number of seconds. On a GPU, `time_limit` limits each wait for the device. On the emulator,
    `time_limit` limits the whole process.
    """
    on_gpu = request.get("device") != "emulator"
    # The request and the answer are files, because the kernel prints to standard output and standard error.
    with tempfile.TemporaryDirectory(prefix="dsl-run-") as folder:
        asked, answered = Path(folder, "request.json"), Path(folder, "answer.json")
        limit = time_limit if on_gpu else None
        asked.write_text(json.dumps({"plugins": current().files, "request": request, "time_limit": limit}))
        command = [sys.executable, "-m", "dsl.command.child", module, str(asked), str(answered)]
        # Flushed so that earlier output of this process comes before the child's output.
        sys.stdout.flush()
        into = output if is_file(output) else subprocess.PIPE
        try:
            done = subprocess.run(command, stdout=into, timeout=time_limit + GRACE * on_gpu)
        except subprocess.TimeoutExpired as late:
            text = f"the process of the launch did not end in {late.timeout:g} seconds and was stopped"
            raise failure("time-limit", text) from None
        if done.stdout:
            # A notebook's stream is not a file, so this process passes the child's output on.
            (output or sys.stdout).write(done.stdout.decode(errors="replace"))
        if not answered.is_file():
            # The child was killed or its interpreter crashed, so there is no answer.
            raise failure("device", f"the process of the launch ended with status {done.returncode}")
        said = json.loads(answered.read_text())
    if "errors" in said:
        raise ChildFailure(said["error"], said["status"], said["errors"])
    return said


def is_file(stream: Any) -> bool:
    """Whether a child process can write to a stream directly. None means the standard output of this process. A child
    cannot write to a notebook's stream, because that stream has no file descriptor."""
    try:
        (stream or sys.stdout).fileno()
    except (OSError, AttributeError, ValueError):
        return False
    return True


def failure(code: str, message: str) -> ChildFailure:
    """The exception for a child process that wrote no answer."""
    error = TileError(code, None, message)
    return ChildFailure(error.render(), DEVICE_FAILED, [record(error)])


def main(module: str, asked: str, answered: str) -> None:
    """Runs in the child process. Reads the file `asked`, and writes the answer or an error to the file `answered`."""
    given = json.loads(Path(asked).read_text())
    request = given["request"]
    try:
        if given["plugins"]:
            plugins = load_plugins(given["plugins"])
            give(lambda: plugins)
        with waits(given["time_limit"]):
            said = import_module(module).answer(request)
    except Exception as error:
        said = told(error, request["file"])
        said["status"] = said["status"] or INTERNAL
    Path(answered).write_text(json.dumps(said))


def waits(seconds: float | None) -> AbstractContextManager[None]:
    """A context manager in which each launch on a GPU must end within `seconds`. None means no limit."""
    if seconds is None:
        return nullcontext()
    from dsl.runtime.cuda.context import time_limit

    return time_limit(seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
