"""Reads a GPU's clocks, so that a log shows whether two days or two machines ran at the same speed."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress

from dsl.lab.place import TuningPlace

FIELDS = {
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "most_sm_mhz": "clocks.max.sm",
    "most_memory_mhz": "clocks.max.mem",
    "power_limit_w": "power.limit",
    "temperature_c": "temperature.gpu",
}
"""Maps the names in a log to fields of `nvidia-smi --query-gpu`."""
SECONDS = 10.0


def clocks(place: TuningPlace) -> dict[str, float]:
    """The clocks of the device now, in MHz, and what limits them. Fields that the driver does not tell are left out:
    all of them on the emulator, and without nvidia-smi."""
    program = None if place.ordinal is None else shutil.which("nvidia-smi")
    if place.ordinal is None or program is None:
        return {}
    words = [program, f"--id={bus_id(place.ordinal)}", f"--query-gpu={','.join(FIELDS.values())}"]
    try:
        done = subprocess.run(
            [*words, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[str, float] = {}
    for name, text in zip(FIELDS, done.stdout.strip().split(","), strict=False):
        # A field that a device lacks is `[N/A]`.
        with suppress(ValueError):
            found[name] = float(text)
    return found


def bus_id(ordinal: int) -> str:
    """The PCI address of a device. The driver and nvidia-smi number devices differently."""
    from dsl.runtime.cuda.driver import bindings, call

    driver = bindings()
    address: bytes = call(driver.cuDeviceGetPCIBusId, 16, call(driver.cuDeviceGet, ordinal))
    return address.decode().rstrip("\0")
