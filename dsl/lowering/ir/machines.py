"""Times and bandwidths of devices, which the costs of schedules read: the rows of `machines.toml`, and those of a file
of the user, which win."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from sys import float_info

from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.targets import Target

SHIPPED = Path(__file__).with_suffix(".toml")

Row = Mapping[str, float]
COUNTS = ("gpu_cluster_sms",)
"""Numbers that are not fitted because they count something. Costs jump where they change."""


def machine_numbers(target: Target, device: str | None = None) -> Row:
    """Returns the numbers of the device with the name `device`, or of the target's chip if the device has no row. Times
    are in microseconds, and bandwidths in bytes per microsecond. Raises a TileError `file` for a wrong file of the
    user."""
    shipped, name = machine_rows(SHIPPED), device or target.chip
    return {**(_row_of(shipped, name) or shipped[target.chip]), **_row_of(machine_rows(own_rows()), name)}


Version = tuple[Path, int | None]
"""The path of the user's file and the time of its last change, or None if there is no such file."""
_known: ContextVar[Version | None] = ContextVar("_known", default=None)


def own_version() -> Version:
    if (known := _known.get()) is not None:
        return known
    path = own_rows()
    try:
        return path, os.stat(path).st_mtime_ns
    except OSError:
        return path, None


@contextmanager
def looks_once() -> Iterator[None]:
    """A context manager in which the user's file is looked at once. A plan compares schedules by the same numbers. To
    look takes 8 us, and each of 3 to 6 schedules asks."""
    token = _known.set(own_version())
    try:
        yield
    finally:
        _known.reset(token)


def own_rows() -> Path:
    """The path of the user's file (XDG base directory specification). It need not exist."""
    return _of_folder(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))


@lru_cache(maxsize=4)
def _of_folder(folder: str) -> Path:
    return Path(folder, "dsl", "machines.toml")


def _row_of(rows: Mapping[str, Row], device: str) -> Row:
    for name, row in rows.items():
        if name in device:
            return row
    return {}


def machine_rows(path: Path) -> Mapping[str, Row]:
    """Returns the rows of a file by the names of devices. There are none if the file does not exist. Raises a TileError
    `file`."""
    try:
        # Each choice of points asks, so the shipped file is not looked at again. That of the user may change.
        return _rows(path, 0 if path is SHIPPED else os.stat(path).st_mtime_ns)
    except OSError:  # nor if its folder may not be looked into, as that of another user
        return {}


@lru_cache(maxsize=4)
def _rows(path: Path, changed: int) -> Mapping[str, Row]:
    import tomllib

    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TileError("file", None, f"cannot read {path}: {error}", "dsl calibrate -o writes such a file") from None
    known = None if path == SHIPPED else next(iter(machine_rows(SHIPPED).values()))
    for device, row in rows.items():
        if not isinstance(row, dict):
            hint = 'a row begins with ["NAME OF A DEVICE"]'
            raise TileError("file", None, f"{path}: '{device}' stands in no row", hint)
        for name, number in row.items():
            if known is not None and name not in known:
                hint = closest(name, known) or f"known: {', '.join(known)}"
                raise TileError("file", None, f"{path}: row '{device}' has no number '{name}'", hint)
            kinds = (int,) if name in COUNTS else (int, float)
            if type(number) not in kinds or not 0 < number <= float_info.max:
                kind = "an integer" if name in COUNTS else "a number"
                raise TileError("file", None, f"{path}: '{name}' of row '{device}' is {kind} above 0")
    return {device: {n: v if n in COUNTS else float(v) for n, v in row.items()} for device, row in rows.items()}


def four_digits(number: float) -> float:
    return float(f"{number:.4g}")


def text_of_rows(rows: Mapping[str, Row]) -> str:
    """The text of a file with these rows. Numbers are rounded to four digits."""
    texts = []
    for device, row in rows.items():
        lines = [f"{name} = {n if name in COUNTS else four_digits(n):_}" for name, n in row.items()]
        texts.append("\n".join([f"[{json.dumps(device)}]", *lines, ""]))
    return "\n".join(texts)
