"""The device that runs trials: a GPU, or the emulator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from random import Random

from msgspec import Struct

from dsl.lowering.ir.targets import Target, target

WAIT_SECONDS = 300.0
"""Longest wait for a GPU, which may have up to 64 launches queued. After this time, the launch counts as a hang."""


class TuningPlace(Struct, frozen=True):
    """A device. `device` is `emulator` or for example `cuda:0`. `name` is the chip's name. `driver` is the driver's
    version."""

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
        """Whether launches are timed. The emulator does not time launches; it counts their costs."""
        return self.ordinal is not None

    def limited(self) -> AbstractContextManager[None]:
        """A context manager for launches. On a GPU, a launch that does not end raises a DeviceError `time-limit`."""
        if self.ordinal is None:
            return nullcontext()
        from dsl.runtime.cuda.context import time_limit

        return time_limit(WAIT_SECONDS)

    def rounds(self, launches: list[Callable[[], object]], rounds: int, order: Random) -> list[list[float]]:
        """Times launches on a GPU with `measure_rounds`. Returns the microseconds of each round, one list for each
        launch."""
        from dsl.runtime.cuda.timing import measure_rounds

        assert self.ordinal is not None
        with self.limited():
            return measure_rounds(launches, rounds, order=order, device=self.ordinal)

    @property
    def target(self) -> Target:
        return target(self.arch)


def find_place(device: str, arch: str | None = None) -> TuningPlace:
    """The device of this name. `arch` selects the target, and the chip that the emulator imitates. Raises LaunchError
    or DeviceError."""
    from dsl.runtime import device_facts
    from dsl.runtime.backend import choose

    ordinal = choose(device)
    name = "emulator" if ordinal is None else f"cuda:{ordinal}"
    facts = device_facts(name, *([] if arch is None else [target(arch).arch]))
    # The driver is part of a trial's identity, since another driver may compile the PTX to other code.
    driver = None
    if ordinal is not None:
        from dsl.runtime.cuda.driver import version

        driver = version()
    return TuningPlace(name, facts.name, target(arch or facts.arch).arch, facts.sms, driver)
