"""Numbers that options take: each is checked when it is read, so that none means nothing."""

from __future__ import annotations

import math
from typing import Any

import click

MAX_SECONDS = 1e7


class Seconds(click.ParamType):
    """A time, above 0 unless `zero` allows that; no infinity and no NaN."""

    name = "seconds"

    def __init__(self, zero: bool = False):
        self.zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"'{value[:40]}' is no number of seconds", param, ctx)
        if not math.isfinite(seconds) or not 0 <= seconds <= MAX_SECONDS or (seconds == 0 and not self.zero):
            least = "0 or more" if self.zero else "above 0"
            self.fail(f"{str(value)[:40]} is no time: seconds are {least}, at most {MAX_SECONDS:,.0f}", param, ctx)
        return seconds


SECONDS = Seconds()
SECONDS_OR_NONE = Seconds(zero=True)
SEED = click.IntRange(0, (1 << 63) - 1)

SKIP_PASS = click.option("--skip-pass", multiple=True, metavar="PASS", help="Leave out this pass; may be repeated.")
