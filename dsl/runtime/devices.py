"""The facts of the device that a name means."""

from __future__ import annotations

from dsl.runtime.backend import choose
from dsl.runtime.chips import DeviceFacts, emulated_facts


def device_facts(device: str | int = "auto", arch: str = "sm_90") -> DeviceFacts:
    """Facts of `cuda`, `cuda:1`, an ordinal, or `emulator` (then of `arch`); `auto` is the GPU where there is one.

    Raises DeviceError `no-gpu` when a GPU is asked for and there is none.
    """
    ordinal = choose(device)
    if ordinal is None:
        return emulated_facts(arch)
    from dsl.runtime.cuda.context import context

    return context(ordinal).facts
