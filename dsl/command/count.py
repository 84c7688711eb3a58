"""`dsl count`: compares what launches of PTX texts cost. The texts may come from any compiler."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from dsl.command.failures import DIFFERS, failed
from dsl.command.options import shared
from dsl.command.run import choose_device
from dsl.lowering.ir.location import TileError, printable
from dsl.lowering.ir.plugins import current

if TYPE_CHECKING:
    from dsl.studies.count import CountedFile

EXTENTS = "X[,Y[,Z]]"


@click.command()
@click.argument("words", nargs=-1, metavar="FILE.ptx... [NAME=VALUE]...")
@shared("device seed time_limit as_json")
@click.option("--entry", "entries", multiple=True, metavar="NAME", help="The entry to launch, of a text with several.")
@click.option("--grid", "grids", multiple=True, metavar=EXTENTS, help="Blocks; expressions: --grid 'cdiv(n, 256)'.")
@click.option("--block", "blocks", multiple=True, metavar=EXTENTS, help="Threads of a block, unless the text says it.")
@click.option("--cluster", "clusters", multiple=True, metavar=EXTENTS, help="Blocks of a cluster, likewise.")
@click.option("--shared", multiple=True, metavar="BYTES[,ALIGN]", help="Dynamic shared memory, aligned as by a driver.")
@click.option("--args", "arguments", multiple=True, metavar="EXPR,...", help="The arguments; all values without.")
@click.option("--expect", "expects", multiple=True, metavar="CONDITION", help="As in examples: 'y ~= 2 * x within 0'.")
@click.option("--save", "saves", multiple=True, metavar="NAME=FILE.npy", help="Write this value after the launch.")
@click.option("--by", type=click.Choice(["source", "ptx", "array"]), help="Also counters by line or array.")
@click.option("--first", "only", type=click.IntRange(1), metavar="N", help="Count the first N blocks of the grid only.")
@click.option("--arch", metavar="TARGET", help="The device that the emulator is; the text's target without.")
def command(words: tuple[str, ...], device: str, by: str | None, as_json: bool, **options: Any) -> int:
    """Launch PTX texts of any compiler and count what they do. The emulator counts, and finds the faults of the texts.
    A GPU, if there is one, measures their times. Several texts run side by side, on the same values.

    Values are expressions of the language, as in an example, or .npy files: x='randn(f16[9, 1000])' n=1000 y=FILE.npy.
    The values are passed to the parameters in order; 2=VALUE sets parameter 2, counted from 0. The options of a launch
    are given once for all texts, or once for each text. Texts of dsl compile need no such options, because their header
    contains them.

    Exit status: 0 fine, 1 a result differs or a fault is found, 2 the input is wrong, 3 the device failed.
    """
    files = [word for word in words if is_text(word)]
    try:
        found = count(words, device, options, as_json)
        if as_json:
            click.echo(json.dumps(told_files(found)))
        else:
            show_found(found, by)
    except Exception as error:
        return failed(error, files[0] if files else "", as_json)
    return DIFFERS if any(each.is_right is False for each in found) else 0


def is_text(word: str) -> bool:
    """Whether a word is the path of a PTX text. Other words are values."""
    return word.endswith(".ptx") and "=" not in word


def count(words: Sequence[str], device: str, options: dict[str, Any], as_json: bool) -> list[CountedFile]:
    """Counts the PTX texts whose paths are in `words`. The other words are values."""
    files = [word for word in words if is_text(word)]
    # Without any PTX text, a word without `=` is probably a PTX text that lacks the suffix .ptx.
    if other := [word for word in words if not files and "=" not in word]:
        raise TileError("option", None, f"'{other[0]}' is no PTX text", "dsl compile FILE --emit ptx -o k.ptx")
    if not files:
        raise TileError("option", None, "no PTX text is named", "dsl count K.ptx --grid X --block X NAME=VALUE…")
    place, why = choose_device(device, False)
    lists = {name: list(given) for name, given in options.items() if isinstance(given, tuple)}
    values = [word for word in words if word not in files]
    request = {**options, **lists, "files": files, "values": values, "device": place, "why": why}
    # The emulator counts in this process. On a GPU, a child process launches and counts.
    if place == "emulator":
        return files_of(request)
    from msgspec import convert

    from dsl.command.child import answer_of_child
    from dsl.studies.count import CountedFile

    # The child's error messages name only `file`, but the request has several files.
    asked = {**request, "file": files[0]}
    told = answer_of_child(__name__, asked, sys.stderr if as_json else None, request["time_limit"])
    return convert(told["files"], list[CountedFile])


def told_files(found: list[CountedFile]) -> dict[str, Any]:
    """The data that --json prints."""
    from dsl.examples.report import finite

    return {"files": [finite(record(each)) for each in found]}


def show_found(found: list[CountedFile], by: str | None) -> None:
    from dsl.command.count_table import show_file, show_files

    if len(found) == 1:
        show_file(found[0], by)
    else:
        show_files(found, by)


def files_of(request: dict[str, Any]) -> list[CountedFile]:
    """Counts the PTX texts of a request in this process."""
    from dsl.studies.count import Counter, CountRequest

    current()  # loads plug-ins, which may add instructions to the emulator
    return Counter(CountRequest(**{name: value for name, value in request.items() if name != "file"})).all()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answers a request in the child process. The request and the answer are JSON."""
    return {"files": [to_builtins(each) for each in files_of(request)]}


def record(found: CountedFile) -> dict[str, Any]:
    """The data that --json prints for one text."""
    report, launch = found.report, found.launch
    of_launch = ("grid", "threads", "shared_bytes", "registers", "spills", "occupancy", "limited_by", "machine_code")
    own = ("entry", "target", "arguments", "block", "cluster", "findings", "notes", "waits_with_a_barrier")
    return {
        **{name: getattr(report, name) for name in ("file", "device", "chip", "guessed")},
        **{name: getattr(launch, name) for name in (*of_launch, "counters", "by_line")},
        **{name: getattr(found, name) for name in (*own, "by_ptx_line", "by_array")},
        "passed": found.is_right,
        "checks": [to_builtins(check) for check in report.checks],
        "times_us": report.times,
        "counted_blocks": found.counted,
        "figures": found.figures(),
        "output": printable(launch.output),
    }
