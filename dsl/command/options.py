"""Defines the options that several commands share, and their types. Each number is checked when it is parsed."""

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
"""The default time limit of a launch, in seconds."""
WORDS = "dsl.command.words"
"""The key of a click context that holds the command line."""


def command_line() -> tuple[str, ...]:
    """The words of the running command, starting with `dsl`. For a Python function, these are the words of the
    equivalent command line."""
    # silent, because a Python caller may not run inside a command
    context = click.get_current_context(silent=True)
    return tuple(context.meta.get(WORDS, ())) if context is not None else ()


class Seconds(click.ParamType):
    """A click type for a number of seconds above 0, at most `MAX_SECONDS`. With `zero`, 0 is allowed, too."""

    name = "seconds"

    def __init__(self, zero: bool = False):
        self.zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"'{value[:40]}' is not a number of seconds", param, ctx)
        if not math.isfinite(seconds) or not 0 <= seconds <= MAX_SECONDS or (seconds == 0 and not self.zero):
            least = "0 or more" if self.zero else "above 0"
            self.fail(f"{str(value)[:40]} is not a time: seconds are {least}, at most {MAX_SECONDS:,.0f}", param, ctx)
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
    "tuned_device": option("--device", metavar="NAME", help="Use the tuned data of this device: 'NVIDIA H200'."),
    "kernel": option("--kernel", metavar="NAME", help="This kernel; without it, all that the example launches."),
    "schedule": option("--schedule", metavar="NAME", help="This schedule; without it, the dispatch's choice."),
    "example": option("--example", metavar="NAME", help="This example of the file; without it, the first."),
    "launch": option("--launch", type=click.IntRange(1), metavar="N", help="Only the example's N-th launch."),
    # The same seed serves all purposes: inputs of examples, orders of contests, searches.
    "seed": option("--seed", type=SEED, default=0, help="Seed of the random inputs, and of all orders."),
    "arch": option("--arch", default="sm_90", show_default=True, help="The target, for example sm_90a."),
    "arch_of_device": option(
        "--arch", metavar="TARGET", help="The target, and the emulated device; without it, the device's."
    ),
    "choose": option(
        "--choose", multiple=True, metavar="KEY=OPTION", help="Take this option of a choice, see 'dsl why'; repeatable."
    ),
    "skip_pass": option("--skip-pass", multiple=True, metavar="PASS", help="Leave out this pass; repeatable."),
    "edited": option(
        *("--from", "edited"), multiple=True, type=click.Path(), metavar="FILE", help="Also this IR or PTX; repeatable."
    ),
    "jobs": option(
        "--jobs",
        type=click.IntRange(0, 1024),
        metavar="N",
        help="Processes that compile; default: all cores. 0: none.",
    ),
    "rounds": option(
        "--rounds", type=click.IntRange(6), metavar="N", help="Rounds of a contest on a GPU; default: 56."
    ),
    "blocks": option(
        "--blocks",
        type=click.IntRange(1),
        metavar="N",
        help="Of a launch on a GPU, count the first N; default: 8.",
    ),
    "log": option("--log", type=click.Path(dir_okay=False), metavar="FILE.jsonl", help="Add a line of JSON a trial."),
    "plot": option("--plot", type=click.Path(dir_okay=False), metavar="FILE.png", help="Draw the result (matplotlib)."),
    "output": option("-o", "--output", type=click.Path(dir_okay=False), help="Write to this file."),
    "seconds": option("--seconds", type=SECONDS_OR_NONE, metavar="S", help="Begin no new point after S seconds."),
    "time_limit": option(
        "--time-limit", type=SECONDS, default=TIME_LIMIT, metavar="S", help="Most seconds of a launch."
    ),
    "as_json": option("--json", "as_json", is_flag=True, help="Print one JSON object."),
}
"""Arguments and options of several commands, each declared once."""
LAB = "file values device example launch schedule seed blocks log arch_of_device choose skip_pass as_json"
"""The names of the arguments and options that all commands with trials take."""


def shared(names: str) -> Callable[[Any], Any]:
    """A decorator that adds the options `names` (keys of `SHARED`) to a command."""

    def given(command: Any) -> Any:
        # Python applies the last decorator first. Reversed, so that the help lists options in the order of `names`.
        for name in reversed(names.split()):
            command = SHARED[name](command)
        return command

    return given


def said_plugins() -> list[str]:
    """The `--plugin` options of the running command, for a printed command line that repeats it."""
    return [f"--plugin {quote(name)}" for name in current().files]


def choices_of(choose: Sequence[str], skip: Sequence[str] = ()) -> dict[str, str]:
    """Parses `--choose` and `--skip-pass`: `swizzle.s=none` becomes `{"swizzle.s": "none"}`. Raises TileError."""
    from dsl.lowering.passes import left_out

    found = dict(left_out(skip))
    for text in choose:
        # Split at the last '='. A key has dots and numbers, and an option never contains '='.
        key, equals, option = text.rpartition("=")
        if not equals or not key or not option:
            raise TileError("option", None, f"'{text}' is not KEY=OPTION", "--choose swizzle.s=none")
        if key in found:
            raise TileError("option", None, f"'{key}' is chosen twice")
        found[key] = option
    return found
