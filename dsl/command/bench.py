"""`dsl bench`: compares the kernels and schedules of a file in one table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from dsl.command.failures import DIFFERS, reporting
from dsl.command.options import SECONDS, choices_of, shared
from dsl.command.run import choose_device
from dsl.command.show import line, pairs, styled
from dsl.lowering.ir.location import printable
from dsl.text.figures import COLUMNS, amount, units
from dsl.text.files import write_text

if TYPE_CHECKING:
    from dsl.examples.report import Report
    from dsl.studies.bench import BenchRow

# Twice `options.TIME_LIMIT`, because the command compiles and runs every schedule of the file.
TIME_LIMIT = 600.0
PEER = "Also this function: FILE.py::NAME, MODULE::NAME, torch:softmax(dim=-1); repeatable."


@click.command()
@shared("file values device seed edited choose skip_pass")
@click.option("--example", "examples", multiple=True, metavar="NAME", help="This example only; repeatable.")
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Examples of this kernel only; repeatable.")
@click.option("--schedule", "schedules", multiple=True, metavar="NAME", help="This schedule only; repeatable.")
@click.option("--vs", "peers", multiple=True, metavar="PEER", help=PEER)
@click.option("--json", "json_file", type=click.Path(), metavar="FILE", help="Write all figures there; - for stdout.")
@click.option("--time-limit", type=SECONDS, default=TIME_LIMIT, metavar="S", help="Most seconds for the whole command.")
@reporting
def command(file: str, device: str, json_file: str | None, time_limit: float, **settings: Any) -> int:
    """Print a row for each example of FILE, and for each other schedule and option that can run the example. All
    results are checked. On a GPU the rows are timed in alternation, with a cold L2. The emulator counts what their
    launches cost. NAME=VALUE as in dsl run.

    Exit status: 0 fine, 1 a result differs or a row failed, 2 the input is wrong, 3 the device failed.
    """
    from dsl.examples.report import finite

    rows = bench(file, device, time_limit, settings)
    if json_file is not None:
        text = json.dumps(finite(as_json(file, rows)), indent=1)
        if json_file == "-":
            click.echo(text)
        else:
            write_text(Path(json_file), text + "\n")
    if json_file != "-":
        show_rows(file, rows)
    return DIFFERS if any(row.is_wrong or (row.report and row.report.passed is False) for row in rows) else 0


def bench(file: str, device: str, time_limit: float, settings: dict[str, Any]) -> list[BenchRow]:
    """The rows of the table. For the emulator, this process computes the rows. For a GPU, a child process does."""
    settings = {**settings, "choose": choices_of(settings["choose"], settings["skip_pass"])}
    # The passes to skip have become choices: pass.NAME=off.
    del settings["skip_pass"]
    place, why = choose_device(device, False)
    request = {"file": file, "device": place, "why": why, "time_limit": time_limit, **settings}
    if place == "emulator":
        return rows_of(request)
    from msgspec import convert

    from dsl.command.child import answer_of_child
    from dsl.studies.bench import BenchRow

    return convert(answer_of_child(__name__, request, sys.stderr, time_limit)["rows"], list[BenchRow])


def rows_of(request: dict[str, Any]) -> list[BenchRow]:
    """Computes the rows of a request."""
    from dsl.studies.bench import bench
    from dsl.text.program import load

    options = {name: value for name, value in request.items() if name != "file"}
    return bench(load(request["file"]), **options)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answers a request in the child process. The request and the answer are JSON."""
    return {"rows": [to_builtins(row) for row in rows_of(request)]}


def as_json(file: str, rows: list[BenchRow]) -> dict[str, Any]:
    """The data that --json writes: the figures of each row, with times in microseconds."""
    some = next(row.report for row in rows if row.report and row.peer is None)
    return {"file": file, "device": some.device, "chip": some.chip, "rows": [row_as_json(row) for row in rows]}


