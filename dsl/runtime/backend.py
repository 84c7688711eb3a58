"""Turns the name of a device into a CUDA ordinal, or into None for the emulator."""

from __future__ import annotations

import re

from dsl.runtime.errors import LaunchError


def gpu_reason() -> str | None:
    """Returns None if there is a GPU, and otherwise the reason why there is none, such as a missing driver."""
    from dsl.runtime.cuda import driver

    return driver.unavailable()


def choose(device: str | int = "auto") -> int | None:
    """Returns the CUDA ordinal of the device named `device`, or None for the emulator.

    `auto` is GPU 0 if there is a GPU, and otherwise the emulator. `cuda` is GPU 0, and `cuda:1` or 1 is GPU 1.
    `emulator` is the emulator. Raises LaunchError `device` for another name, and DeviceError `no-gpu` for a missing
    GPU."""
    if device == "emulator":
        return None
    if device == "auto":
        return 0 if gpu_reason() is None else None
    match = re.fullmatch(r"(?:cuda:)?([0-9]{1,4})|cuda", str(device))
    # In Python True and False are ints, but they are no ordinals.
    if match is None or isinstance(device, bool):
        raise LaunchError("device", f"{str(device)[:40]!r} is no device", "auto, cuda, cuda:1 or emulator")
    from dsl.runtime.cuda import driver

    ordinal = int(match[1] or 0)
    # Report a missing GPU here, not at the first launch.
    driver.require(ordinal)
    return ordinal
