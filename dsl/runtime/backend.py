"""The device of a name: a CUDA ordinal, or None for the emulator."""

from __future__ import annotations

import re

from dsl.runtime.errors import LaunchError


def gpu_reason() -> str | None:
    """Why there is no GPU to launch on (no driver, or a driver without devices); None if there is one."""
    from dsl.runtime.cuda import driver

    return driver.unavailable()


def choose(device: str | int = "auto") -> int | None:
    """`auto`: GPU 0, or the emulator without one; `cuda`, `cuda:1` or an ordinal: that GPU; `emulator`: None.

    Raises LaunchError `device` for another name, DeviceError `no-gpu` for a missing GPU."""
    if device == "emulator":
        return None
    if device == "auto":
        return 0 if gpu_reason() is None else None
    match = re.fullmatch(r"(?:cuda:)?([0-9]{1,4})|cuda", str(device))
    # True and False are ints of Python, and no ordinals.
    if match is None or isinstance(device, bool):
        raise LaunchError("device", f"{str(device)[:40]!r} is no device", "auto, cuda, cuda:1 or emulator")
    from dsl.runtime.cuda import driver

    ordinal = int(match[1] or 0)
    # A missing GPU is an error here, not at the first launch.
    driver.require(ordinal)
    return ordinal
