"""`dsl bench`: the kernels and schedules of a file side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsl.command.failures import DIFFERS, show
from dsl.command.options import CHOOSE, FROM, SECONDS, SEED, SKIP_PASS, choices_of
from dsl.command.run import choose_device
from dsl.command.show import blocks as block_count
from dsl.command.show import columns, line, number, pairs, styled
from dsl.lowering.ir.location import printable
from dsl.text.counted import amount
from dsl.text.files import write_text

if TYPE_CHECKING:
    from dsl.studies.bench import BenchRow

TIME_LIMIT = 600.0


@click.command(short_help="Show the kernels and schedules of a file side by side.")
@click.argument("file", type=click.Path())
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--device", default="auto", metavar="auto|cuda|cuda:N|emulator", help="Where to run, as in dsl run.")
@click.option("--example", "examples", multiple=True, metavar="NAME", help="This example only; may be repeated.")
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Examples of this kernel only.")
@click.option("--schedule", "schedules", multiple=True, metavar="NAME", help="This schedule only.")
@click.option("--json", "json_file", type=click.Path(), metavar="FILE", help="Write all figures there; - for stdout.")
@click.option("--seed", type=SEED, default=0, help="Seed of the random inputs.")
@click.option(
    *("--vs", "peers"),
    multiple=True,
    metavar="PEER",
    help="Beside the kernels, this function: FILE.py::NAME, MODULE::NAME, torch:softmax(dim=-1); may be repeated.",
)
@FROM
@CHOOSE
@SKIP_PASS
@click.option("--time-limit", type=SECONDS, default=TIME_LIMIT, metavar="S", help="Seconds that it may take.")
def command(file: str, device: str, json_file: str | None, time_limit: float, **settings: Any) -> int:
    """A row for each example of FILE, and for each other schedule and option that serves it. All are checked, then
    measured in turns with a cold L2 (on a GPU), and counted (by the emulator). NAME=VALUE as in dsl run.

    Exit status: 0 fine, 1 a result differs or a row failed, 2 the input is wrong, 3 the device failed.
    """
    from dsl.examples.report import finite

    try:
        rows = bench(file, device, time_limit, settings)
        if json_file is not None:
            text = json.dumps(finite(as_json(file, rows)), indent=1)
            if json_file == "-":
                click.echo(text)
            else:
                write_text(Path(json_file), text + "\n")
        if json_file != "-":
            show_rows(file, rows)
    except Exception as error:
        return show(error, file)
    return DIFFERS if any(row.is_wrong or (row.report and row.report.passed is False) for row in rows) else 0


def bench(file: str, device: str, time_limit: float, settings: dict[str, Any]) -> list[BenchRow]:
    """The rows, found here on the emulator, in a process of its own on a GPU."""
    settings = {**settings, "choose": choices_of(settings["choose"], settings["skip_pass"])}
    del settings["skip_pass"]
    place, why = choose_device(device, False)
    request = {"file": file, "device": place, "why": why, "time_limit": time_limit, **settings}
    if place == "emulator":
        told = answer(request)
    else:
        from dsl.command.child import answer_of_child

        told = answer_of_child(__name__, request, sys.stderr, time_limit)
    return [row_from_json(record) for record in told["rows"]]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The rows that a request asks for, both as JSON."""
    from dsl.studies.bench import bench
    from dsl.text.program import load

    request = dict(request)
    rows = bench(load(request.pop("file")), request.pop("device"), request.pop("why"), **request)
    return {"rows": [asdict(row) for row in rows]}


def row_from_json(record: dict[str, Any]) -> BenchRow:
    """The inverse of `asdict`."""
    from dsl.examples.report import from_json
    from dsl.studies.bench import BenchRow

    report = record.pop("report")
    return BenchRow(**record, report=None if report is None else from_json(report))


def as_json(file: str, rows: list[BenchRow]) -> dict[str, Any]:
    """What --json writes: figures by row, times in microseconds."""
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
    keys = (
        "kernel",
        "schedule",
        "dims",
        "types",
        "grid",
        "threads",
        "shared_bytes",
        "registers",
        "spills",
        "occupancy",
        "limited_by",
        "machine_code",
    )
    launches = [
        {key: getattr(launch, key) for key in keys} | {"counters": launch.counters} for launch in report.launches
    ]
    return named | {
        "passed": report.passed,
        "dims": report.dims,
        "types": report.types,
        "times_us": report.times,
        "gbps": report.gbps,
        "tflops": report.tflops,
        "share_of_limit": report.share_of_limit,
        "counted_blocks": row.counted,
        "figures": row.figures(),
        "launches": launches,
    }


