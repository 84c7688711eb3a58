"""Counted PTX texts on the terminal: one in full, several as a table with the ratio to the first."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dsl.command.show import amount, line, number, show_check, show_counted, show_resources, show_time, styled
from dsl.examples.report import guess_in_words
from dsl.lowering.ir.location import printable

if TYPE_CHECKING:
    from dsl.studies.count import CountedFile

Form = Callable[[float], str]
ROWS: tuple[tuple[str, str, Form], ...] = (
    ("time_us", "us", "{:.1f}".format),
    ("blocks", "blocks", number),
    ("threads", "threads of a block", number),
    ("shared_bytes", "shared bytes", number),
    ("registers", "registers", number),
    ("spills", "spilled bytes", number),
    ("occupancy", "occupancy", "{:.0%}".format),
    ("sass", "SASS instructions", number),
    ("sass_loop", "in the longest loop", number),
    ("waits_with_a_barrier", "waits with a barrier", number),
    ("instructions", "warp instructions", number),
    ("moves", "moves among them", number),
    ("active_lanes", "active lanes", "{:.1f}".format),
    ("divergent_branches", "divergent branches", number),
    ("global_load_sectors", "sectors loaded", number),
    ("global_store_sectors", "sectors stored", number),
    ("global_atomic_sectors", "sectors of atomics", number),
    ("sectors_over_fewest", "sectors x fewest", "{:.2f}".format),
    ("shared_wavefronts", "wavefronts", number),
    ("wavefronts_over_fewest", "wavefronts x fewest", "{:.2f}".format),
    ("bank_conflicts", "bank conflicts", number),
    ("mma", "mma", number),
    ("shuffles", "shuffles", number),
    ("barriers", "barriers", number),
    ("warp_barriers", "barriers of warps", number),
    ("atomics", "atomics", number),
    ("atomic_waits", "turns of atomics", number),
)
"""Figures of a table: name, heading, how one is written. Those that are 0 everywhere are left out."""
GROUPS = ("registers", "instructions", "global_load_sectors", "shared_wavefronts", "mma")
"""Figures above which a line stays free."""
NEUTRAL = ("blocks", "threads", "occupancy", "active_lanes")
"""Figures of which fewer is not better."""


def show_file(found: CountedFile, by: str | None) -> None:
    """One text: what was launched, whether it is right, what it costs and what was found."""
    launch, report = found.launch, found.report
    entry = "" if found.entry in Path(report.file).name else f", entry {found.entry}"
    click.echo(styled(printable(report.file + entry), bold=True))
    count = prod(launch.grid)
    line("kernel", launch.kernel + (f" with {launch.schedule}" if launch.schedule else "") + f", {found.target}")
    cluster = f" in clusters of {prod(found.cluster)}" if prod(found.cluster) > 1 else ""
    line(
        "",
        f"{amount(count, 'block')}{extents(launch.grid)} of {amount(launch.threads, 'thread')}"
        f"{extents(found.block)}{cluster}, {amount(launch.shared_bytes, 'byte')} shared",
    )
    line("device", f"{report.device} ({report.chip}); {short_why(report.why)}")
    line("arguments", arguments([found]))
    if report.guessed:
        line("", guess_in_words(report.guessed))
    for check in report.checks:
        show_check(check)
    if found.unjudged is not None:
        line("results", found.unjudged)
    show_time(report)
    show_resources(launch, False)
    if found.unassembled is not None:
        line("SASS", found.unassembled)
    if found.waits_with_a_barrier:
        line("", barriers_beside(found))
    if found.counted is not None and found.counted < count:
        line("", f"counted in the first {amount(found.counted, 'block')}")
    show_findings(found)
    if launch.output:
        click.echo(printable(launch.output.rstrip("\n")))
    show_by(found, by)


def barriers_beside(found: CountedFile) -> str:
    """What a cluster's kernel pays for not saying that it is one."""
    waits = f"{found.waits_with_a_barrier} barrier.cluster.wait without .explicitcluster"
    return f"{waits}: ptxas puts a barrier of the block and branches beside each"


def short_why(why: str) -> str:
    """Without the driver's own words."""
    return why.partition(': "')[0]


def extents(shape: list[int]) -> str:
    """The shape where it has more than one axis."""
    return f" ({' x '.join(map(str, shape))})" if any(extent != 1 for extent in shape[1:]) else ""


def arguments(files: list[CountedFile]) -> str:
    """All values that are launched on, but for numbers that have no name."""
    told = {name.removeprefix("parameter_"): value for each in files for name, value in each.arguments.items()}
    is_number = {name: value[:1].isdigit() or value[:1] == "-" for name, value in told.items()}
    pairs = [f"{name} = {told[name]}" if is_number[name] else f"{name}: {told[name]}" for name in told]
    return ", ".join(pair for pair, (name, value) in zip(pairs, told.items(), strict=True) if name != value)


def show_findings(found: CountedFile) -> None:
    if not found.findings:
        line("findings", "none")
    for label, rows in (("FOUND", found.findings), ("note", found.notes)):
        for each in rows:
            first, *rest = each["text"].splitlines()
            click.echo(f"  {styled(f'{label:<11}', fg='red' if label == 'FOUND' else 'yellow')}{printable(first)}")
            for text in rest:
                line("", text.strip())
    if found.advice is not None:
        line("hint", found.advice)