def row_as_json(row: BenchRow) -> dict[str, Any]:
    named: dict[str, Any] = {"example": row.example, "options": row.options}
    named |= {"kernels": row.kernels, "schedules": row.schedules}
    if row.edited is not None:
        named["from"] = row.edited
    if row.peer is not None:
        named["peer"] = row.peer
    if row.report is None:
        return named | {"failed": row.failed}
    if row.failed is not None:
        named["failed"] = row.failed
    report = row.report
    about = {key: getattr(report, key) for key in ("passed", "dims", "types", "gbps", "tflops", "share_of_limit")}
    launches = [{key: getattr(launch, key) for key in OF_LAUNCH} for launch in report.launches]
    counted = {"counted_blocks": row.counted, "figures": row.figures(), "launches": launches}
    return named | about | {"times_us": report.times, **counted}


# The figures of a launch that --json contains. The report repeats all other fields of a launch.
OF_LAUNCH = (
    *("kernel", "schedule", "dims", "types", "grid", "threads", "shared_bytes", "registers", "spills", "occupancy"),
    *("limited_by", "machine_code", "counters"),
)


# ---- the table ----


def show_rows(file: str, rows: list[BenchRow]) -> None:
    """Prints a table of the rows that ran. Above the table are the dims and types that all rows share. Below it are
    notes, for example on rows that failed."""
    ran = [row for row in rows if row.report is not None]
    reports = [row.report for row in ran if row.report and row.peer is None]
    first = reports[0]
    click.echo(styled(printable(file), bold=True))
    line("device", first.place)
    shared = {
        k: v for k, v in (first.dims | first.types).items() if all((r.dims | r.types).get(k) == v for r in reports)
    }
    if shared:
        line("dims", pairs(shared))
    click.echo()
    shown = show_table(ran)
    click.echo()
    for note in notes(rows, shown):
        click.echo(f"  {printable(note)}")


def show_table(rows: list[BenchRow]) -> list[str]:
    """Prints first the columns in which the rows differ, then a column for each figure. Returns the names of the
    figures."""
    from dsl.text.terminal import Terminal, add, table

    names = names_of(rows)
    figures = [all_figures(row) for row in rows]
    several = compared_within_examples(rows)
    jobs = [row.example if several else None for row in rows]
    for found, job in zip(figures, jobs, strict=True):
        if found["time_us"]:
            of_job = [each["time_us"] for each, other in zip(figures, jobs, strict=True) if other == job]
            # Compared with the fastest row of the same example, because other examples do other work.
            found["over_fastest"] = found["time_us"] / min(filter(None, of_job))
    shown = [each for name, each in COLUMNS.items() if any(found.get(name) is not None for found in figures)]
    shown = [each for each in shown if each.name not in RARE or any(found.get(each.name) for found in figures)]
    made = table([*(title for title, _ in names), *(each.label for each in shown)], left=len(names))
    for at, (found, row) in enumerate(zip(figures, rows, strict=True)):
        add(made, [*(texts[at] for _, texts in names), *(each.text(found.get(each.name)) for each in shown)])
        # An empty line between examples.
        if several and row.example != rows[min(at + 1, len(rows) - 1)].example:
            add(made, [])
    Terminal().show(made)
    return [each.name for each in shown]


RARE = ("atomics", "atomic_waits")
"""Figures that are shown only if some row has a value above 0. These figures are 0 for most kernels."""


def all_figures(row: BenchRow) -> dict[str, Any]:
    """The figures of a row. For registers, spills and sizes, this is the maximum over the row's launches."""
    report = row.report
    assert report is not None
    low, median, high = report.times or (None, None, None)
    found = {"result": result_of(row), "time_us": median, "low_us": low, "high_us": high, **row.figures()}
    found |= {name: getattr(report, name) for name in ("gbps", "share_of_limit", "tflops")}
    # A peer is a Python function. The kernels that it launches are unknown.
    if row.peer is not None or not report.launches:
        return found
    found["blocks"] = sum(launch.blocks for launch in report.launches)
    codes = [launch.machine_code or {} for launch in report.launches]
    taken = {name: [getattr(launch, name) for launch in report.launches] for name in TAKEN}
    taken |= {"sass": [each.get("instructions") for each in codes], "sass_loop": [each.get("loop") for each in codes]}
    return found | {name: max((v for v in values if v is not None), default=None) for name, values in taken.items()}


