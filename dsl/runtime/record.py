"""Reads the record that a failed `assert` of a kernel writes. The record has 8 u32 words (docs/architecture.md)."""

from __future__ import annotations

from dsl.runtime.errors import DeviceAssertError


def assert_error(kernel: str, record: bytes) -> DeviceAssertError | None:
    """Returns the error that an assert record describes, or None if no `assert` failed.

    The record's first word is 1 if an `assert` of the kernel failed. It is 2 + axis if a bounds check found an index
    outside of this axis.
    """
    flag, line, x, y, z, thread, *_ = memoryview(record).cast("I")
    return DeviceAssertError(kernel, line, (x, y, z), thread, None if flag == 1 else flag - 2) if flag else None