# ---- the table ----


def show_rows(file: str, rows: list[BenchRow]) -> None:
    """The rows that ran as a table, with what they share above it and what is to be said of others below."""
    ran = [row for row in rows if row.report is not None]
    reports = [row.report for row in ran if row.report and row.peer is None]
    first = reports[0]
    click.echo(styled(printable(file), bold=True))
    why = first.why.partition(': "')[0]  # without the driver's own words
    line("device", f"{first.device} ({first.chip}); {why}")
    shared = {
        k: v for k, v in (first.dims | first.types).items() if all((r.dims | r.types).get(k) == v for r in reports)
    }
    if shared:
        line("dims", pairs(shared))
    names, cells = [*names_of(ran)], [*figures_of(ran)]
    table = [[title for title, _ in (*names, *cells)]]
    table += [[column[at] for _, column in (*names, *cells)] for at in range(len(ran))]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    click.echo()
    several = compared_within_examples(ran)
    for at, texts in enumerate(table):
        if several and at > 1 and ran[at - 1].example != ran[at - 2].example:
            click.echo()
        left = "  ".join(text.ljust(width) for text, width in zip(texts[: len(names)], widths, strict=False))
        text = printable(f"  {left}  {columns(texts[len(names) :], widths[len(names) :])}".rstrip())
        click.echo(styled(text, bold=True) if at == 0 else text)
    click.echo()
    for note in notes(rows):
        click.echo(f"  {printable(note)}")


def compared_within_examples(rows: list[BenchRow]) -> bool:
    """Are the examples jobs of their own, done in several ways? Else they are ways to do one job."""
    return len({row.example for row in rows}) < len(rows)


def names_of(rows: list[BenchRow]) -> list[tuple[str, list[str]]]:
    """Columns that tell the rows apart: (title, a text a row)."""
    others = any(row.schedule for row in rows)
    found = [
        ("example", [row.example or "-" for row in rows]),
        ("kernel", [joined(row.kernels) for row in rows]),
        (
            "schedule",
            [
                joined(row.schedules)
                + (" *" if others and not row.schedule and not row.edited and not row.peer else "")
                for row in rows
            ],
        ),
        ("options", [options_of(row) for row in rows]),
        ("from", [row.edited or "" for row in rows]),
    ]
    if found[0][1] == found[1][1]:
        del found[0]
    telling = [column for column in found if len(set(column[1])) > 1]
    return telling or [column for column in found if column[0] == "kernel"]


def options_of(row: BenchRow) -> str:
    """As the language spells them."""
    return pairs(
        {name: str(value).lower() if isinstance(value, bool) else value for name, value in row.options.items()}
    )


def joined(names: list[str]) -> str:
    return " + ".join(dict.fromkeys(names))


