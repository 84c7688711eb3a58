"""The exceptions that `dsl.runtime` raises. The class of an error shows who caused it, such as the caller or the
device. `exit_status` is the exit status of the `dsl` command."""

from __future__ import annotations

from typing import Any


class RuntimeFault(Exception):
    """Base class of all errors that `dsl.runtime` raises.

    `code` is a stable kebab-case word, and `message` is one sentence. `hint` tells the user how to fix the error.
    `line` is the line in the `.tile` file, if known. `file` names this file if the kernel is in another one. `output`
    is the text that the kernel printed on the emulator before the error. If an `example` made the launch, `caller` is
    the source location of this launch."""

    exit_status = 3
    output = ""
    caller: Any = None

    def __init__(
        self, code: str, message: str, hint: str | None = None, line: int | None = None, file: str | None = None
    ) -> None:
        # The base class gets all arguments, because pickle restores an exception from them.
        super().__init__(code, message, hint, line, file)
        self.code = code
        self.message = message
        self.hint = hint
        self.line = line
        self.file = file

    def __str__(self) -> str:
        where = "" if self.line is None else f" (line {self.line} of {self.file or 'the .tile file'})"
        hint = "" if self.hint is None else f"\nhint: {self.hint}"
        return f"{self.message}{where}{hint}"


class LaunchError(RuntimeFault):
    """The caller made a mistake: the kernel does not accept the arguments, or the header of the PTX text is
    malformed."""

    exit_status = 2


LASTING = ("poisoned", "time-limit")
"""Codes of DeviceErrors after which this process can no longer use the device."""


class DeviceError(RuntimeFault):
    """The device or its driver failed, or there is no device."""


class MissingToolError(DeviceError):
    """A program of the CUDA toolkit is not installed."""

    def __init__(self, program: str, hint: str) -> None:
        super().__init__("tool", f"{program} is not installed", hint)
        self.program = program

    def __reduce__(self) -> tuple[type[MissingToolError], tuple[object, ...]]:
        """Lets pickle restore the error from the arguments of its constructor."""
        return type(self), (self.program, self.hint)


class FindingError(DeviceError):
    """The emulator found a fault in the kernel, such as a race. `finding` contains the fault's kind, block, thread and
    line."""

    def __init__(self, message: str, finding: Any) -> None:
        super().__init__("finding", message, line=finding.line)
        self.finding = finding

    def __reduce__(self) -> tuple[type[FindingError], tuple[object, ...]]:
        """Lets pickle restore the error from the arguments of its constructor."""
        return type(self), (self.message, self.finding)


OUTSIDE = "an index counts from 0 to the extent of its axis - 1, also one that a table has; mask= leaves others out"


class DeviceAssertError(DeviceError):
    """An `assert` of a kernel failed in the block `block` (x, y, z) and the thread `thread`.

    `line` is the line of the `assert` in the `.tile` file. If a bounds check failed, `axis` is the axis whose index is
    out of range.
    """

    def __init__(
        self, kernel: str, line: int, block: tuple[int, int, int], thread: int, axis: int | None = None
    ) -> None:
        where = f"block ({block[0]}, {block[1]}, {block[2]}), thread {thread}"
        what = f"an assert of {kernel} failed" if axis is None else f"an index of {kernel} lies outside of axis {axis}"
        super().__init__("device-assert", f"{what} in {where}", None if axis is None else OUTSIDE, line)
        self.kernel = kernel
        self.axis = axis
        self.block = block
        self.thread = thread

    def __reduce__(self) -> tuple[type[DeviceAssertError], tuple[object, ...]]:
        """Lets pickle restore the error from the arguments of its constructor. Process pools send errors by pickle."""
        return type(self), (self.kernel, self.line, self.block, self.thread, self.axis)
