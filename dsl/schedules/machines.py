"""Times and bandwidths of devices, which the costs of schedules read (`machines.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from dsl.lowering.ir.targets import Target


def machine_numbers(target: Target, device: str | None = None) -> Mapping[str, float]:
    """Returns the numbers of the device with the name `device`, or of the target's chip if the device has no row. Times
    are in microseconds, and bandwidths in bytes per microsecond."""
    rows = _rows()
    return rows[next((name for name in rows if device is not None and name in device), target.chip)]


@lru_cache(maxsize=1)
def _rows() -> dict[str, dict[str, float]]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {name: {key: float(number) for key, number in row.items()} for name, row in tomllib.loads(text).items()}
