"""Numbers that options take: each is checked when it is read, so that none means nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from shlex import quote
from typing import Any

import click

from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.plugins import current

MAX_SECONDS = 1e7
WORDS = "dsl.command.words"
"""Where a context keeps the command line."""


def command_line() -> tuple[str, ...]:
    """The words of the command that is run, from `dsl` on; a function of Python in its place has those that it comes
    to."""
    context = click.get_current_context(silent=True)
    return tuple(context.meta.get(WORDS, ())) if context is not None else ()


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

ARCH = click.option("--arch", default="sm_90", show_default=True, help="The target, for example sm_90a.")
ARCH_OF_DEVICE = click.option(
    "--arch", metavar="TARGET", help="Compile for this target, of which the emulated device is; the device's without."
)
CHOOSE = click.option(
    "--choose",
    multiple=True,
    metavar="KEY=OPTION",
    help="Take this option of a choice; may be repeated. 'dsl why' lists keys and options.",
)
FROM = click.option(
    *("--from", "edited"),
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Beside what is compiled, this IR, LLVM IR or PTX, edited or not; may be repeated.",
)
SKIP_PASS = click.option("--skip-pass", multiple=True, metavar="PASS", help="Leave out this pass; may be repeated.")


def said_plugins() -> list[str]:
    """The plug-ins of this command, as options of another one that does the same."""
    return [f"--plugin {quote(name)}" for name in current().files]


def choices_of(choose: Sequence[str], skip: Sequence[str] = ()) -> dict[str, str]:
    """The options that `--choose` and `--skip-pass` ask for, by key. TileError."""
    from dsl.lowering.passes import left_out

    found = dict(left_out(skip))
    for text in choose:
        key, equals, option = text.rpartition("=")
        if not equals or not key or not option:
            raise TileError("option", None, f"'{text}' is not KEY=OPTION", "--choose swizzle.s=none")
        if key in found:
            raise TileError("option", None, f"'{key}' is chosen twice")
        found[key] = option
    return found
