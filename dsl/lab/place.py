"""Where trials are made: a GPU, or the emulator as one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from dsl.lowering.ir.targets import Target, target

WAIT_SECONDS = 300.0
"""That a GPU may take for what was queued, 64 launches at most, until it is waited for no longer."""


@dataclass(frozen=True, slots=True)
class TuningPlace:
    """Where it runs: `device` is `emulator` or `cuda:0`, `name` that of the chip, `driver` its version."""

    device: str
    name: str
    arch: str
    sms: int
    driver: str | None = None

    @property
    def ordinal(self) -> int | None:
        return None if self.device == "emulator" else int(self.device.partition(":")[2] or 0)

    @property
    def is_timed(self) -> bool:
        """Whether launches are timed, and not counted alone."""
        return self.ordinal is not None

    def limited(self) -> AbstractContextManager[None]:
        """Around launches: on a GPU one that does not end is DeviceError `time-limit`."""
        if self.ordinal is None:
            return nullcontext()
        from dsl.runtime.cuda.context import time_limit

        return time_limit(WAIT_SECONDS)

    @property
    def target(self) -> Target:
        return target(self.arch)


def find_place(device: str, arch: str | None = None) -> TuningPlace:
    """The device of this name, or an emulated one of a target. Raises LaunchError or DeviceError."""
    from dsl.runtime import device_facts
    from dsl.runtime.backend import choose

    ordinal = choose(device)
    name = "emulator" if ordinal is None else f"cuda:{ordinal}"
    facts = device_facts(name, *([] if arch is None else [target(arch).arch]))
    driver = None
    if ordinal is not None:
        from dsl.runtime.cuda.driver import version

        driver = version()
    return TuningPlace(name, facts.name, target(arch or facts.arch).arch, facts.sms, driver)