def figures_of(rows: list[BenchRow]) -> list[tuple[str, list[str]]]:
    """Columns of figures: (title, a text a row), without those that no row has."""
    figures = [row.figures() for row in rows]
    reports = [row.report for row in rows if row.report]
    ours = [row.report.launches if row.report and row.peer is None else [] for row in rows]
    medians = [report.time_us for report in reports]
    jobs = [row.example if compared_within_examples(rows) else None for row in rows]

    def over_fastest(at: int) -> float | None:
        """The median over the least of the same job."""
        same = [median for median, job in zip(medians, jobs, strict=True) if median and job == jobs[at]]
        return (medians[at] or 0.0) / min(same) if medians[at] else None

    def told(values: Iterable[float | None], form: Callable[[float], str]) -> list[str | None]:
        return [None if value is None else form(value) for value in values]

    def counted(name: str, form: Callable[[float], str]) -> list[str | None]:
        return told([counts.get(name) for counts in figures], form)

    def if_any(name: str, form: Callable[[float], str]) -> list[str | None]:
        return counted(name, form) if any(counts.get(name) for counts in figures) else []

    def most(name: str) -> list[str | None]:
        """Of a row's launches."""
        rows = [[getattr(launch, name) for launch in launches] for launches in ours]
        return told([max((v for v in values if v is not None), default=None) for values in rows], number)

    def most_code(name: str) -> list[str | None]:
        """Of the machine code of a row's launches."""
        rows = [[(launch.machine_code or {}).get(name) for launch in launches] for launches in ours]
        return told([max((v for v in values if v is not None), default=None) for values in rows], number)

    table: list[tuple[str, list[str | None]]] = [
        ("result", [result_of(row) for row in rows]),
        ("us", told(medians, "{:.1f}".format)),
        ("20%", told([report.times[0] if report.times else None for report in reports], "{:.1f}".format)),
        ("80%", told([report.times[2] if report.times else None for report in reports], "{:.1f}".format)),
        ("x fastest", told(map(over_fastest, range(len(rows))), "{:.2f}".format)),
        ("GB/s", told([report.gbps for report in reports], "{:,.0f}".format)),
        ("of peak", told([report.share_of_limit for report in reports], "{:.0%}".format)),
        ("TFLOPS", told([report.tflops for report in reports], number)),
        ("blocks", [number(sum(map(block_count, launches))) if launches else None for launches in ours]),
        ("instructions", counted("instructions", "{:,.0f}".format)),
        ("moves", counted("moves", "{:,.0f}".format)),
        ("lanes", counted("active_lanes", "{:.1f}".format)),
        ("divergent", counted("divergent_branches", short)),
        ("barriers", counted("barriers", short)),
        ("atomics", if_any("atomics", short)),
        ("waits", if_any("atomic_waits", "{:,.0f}".format)),
        ("wavefronts", counted("wavefronts", short)),
        ("x fewest", counted("wavefronts_over_fewest", "{:.2f}".format)),
        ("sectors", counted("sectors", short)),
        ("x fewest", counted("sectors_over_fewest", "{:.2f}".format)),
        ("SASS", most_code("instructions")),
        ("in loop", most_code("loop")),
        ("registers", most("registers")),
        ("spills", most("spills")),
        ("shared", most("shared_bytes")),
    ]
    return [(title, [text or "-" for text in column]) for title, column in table if any(column)]


def result_of(row: BenchRow) -> str | None:
    """What is to be said of a row that ran, if there is something."""
    if row.report and row.report.passed is False:
        return "WRONG"
    if row.peer is not None and row.report and row.report.passed is None:
        return "not judged"  # no 'expect' reads what it wrote: it may do nothing
    return "right, not timed" if row.peer is not None and row.report and row.report.times is None else None


def short(value: float) -> str:
    """A count a block: whole, or to a tenth."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def notes(rows: list[BenchRow]) -> list[str]:
    """Below the table."""
    found = [
        "instructions of the PTX, and the moves among them, of which the assembler keeps few: of warps, in all blocks",
        "a block: divergent branches, barriers, wavefronts of shared memory, sectors of global memory",
    ]
    if any(launch.machine_code for row in rows if row.report for launch in row.report.launches):
        found.append(
            "SASS: instructions of the machine code as it stands, by ptxas and nvdisasm, and those of its longest "
            "inner loop; how often they run is not counted"
        )
    if any(row.figures().get("atomics") for row in rows):
        found.append("a block: atomics of warps; waits: turns that atomics of all blocks take on their busiest address")
    ran = [(row.report, row.counted) for row in rows if row.report]
    if any(0 in counted and any(map(block_count, report.launches)) for report, counted in ran):
        found.append("not counted where the arrays are too large for the emulator")
    part = [n for report, counted in ran for n, of in zip(counted, report.launches, strict=True) if n < block_count(of)]
    if any(part):
        found.append(f"counted by the emulator in the first {amount(max(part), 'block')} of a launch")
    if any(row.report and row.report.times for row in rows):
        found.append("us: medians of 50 launches in turns, each with a cold L2")
    if any(row.schedule and row.report for row in rows):
        found.append("*: what the file chooses")
    peers = [row for row in rows if row.peer is not None]
    if any(row.report and not row.report.times for row in peers):
        found.append("peers are checked, and neither counted nor timed: that takes a GPU")
    elif any(row.report for row in peers):
        found.append("us of a peer: all that the device does between its call and its return, as of the kernels")
    for row in rows:
        untimed = row.report.untimed if row.report else ""
        if said := row.failed or (untimed and f"not timed: {untimed}"):
            name = " ".join(filter(None, [row.example, row.schedule, options_of(row), row.edited, row.peer]))
            found.append(f"{name or 'example'}: {said}")
    return found
