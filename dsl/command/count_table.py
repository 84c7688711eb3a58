"""Prints the results of `dsl count`. A single PTX text is shown in full. Several texts share a table with ratios to the
first text."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dsl.command.show import line, show_check, show_counted, show_resources, show_time, styled
from dsl.examples.report import by_file, guess_in_words
from dsl.lowering.ir.location import printable
from dsl.text import terminal
from dsl.text.figures import COLUMNS, FigureColumn, amount, number, units

if TYPE_CHECKING:
    from dsl.studies.count import CountedFile

ROWS = (
    *("time_us", "blocks", "threads", "shared_bytes", "registers", "spills", "occupancy", "sass", "sass_loop"),
    *("waits_with_a_barrier", "instructions", "moves", "active_lanes", "divergent_branches", "global_load_sectors"),
    *("global_store_sectors", "global_atomic_sectors", "sectors_over_fewest", "wavefronts", "wavefronts_over_fewest"),
    *("conflicts", "mma", "shuffles", "barriers", "cluster_barriers", "warp_barriers", "atomics", "atomic_waits"),
)
"""The figures in the rows of a table. A figure that is 0 in all texts is left out."""
GROUPS = ("registers", "instructions", "global_load_sectors", "wavefronts", "mma")
"""The figures that have an empty line above them."""
OF_ARRAYS = ("global_load_sectors", "global_store_sectors", "global_atomic_sectors", "global_ideal_sectors")


def show_file(found: CountedFile, by: str | None) -> None:
    """Prints one text: its launch, whether the result is right, its cost, and its findings."""
    launch, report = found.launch, found.report
    entry = "" if found.entry in Path(report.file).name else f", entry {found.entry}"
    click.echo(styled(printable(report.file + entry), bold=True))
    line("kernel", launch.kernel + (f" with {launch.schedule}" if launch.schedule else "") + f", {found.target}")
    cluster = f" in clusters of {prod(found.cluster)}" if prod(found.cluster) > 1 else ""
    line(
        "",
        f"{amount(launch.blocks, 'block')}{extents(launch.grid)} of {amount(launch.threads, 'thread')}"
        f"{extents(found.block)}{cluster}, {amount(launch.shared_bytes, 'byte')} shared",
    )
    line("device", report.place)
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
    if found.counted is not None and found.counted < launch.blocks:
        line("", f"counted in the first {amount(found.counted, 'block')}")
    show_findings(found)
    if launch.output:
        click.echo(printable(launch.output.rstrip("\n")))
    show_by(found, by)


def barriers_beside(found: CountedFile) -> str:
    """A sentence on the barriers that ptxas adds to cluster waits without `.explicitcluster`."""
    waits = f"{found.waits_with_a_barrier} barrier.cluster.wait without .explicitcluster"
    return f"{waits}: ptxas puts a barrier of the block and branches beside each"


def extents(shape: list[int]) -> str:
    """` (3 x 2)` for a shape with several axes, else an empty text."""
    return f" ({' x '.join(map(str, shape))})" if any(extent != 1 for extent in shape[1:]) else ""


def arguments(files: list[CountedFile]) -> str:
    """The arguments of the launches as text, without unnamed numbers."""
    # The parameter of `2=VALUE` has the name parameter_2.
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
    """Prints the counters of each source line, PTX line or array, depending on `by`."""
    if by is None:
        return
    click.echo()
    if by == "array":
        show_counted_arrays(found)
    elif by == "ptx":
        show_counted(by_file(found.by_ptx_line, found.report.file), None)
    elif not found.launch.by_line:
        line("lines", "the PTX has no .loc: compile it with -lineinfo, or see --by ptx")
    else:
        source = found_file(found.source or found.report.file, found.report.file)
        files = by_file(found.launch.by_line, source).items()
        # A text that was compiled on another machine names paths of that machine.
        there = {file if file == source else found_file(file, found.report.file): lines for file, lines in files}
        show_counted({source: {}, **there}, source if Path(source).is_file() else None)


def found_file(name: str, text: str) -> str:
    """The path of a source file that a PTX text names, or else a file of this name beside the PTX text."""
    beside = Path(text).parent / Path(name).name
    return str(beside) if not Path(name).is_file() and beside.is_file() else name


def show_counted_arrays(found: CountedFile) -> None:
    """Prints the sectors of each array."""
    rows = [[name, *(number(counts[each]) for each in OF_ARRAYS)] for name, counts in found.by_array.items()]
    terminal.Terminal().show(terminal.table(["array", *(COLUMNS[name].label for name in OF_ARRAYS)], rows), 0)


# ---- several ----


def show_files(files: list[CountedFile], by: str | None) -> None:
    """Prints a table with a column for each PTX text. Beside each figure is its ratio to the figure of the first
    text."""
    first = files[0]
    click.echo(styled("on the same values", bold=True))
    line("device", first.report.place)
    line("values", arguments(files))
    click.echo()
    terminal.Terminal().show(table(files))
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


def table(files: list[CountedFile]) -> terminal.Table:
    """The table. `=` marks figures that equal the first text's."""
    figures = [each.figures() for each in files]
    heads = [word for each in files for word in (heading(each, files), "")]
    made = terminal.table(["", *heads])
    terminal.add(made, ["", *(word for each in files for word in (each.launch.kernel, ""))])
    terminal.add(made, ["result", *(word for each in files for word in (result(each), ""))])
    for column in (COLUMNS[name] for name in ROWS):
        values = [found.get(column.name) for found in figures]
        # Rows that are 0 in all texts are left out.
        if any(values):
            if column.name in GROUPS:
                terminal.add(made, [])
            cells = [word for value in values for word in (column.text(value), ratio(column, value, values[0]))]
            terminal.add(made, [column.label, cells[0], "", *cells[2:]])
    return made


def heading(found: CountedFile, files: list[CountedFile]) -> str:
    """The file's name, or its path if two files have the same name."""
    path = Path(found.report.file)
    alike = {each.report.file for each in files if Path(each.report.file).name == path.name}
    return path.name if len(alike) == 1 else str(path)


def result(found: CountedFile) -> str:
    if found.findings:
        kinds = list(dict.fromkeys(each["kind"] for each in found.findings))
        return kinds[0].upper() if len(kinds) == 1 else f"{len(kinds)} KINDS OF FAULTS"
    return {True: "right", False: "WRONG", None: "-"}[found.report.passed]


def ratio(column: FigureColumn, value: float | None, base: float | None) -> str:
    """The ratio `value / base` as text, such as `x1.50`."""
    if value is None or base is None or not column.is_cost:
        return ""
    if value == base or not base:
        return "=" if value == base else ""
    return f"x{value / base:.2f}" if value else "x0"


def notes(files: list[CountedFile]) -> list[str]:
    """The notes below the table."""
    shown = [name for name in ROWS if any(each.figures().get(name) for each in files)]
    found = ["x: the ratio to the first text; all of the whole launch", units(shown)]
    part = [each for each in files if each.counted is not None and each.counted < each.launch.blocks]
    if part:
        found.append(f"counted in the first {max(each.counted or 0 for each in part)} blocks, times the grid")
    # Each reason is printed once.
    found += dict.fromkeys(f"{heading(each, files)}: {each.unassembled}" for each in files if each.unassembled)
    found += [f"{heading(e, files)}: {guess_in_words(e.report.guessed)}" for e in files if e.report.guessed]
    return found
