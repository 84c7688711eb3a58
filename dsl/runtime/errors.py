"""The errors of a launch, by who caused them. `exit_status` is that of the `dsl` command."""

from __future__ import annotations

from typing import Any


class RuntimeFault(Exception):
    """Base of all errors that `dsl.runtime` raises.

    `code` is a stable kebab-case word, `message` one sentence, `hint` how to fix it, `line` the line of the `.tile`
    file if known. `output`: what the kernel had printed by then, on the emulator. `caller`: the place of the launch in
    an example."""

    exit_status = 3
    output = ""
    caller: Any = None

    def __init__(self, code: str, message: str, hint: str | None = None, line: int | None = None) -> None:
        # All arguments go to the base: exceptions are pickled by them.
        super().__init__(code, message, hint, line)
        self.code = code
        self.message = message
        self.hint = hint
        self.line = line

    def __str__(self) -> str:
        where = "" if self.line is None else f" (line {self.line} of the .tile file)"
        hint = "" if self.hint is None else f"\nhint: {self.hint}"
        return f"{self.message}{where}{hint}"


class LaunchError(RuntimeFault):
    """The caller's mistake: arguments that the kernel does not take, or PTX text whose header is malformed."""

    exit_status = 2


LASTING = ("poisoned", "time-limit")
"""Codes of a DeviceError after which nothing runs on the device any more in this process."""


class DeviceError(RuntimeFault):
    """The device or its driver failed, or there is none."""


class MissingToolError(DeviceError):
    """A program of the CUDA toolkit is not installed."""

    def __init__(self, program: str, hint: str) -> None:
        super().__init__("tool", f"{program} is not installed", hint)
        self.program = program

    def __reduce__(self) -> tuple[type[MissingToolError], tuple[object, ...]]:
        """Pickle by the constructor's own arguments."""
        return type(self), (self.program, self.hint)


class FindingError(DeviceError):
    """The strict emulator found a fault of the program: `finding` has its kind, block, thread and line."""

    def __init__(self, message: str, finding: Any) -> None:
        super().__init__("finding", message, line=finding.line)
        self.finding = finding

    def __reduce__(self) -> tuple[type[FindingError], tuple[object, ...]]:
        """Pickle by the constructor's own arguments."""
        return type(self), (self.message, self.finding)


class DeviceAssertError(DeviceError):
    """An `assert` of a kernel failed on the device: `line` of the `.tile` file, `block` (x, y, z) and `thread`.

    `axis`: with checks of bounds, the axis that an index is outside of.
    """

    def __init__(
        self, kernel: str, line: int, block: tuple[int, int, int], thread: int, axis: int | None = None
    ) -> None:
        where = f"block ({block[0]}, {block[1]}, {block[2]}), thread {thread}"
        what = f"an assert of {kernel} failed" if axis is None else f"an index of {kernel} lies outside of axis {axis}"
        super().__init__("device-assert", f"{what} in {where}", line=line)
        self.kernel = kernel
        self.axis = axis
        self.block = block
        self.thread = thread

    def __reduce__(self) -> tuple[type[DeviceAssertError], tuple[object, ...]]:
        """Pickle by the constructor's own arguments (a pool of processes sends errors back)."""
        return type(self), (self.kernel, self.line, self.block, self.thread, self.axis)