TAKEN = ("registers", "spills", "shared_bytes")


def compared_within_examples(rows: list[BenchRow]) -> bool:
    """Whether some example has several rows. If so, each row is compared with the fastest row of its example. If not,
    the examples are compared with each other, as several ways to do the same job."""
    return len({row.example for row in rows}) < len(rows)


def names_of(rows: list[BenchRow]) -> list[tuple[str, list[str]]]:
    """The columns in which rows differ, such as the schedule. Each column is (title, texts of the rows)."""
    others = any(row.schedule for row in rows)
    found = [
        ("example", [row.example or "-" for row in rows]),
        ("kernel", [joined(row.kernels) for row in rows]),
        (
            "schedule",
            [
                # `*` marks the schedule that the file's dispatch takes.
                joined(row.schedules)
                + (" *" if others and not row.schedule and not row.edited and not row.peer else "")
                for row in rows
            ],
        ),
        ("options", [options_of(row) for row in rows]),
        ("from", [row.edited or "" for row in rows]),
    ]
    # Examples that have the names of their kernels need no column.
    if found[0][1] == found[1][1]:
        del found[0]
    telling = [column for column in found if len(set(column[1])) > 1]
    # If no column differs (one row, or equal rows), the kernel is still named.
    return telling or [column for column in found if column[0] == "kernel"]


def options_of(row: BenchRow) -> str:
    """The options of a row as text, spelled as in the language: `true`, not `True`."""
    return pairs(
        {name: str(value).lower() if isinstance(value, bool) else value for name, value in row.options.items()}
    )


def joined(names: list[str]) -> str:
    return " + ".join(dict.fromkeys(names))


def result_of(row: BenchRow) -> str | None:
    """A text such as `WRONG` or `not judged`. None means that the result is right."""
    if row.report and row.report.passed is False:
        return "WRONG"
    if row.peer is not None and row.report and row.report.passed is None:
        return "not judged"  # no 'expect' reads the peer's result: the peer may do nothing
    return "right, not timed" if row.peer is not None and row.report and row.report.times is None else None


def notes(rows: list[BenchRow], shown: Iterable[str]) -> list[str]:
    """The notes below the table."""
    found = ["a block: divergent, barriers, atomics, wavefronts, sectors; other counts: all blocks", units(shown)]
    ours = [(row, *pair) for row in rows if row.report for pair in zip(row.counted, row.report.launches, strict=False)]
    if any(not count and launch.blocks for row, count, launch in ours if row.peer is None):
        found.append("not counted where the arrays are too large for the emulator")
    if part := max((count for _, count, launch in ours if count < launch.blocks), default=0):
        found.append(f"counted by the emulator in the first {amount(part, 'block')} of a launch")
    if any(row.schedule and row.report for row in rows):
        found.append("*: what the file chooses")
    return [*found, *notes_of_peers([row.report for row in rows if row.peer and row.report]), *notes_of_rows(rows)]


def notes_of_peers(reports: list[Report]) -> Iterator[str]:
    if any(not report.times for report in reports):
        yield "peers are only checked: times need a GPU, and the emulator cannot count them"
    elif reports:
        yield "us of a peer: all device work between its call and its return, measured like the kernels"


def notes_of_rows(rows: list[BenchRow]) -> Iterator[str]:
    """The reasons why rows failed, or have no times."""
    for row in rows:
        untimed = row.report.untimed if row.report else ""
        if said := row.failed or (untimed and f"not timed: {untimed}"):
            name = " ".join(filter(None, [row.example, row.schedule, options_of(row), row.edited, row.peer]))
            yield f"{name or 'example'}: {said}"
