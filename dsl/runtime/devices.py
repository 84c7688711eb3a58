"""The facts of the device of a name."""

from __future__ import annotations

from dsl.runtime.backend import choose
from dsl.runtime.chips import DeviceFacts, emulated_facts


def device_facts(device: str | int = "auto", arch: str = "sm_90") -> DeviceFacts:
    """Facts of `cuda`, `cuda:1`, an ordinal, or `emulator` (then of `arch`); `auto` is the GPU if there is one.

    Raises DeviceError `no-gpu` if a GPU is requested and there is none."""
    ordinal = choose(device)
    if ordinal is None:
        return emulated_facts(arch)
    from dsl.runtime.cuda.context import context

    return context(ordinal).facts
