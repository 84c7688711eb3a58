"""What a line of a log may be: every field of a trial is of its kind, so that nobody behind it need ask."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Reads = Callable[[Any], bool]
MOST = float(1 << 62)
"""Numbers are below it: counts, microseconds, bytes."""


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < MOST and math.isfinite(value)


def _whole(value: Any) -> bool:
    return type(value) is int and abs(value) < MOST


def _or_none(reads: Reads) -> Reads:
    return lambda value: value is None or reads(value)


def _each(reads: Reads) -> Reads:
    return lambda value: isinstance(value, list) and all(map(reads, value))


def _by_name(reads: Reads) -> Reads:
    return lambda value: isinstance(value, dict) and all(map(reads, value.values()))


def _scalar(value: Any) -> bool:
    """What a constant, an option or NAME=VALUE is."""
    return isinstance(value, bool | int | float | str | None)


def _step(value: Any) -> bool:
    """A kernel, and how it was asked for."""
    return (
        isinstance(value, dict)
        and all(_scalar(each) for name, each in value.items() if name not in ("constants", "fixed"))
        and _text(value.get("kernel"))
        and _or_none(_text)(value.get("schedule"))
        and _by_name(_scalar)(value.get("constants", {}))
        and _each(_text)(value.get("fixed", []))
    )


TRIAL: Mapping[str, Reads] = {
    **dict.fromkeys(("source", "device", "call", "status", "reason", "where", "file", "made"), _text),
    **dict.fromkeys(("driver", "example", "contest", "answer", "commit"), _or_none(_text)),
    **dict.fromkeys(("versions", "types", "choices"), _by_name(_text)),
    **dict.fromkeys(("values", "options"), _by_name(_scalar)),
    "dims": _by_name(_whole),
    "index": _whole,
    "steps": _each(_step),
    "times_us": _each(_number),
    "counters": _or_none(_by_name(_number)),
    "by_line": _by_name(_by_name(_number)),
    "launches": _each(lambda value: isinstance(value, dict)),
    "schema": _whole,
    "reference_us": _or_none(_number),
    "seed": _whole,
    "command": _each(_text),
}
LAUNCH: Mapping[str, Reads] = {
    "kernel": _text,
    "schedule": _or_none(_text),
    "constants": _by_name(_scalar),
    **dict.fromkeys(("threads", "registers", "spills", "shared_bytes", "occupancy", "instructions"), _or_none(_number)),
    "limited_by": _or_none(_text),
    "choices": _by_name(_text),
    "ptx": _or_none(_text),
}
"""Of the fields of `Trial` and `StepFacts`, what each may be."""


def is_trial(record: Any) -> bool:
    """Whether a line of JSON has what a trial has, each field of its kind. Those that are left out have a default."""
    return _has(record, TRIAL) and all(_has(each, LAUNCH) for each in record.get("launches", []))


def _has(record: Any, kinds: Mapping[str, Reads]) -> bool:
    return isinstance(record, dict) and all(name in kinds and kinds[name](value) for name, value in record.items())
