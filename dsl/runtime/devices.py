"""Looks up the properties of a device by its name."""

from __future__ import annotations

from dsl.runtime.backend import choose
from dsl.runtime.chips import DeviceFacts, emulated_facts


def device_facts(device: str | int = "auto", arch: str = "sm_90") -> DeviceFacts:
    """Returns the properties of the device named `device`: `cuda`, `cuda:1`, an ordinal, `emulator` or `auto`.

    `auto` is GPU 0 if there is a GPU, and otherwise the emulator. The emulator has the properties of the chip for
    `arch`. Raises DeviceError `no-gpu` if a GPU is requested but missing."""
    ordinal = choose(device)
    if ordinal is None:
        return emulated_facts(arch)
    from dsl.runtime.cuda.context import context

    return context(ordinal).facts