def show_by(found: CountedFile, by: str | None) -> None:
    """Counters by line or by array, where they are asked for."""
    if by is None:
        return
    click.echo()
    if by == "array":
        show_counted_arrays(found)
    elif by == "ptx":
        show_counted({found.report.file: lines_of(found.by_ptx_line)}, None)
    elif not found.launch.by_line:
        line("lines", "the PTX has no .loc: compile it with -lineinfo, or see --by ptx")
    else:
        source = found_file(found.source or found.report.file, found.report.file)
        files: dict[str, dict[int, dict[str, float]]] = {source: {}}
        for place, counts in found.launch.by_line.items():
            file, _, at = place.rpartition(":")
            files.setdefault(found_file(file, found.report.file) if file else source, {})[int(at)] = counts
        show_counted(files, source if Path(source).is_file() else None)


def lines_of(table: dict[str, dict[str, float]]) -> dict[int, dict[str, float]]:
    return {int(at): counts for at, counts in table.items()}


def found_file(name: str, text: str) -> str:
    """Where a source file lies that a text names: there, or beside the text."""
    beside = Path(text).parent / Path(name).name
    return str(beside) if not Path(name).is_file() and beside.is_file() else name


def show_counted_arrays(found: CountedFile) -> None:
    """Sectors of each array."""
    names = ("global_load_sectors", "global_store_sectors", "global_atomic_sectors", "global_ideal_sectors")
    heads = ("sectors loaded", "stored", "of atomics", "fewest")
    click.echo(styled("  ".join(["array".ljust(12), *(head.rjust(14) for head in heads)]), bold=True))
    for name, counts in found.by_array.items():
        cells = [number(counts[each]).rjust(14) for each in names]
        click.echo(printable("  ".join([name.ljust(12), *cells])))


# ---- several ----


def show_files(files: list[CountedFile], by: str | None) -> None:
    """A column for each text; behind its figures the ratio to the first text's."""
    first = files[0]
    click.echo(styled("on the same values", bold=True))
    line("device", f"{first.report.device} ({first.report.chip}); {short_why(first.report.why)}")
    line("values", arguments(files))
    click.echo()
    for text, is_bold in table(files):
        click.echo(styled(text, bold=True) if is_bold else text)
    click.echo()
    for each in files:
        for check in each.report.checks:
            if not check.passed:
                line("", each.report.file)
                show_check(check)
        if each.findings or each.notes:
            click.echo(styled(printable(f"  {each.report.file}"), bold=True))
            show_findings(each)
    for note in notes(files):
        click.echo(f"  {printable(note)}")
    for each in files if by is not None else []:
        click.echo()
        click.echo(styled(printable(each.report.file), bold=True))
        show_by(each, by)


def table(files: list[CountedFile]) -> list[tuple[str, bool]]:
    """Lines, and whether they are headings. Where a figure is the first text's, `=` stands."""
    figures = [each.figures() for each in files]
    rows: list[tuple[str, list[tuple[str, str]]]] = []
    heads = [heading(each, files) for each in files]
    rows.append(("", [(text, "") for text in heads]))
    rows.append(("", [(each.launch.kernel, "") for each in files]))
    rows.append(("result", [(result(each), "") for each in files]))
    for name, title, form in ROWS:
        values = [found.get(name) for found in figures]
        if any(values):
            if name in GROUPS:
                rows.append(("", []))
            rows.append((title, [cell(name, value, values[0], form, at) for at, value in enumerate(values)]))
    left = max(len(title) for title, _ in rows)
    widths = [max(len(cells[at][0]) for _, cells in rows if cells) for at in range(len(files))]
    ratios = [max(len(cells[at][1]) for _, cells in rows if cells) for at in range(len(files))]
    lines: list[tuple[str, bool]] = []
    for number_of, (title, cells) in enumerate(rows):
        texts = [f"{text.rjust(widths[at])} {ratio.rjust(ratios[at])}" for at, (text, ratio) in enumerate(cells)]
        lines.append((printable("  ".join([f"  {title.ljust(left)}", *texts]).rstrip()), number_of < 2))
    return lines


def heading(found: CountedFile, files: list[CountedFile]) -> str:
    """The file's name, with its folder where two files have one name."""
    path = Path(found.report.file)
    alike = {each.report.file for each in files if Path(each.report.file).name == path.name}
    return path.name if len(alike) == 1 else str(path)


def result(found: CountedFile) -> str:
    if found.findings:
        kinds = list(dict.fromkeys(each["kind"] for each in found.findings))
        return kinds[0].upper() if len(kinds) == 1 else f"{len(kinds)} KINDS OF FAULTS"
    return {True: "right", False: "WRONG", None: "-"}[found.report.passed]


def cell(name: str, value: float | None, base: float | None, form: Form, at: int) -> tuple[str, str]:
    """A figure, and its ratio to the first text's."""
    if value is None:
        return "-", ""
    if at == 0 or base is None or name in NEUTRAL or name.endswith("fewest"):
        return form(value), ""
    if value == base or not base:
        return form(value), "=" if value == base else ""
    return form(value), f"x{value / base:.2f}" if value else "x0"


def notes(files: list[CountedFile]) -> list[str]:
    """Below the table."""
    found = [
        "x: the ratio to the first text; warp instructions and moves are those of the PTX; all of the whole launch"
    ]
    if any(each.figures().get("sectors_over_fewest") for each in files):
        found.append("x fewest: over those that the same accesses could need")
    if any(each.waits_with_a_barrier for each in files):
        found.append("waits with a barrier: .explicitcluster is missing; ptxas puts one of the block beside each")
    part = [each for each in files if each.counted is not None and each.counted < prod(each.launch.grid)]
    if part:
        found.append(f"counted in the first {max(each.counted or 0 for each in part)} blocks, times the grid")
    found += dict.fromkeys(f"{heading(each, files)}: {each.unassembled}" for each in files if each.unassembled)
    found += [f"{heading(e, files)}: {guess_in_words(e.report.guessed)}" for e in files if e.report.guessed]
    if any(each.report.times for each in files):
        found.append("us: medians of 20 launches, each with a cold L2")
    return found
