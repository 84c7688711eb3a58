"""The clocks of the multiprocessors during a measurement. If the power limit lowers the clocks, times are longer."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .intervals import Interval


class Clocks:
    """Reads the clock of GPU 0 in MHz, each time that `read` is called.

    `interval` is None if the driver's management library or the package nvidia-ml-py is missing.
    """

    def __init__(self) -> None:
        self._nvml: Any = None
        self._device: Any = None
        self._found: list[float] = []
        with suppress(ImportError):
            import pynvml

            with suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                self._device = pynvml.nvmlDeviceGetHandleByIndex(0)
                self._nvml = pynvml

    def read(self) -> None:
        if self._nvml is not None:
            self._found.append(float(self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_SM)))

    @property
    def interval(self) -> Interval | None:
        return Interval.of(self._found) if self._found else None
