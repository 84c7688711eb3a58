"""Shows the figures and source of a compiled kernel in a notebook. After a run on the emulator, the source lines have
counters and are coloured by cost."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import Any

from dsl.kernels.compile import Compiled
from dsl.lowering.ir.location import Source
from dsl.text import html
from dsl.text import tree as ast
from dsl.text.counted import CountedLine, counted_lines
from dsl.text.figures import COLUMNS
from dsl.text.program import Program

TOTALS = ("blocks", "instructions", "moves", "active_lanes", "sectors", "wavefronts", "conflicts", "barriers", "mma")


def kernel_page(compiled: Compiled, program: Program, result: Any) -> str:
    """Returns the HTML page of a kernel. `result` is a `dsl.runtime.LaunchResult`, or None if the kernel did not
    run."""
    header = compiled.header
    facts: dict[str, Any] = {"target": header.arch, "threads": header.threads, "shared bytes": header.shared_bytes}
    facts |= machine_code(compiled)
    constants = ", ".join(f"{name} = {value}" for name, value in header.constants.items())
    parts = [
        html.title(header.label, program.source.name),
        html.table([*facts], [[*facts.values()]]),
        html.note(constants),
        *map(html.note, (f"requires {require.text}" for require in header.requires)),
    ]
    counters = None if result is None else result.counters
    if counters is None:
        lines = text_of(program.kernels[header.kernel])
        rest = "k.run(…) on the emulator puts counters beside its lines"
        return html.page(*parts, html.source([], lines), html.note(rest))
    source = counted_source(program, program.kernels[header.kernel].loc.source.name, counters)
    return html.page(*parts, totals(counters.totals, prod(result.grid)), source)


def machine_code(compiled: Compiled) -> dict[str, Any]:
    """Returns the registers per thread and the spilled bytes that ptxas reports. The dict is empty if ptxas is not
    installed."""
    from dsl.runtime import assemble
    from dsl.runtime.errors import DeviceError, LaunchError

    header = compiled.header
    with suppress(DeviceError, LaunchError):
        made = assemble(compiled.ptx, header.arch, header.entry, header.maxnreg)
        return {"registers": made.registers, "spilled bytes": made.spill_stores + made.spill_loads}
    return {}


def totals(counted: Any, blocks: int) -> str:
    """Returns the counters of the launch as an HTML table with one row."""
    facts = {"blocks": blocks, **counted.figures}
    return html.table([COLUMNS[name].label for name in TOTALS], [[facts[name] for name in TOTALS]])


def text_of(kernel: ast.KernelDef) -> list[CountedLine]:
    """Returns the source lines of a kernel."""
    places = [node.loc for node in ast.walk(kernel) if getattr(node, "loc", None) is not None]
    here = [place for place in places if place.source is kernel.loc.source]
    last = max(place.source.position(place.end)[0] for place in here)
    return [CountedLine(at, kernel.loc.source.line(at), {}) for at in range(kernel.loc.line, last + 1)]


def counted_source(program: Program, own: str, counters: Any) -> str:
    """Returns the HTML of the source lines with counters and colours. The lines come from the kernel's file and from
    the files of functions that it calls."""
    sources: dict[str, Source] = {source.name: source for source in program.sources()}
    files: dict[str, dict[int, Any]] = {own: counters.by_line}
    for (file, line), found in counters.elsewhere.items():
        files.setdefault(file, {})[line] = found

    def read(file: str) -> list[str]:
        return sources[file].text.splitlines() if file in sources else []

    return html.source(*counted_lines(files, own, read))
