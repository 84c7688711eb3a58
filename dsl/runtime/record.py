"""The record of a failed `assert` of a kernel. The record has 8 u32 words (docs/architecture.md)."""

from __future__ import annotations

from dsl.runtime.errors import DeviceAssertError


def assert_error(kernel: str, record: bytes) -> DeviceAssertError | None:
    """The error that an assert record reports. The result is None if no assert failed.

    The flag is 1 for an assertion of the kernel. The flag is 2 + axis if a bounds check found an index outside an axis.
    """
    flag, line, x, y, z, thread, *_ = memoryview(record).cast("I")
    return DeviceAssertError(kernel, line, (x, y, z), thread, None if flag == 1 else flag - 2) if flag else None
