"""Numbers that options take: each is checked when it is read, so that none means nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Any

import click
from click import argument, option

from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.plugins import current

MAX_SECONDS = 1e7
TIME_LIMIT = 300.0
"""Seconds of a launch, unless an option says others."""
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

SHARED = {
    "file": argument("file", type=click.Path()),
    "values": argument("values", nargs=-1, metavar="[NAME=VALUE]..."),
    "device": option(
        "--device",
        default="auto",
        metavar="auto|cuda|cuda:N|emulator",
        help="Where to run; auto takes a GPU if there is one.",
    ),
    "tuned_device": option("--device", metavar="NAME", help="With what was tuned for this device: 'NVIDIA H200'."),
    "kernel": option("--kernel", metavar="NAME", help="This kernel; without it, those that the example launches."),
    "schedule": option("--schedule", metavar="NAME", help="This schedule; without it, the dispatch's choice."),
    "example": option("--example", metavar="NAME", help="This example of the file; the first one without."),
    "launch": option("--launch", type=click.IntRange(1), metavar="N", help="Only the example's N-th launch."),
    "seed": option("--seed", type=SEED, default=0, help="Seed of the random inputs, and of all orders."),
    "arch": option("--arch", default="sm_90", show_default=True, help="The target, for example sm_90a."),
    "arch_of_device": option(
        "--arch", metavar="TARGET", help="The target, and the emulated device; the device's without."
    ),
    "choose": option(
        "--choose", multiple=True, metavar="KEY=OPTION", help="Take this option of a choice, see 'dsl why'; repeatable."
    ),
    "skip_pass": option("--skip-pass", multiple=True, metavar="PASS", help="Leave out this pass; repeatable."),
    "edited": option(
        *("--from", "edited"), multiple=True, type=click.Path(), metavar="FILE", help="Also this IR or PTX; repeatable."
    ),
    "jobs": option(
        "--jobs", type=click.IntRange(0, 1024), metavar="N", help="Processes that compile; as many as cores. 0: none."
    ),
    "rounds": option("--rounds", type=click.IntRange(6), metavar="N", help="Of the contest on a GPU; 56 without."),
    "blocks": option(
        "--blocks", type=click.IntRange(1), metavar="N", help="Of a launch on a GPU, count the first N; 8 without."
    ),
    "log": option("--log", type=click.Path(dir_okay=False), metavar="FILE.jsonl", help="Add a line of JSON a trial."),
    "plot": option("--plot", type=click.Path(dir_okay=False), metavar="FILE.png", help="Draw it (matplotlib)."),
    "output": option("-o", "--output", type=click.Path(dir_okay=False), help="Write to this file."),
    "time_limit": option("--time-limit", type=SECONDS, default=TIME_LIMIT, metavar="S", help="Seconds of a launch."),
    "as_json": option("--json", "as_json", is_flag=True, help="Print one JSON object."),
}
"""What several commands take, declared once."""
LAB = "file values device example launch schedule seed blocks log arch_of_device choose skip_pass as_json"
"""Of a command that tries launches."""


def shared(names: str) -> Callable[[Any], Any]:
    """Gives a command these arguments and options."""

    def given(command: Any) -> Any:
        for name in reversed(names.split()):
            command = SHARED[name](command)
        return command

    return given


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
