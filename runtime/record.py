"""What a failed `assert` of a kernel leaves behind: 8 u32 words, see docs/architecture.md."""

from __future__ import annotations

from runtime.errors import DeviceAssertError


def assert_error(kernel: str, record: bytes) -> DeviceAssertError | None:
    """The error that an assert record tells of, None when no assert failed."""
    flag, line, x, y, z, thread, *_ = memoryview(record).cast("I")
    return DeviceAssertError(kernel, line, (x, y, z), thread) if flag else None
