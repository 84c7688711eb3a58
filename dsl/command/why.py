"""`dsl why`: the compiler's choices for a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins
from msgspec.structs import replace

from dsl.command.compile import launches_of, requests_for
from dsl.command.failures import carried_out
from dsl.command.options import choices_of, shared
from dsl.examples.overrides import resolve
from dsl.examples.shapes import find_example
from dsl.kernels.compile import compile_variant
from dsl.lowering.ir.choices import Asked
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import target
from dsl.text.program import load

if TYPE_CHECKING:
    from dsl.studies.why import ExplainedKernel


@click.command()
@click.argument("file", metavar="FILE[:LINE]")
@shared("values kernel schedule example tuned_device arch choose skip_pass as_json")
@click.option("--value", metavar="NAME", help="Choices about this value, tile or tensor.")
@click.option("--choice", "key", metavar="KEY", help="The choice of this key, or of a kind: vector.x.load.")
@click.option("--all", "all_of_them", is_flag=True, help="Also choices whose options cost the same.")
@click.option("--measure", is_flag=True, help="Assemble the other options: registers, spills, instructions.")
@click.option("--machine", is_flag=True, help="Assemble the kernel: what ptxas adds to lines where it costs.")
def command(file: str, values: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """List the choices that the compiler made for each kernel of FILE: the options and their costs, the option taken
    (*), and why. If a line, a value or a key is given, each choice is shown with the schedule lines that select other
    options."""
    path, line = place_in(file)
    return carried_out(
        path, as_json, lambda: ({"file": path, "kernels": why(path, line, values, as_json, options)}, False)
    )


def place_in(file: str) -> tuple[str, int | None]:
    """Splits `FILE:LINE` into path and line. The line is None if there is only a path."""
    stem, colon, number = file.rpartition(":")
    # A path may contain a colon. Only digits after the last colon are a line.
    return (stem, int(number)) if colon and number.isascii() and number.isdigit() and len(number) < 10 else (file, None)


def why(
    path: str, line: int | None, values: tuple[str, ...], as_json: bool, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Returns the kernels with their choices as data. Also prints the choices unless `as_json` is set."""
    from dsl.studies.why import as_json as record
    from dsl.studies.why import check_found, chosen, grouped

    key, value = options["key"], options["value"]
    asked = line is not None or key is not None or value is not None
    records = []
    everything: dict[str, Any] = {}
    found_any = False
    for kernel in kernels(path, values, options):
        everything |= kernel.choices
        found = chosen(kernel.choices, line, value, key, options["all_of_them"])
        found_any = found_any or bool(found)
        rows = [record(names, kernel.choices) for names in grouped(found, kernel.choices)]
        if options["measure"]:
            for row in rows:
                row["measured"] = {each: kernel.measured(row["key"], each) for each in row["options"]}
        records.append({"kernel": kernel.title, "made": len(kernel.choices), "choices": rows})
        # ptxas decides what is spilled, after a cost has chosen.
        if kernel.compiled.variant.schedule.costs and any(row["kind"] == "tune" for row in rows):
            records[-1]["spills"] = kernel.spills
        if options["machine"]:
            from dsl.studies.machine_notes import machine_notes

            notes = machine_notes(kernel.compiled)
            records[-1]["machine"] = [to_builtins(note) for note in notes if line in (None, note.line)]
            found_any = found_any or bool(records[-1]["machine"])
        if not as_json and (found or records[-1].get("machine") or not asked):
            show_kernel(records[-1], asked)
    # A key or value is searched in all kernels, because only one kernel may have it.
    check_found(found_any or not asked, everything, value, key)
    if asked and not found_any:
        raise TileError("choice", None, f"no choice was made in line {line}", "dsl why FILE lists all")
    return records


def kernels(path: str, values: tuple[str, ...], options: dict[str, Any]) -> list[ExplainedKernel]:
    """Compiles the kernels that the options select. Raises TileError if an option of --choose matches no choice of any
    kernel."""
    from dsl.studies.why import ExplainedKernel, kernels_of

    program = load(path)
    # An unknown target is reported before anything is planned.
    target(options["arch"])
    # Some kernels may lack the choice of a forced option, so the check comes after all kernels.
    asked = Asked(choices_of(options["choose"], options["skip_pass"]))
    example = find_example(program, options["example"]) if program.examples or options["example"] else None
    if options["kernel"] is None and example is not None:
        launches = launches_of(program, example, resolve(program, example, values), True)
        how = (options["schedule"], asked.options, options["device"])
        found = list(kernels_of(program, launches, options["arch"], *how))
    else:
        named = (options["kernel"], options["schedule"], options["arch"], options["example"])
        requests = [replace(each, choices=asked.options) for each in requests_for(program, list(values), *named)]
        found = [ExplainedKernel(program, each, None, compile_variant(program, each)) for each in requests]
    for kernel in found:
        asked.note(kernel.compiled.variant.function.choices)
    asked.check()
    return found


def show_kernel(record: dict[str, Any], in_full: bool) -> None:
    """Prints a kernel's choices. With `in_full`, also prints the schedule lines that select other options."""
    from dsl.text.terminal import Terminal, table

    rows = record["choices"]
    spilled = f"; it spills {record['spills']:,} bytes a thread" if record.get("spills") else ""
    others = "" if rows else "; --all lists those whose options cost the same"
    click.echo(f"{record['kernel']}: {len(rows)} of {record['made']} choices{spilled}{others}")
    cells = []
    for row in rows:
        label = row["key"] + (f" ×{len(row['keys'])}" if len(row["keys"]) > 1 else "")
        cells.append([f"{row['line'] or '':>4}", label, "\n".join(said_of(row, in_full))])
    for note in record.get("machine", ()):
        label, told = ("ptxas ×{count}", "{cost}\n{hint}") if note["hint"] else ("ptxas", "{cost}")
        cells.append([f"{note['line'] or '':>4}", label.format(**note), told.format(**note)])
    Terminal().show(table([""] * 3, cells, left=3))


def said_of(row: dict[str, Any], in_full: bool) -> Iterator[str]:
    """The printed lines for a choice. Of a dispatch, each reason has a line of its own, and so have the branches that
    differ only in their last schedule."""
    by = "" if row["by"] == "rule" else f"by {row['by']}"
    if row["kind"] == "branch":
        alike: dict[str, list[str]] = {}
        for option in row["options"]:
            *first, last = option.rpartition(" with ")
            alike.setdefault("".join(first), []).append(last + "*" * (option == row["taken"]))
        yield from (first + "   ".join(last) for first, last in alike.items())
        yield from filter(None, [by, *row["because"].split("; ")])
    else:
        yield options_of(row)
        if row["because"] or by:
            yield "; ".join(filter(None, [by, row["because"]]))
    for option, override in row["override"].items() if in_full else ():
        yield override + ("    # only if you know that the result stays right" if option in row["unsafe"] else "")
    for option, figures in row.get("measured", {}).items():
        yield f"{option}{'*' * (option == row['taken'])}: {figures}"


def options_of(row: dict[str, Any]) -> str:
    """The options with their costs, such as `8*: 1 4: 2 2: 4 (accesses a thread)`. A star marks the option taken."""
    said = []
    for option in row["options"]:
        mark = "*" if option == row["taken"] else ""
        cost = row["costs"].get(option)
        said.append(f"{option}{mark}" + (f": {cost:,g}" if cost is not None else ""))
    return "   ".join(said) + (f"   ({row['unit']})" if row["unit"] and row["costs"] else "")
