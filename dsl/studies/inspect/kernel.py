"""Collects the data of a kernel that the page of `dsl inspect` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsl.kernels.compile import Compiled, levels_of
from dsl.kernels.variant import record_access
from dsl.lowering.ir.choices import Choice
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import printable
from dsl.lowering.text.level import Level
from dsl.pictures.names import fragments, named_tiles
from dsl.pictures.tiles import pictured, summary
from dsl.studies.inspect.counts import CountedCode
from dsl.studies.inspect.rows import IrRows, Places, is_instruction, llvm_rows, operation_places, ptx_operations
from dsl.studies.why import ExplainedKernel, as_json, grouped


def inspected(kernel: ExplainedKernel, label: str, places: Places, counted: CountedCode | None) -> dict[str, Any]:
    """The data of a kernel at all its levels.

    `operations` lists the source place of each operation in the last IR, then that of the kernel's signature.
    `operation_rows` lists the row of each operation in the last IR. Rows of LLVM IR and PTX have the number of their
    operation, and machine instructions the row of their PTX. -1 means that there is none.
    """
    ir, last = IrRows(places), None
    for name, seconds, level in levels_of(kernel.program, kernel.request):
        ir.add(name, seconds, level)
        last = level
    assert last is not None
    record_access(last.function)
    compiled = kernel.compiled
    llvm, ptx = numbered_code(last, compiled.generated.llvm_level)
    at = operation_places(last.function, places)
    operations = ptx_operations(compiled.body, ptx, len(at) - 1)
    llvm_code = llvm_rows(compiled.llvm, llvm)
    rows = compiled.body.splitlines()
    return {
        "label": label,
        "title": kernel.title,
        "choices": choices(kernel.choices, places),
        "tiles": tiles(compiled.variant.function, places),
        "operations": at,
        "operation_rows": ir.operations(),
        "levels": ir.levels,
        "llvm": {"rows": [text for text, _ in llvm_code], "operations": [number for _, number in llvm_code]},
        "ptx": {
            "rows": rows,
            "operations": [n if is_instruction(row) else -1 for row, n in zip(rows, operations, strict=True)],
        },
        "sass": machine(compiled, operations, len(at) - 1),
        "counters": None if counted is None else counters(compiled, counted, operations, at, places),
    }


def numbered_code(level: Level, llvm_level: int) -> tuple[str, str]:
    """Generates LLVM IR and PTX whose debug information contains operation numbers in place of line numbers."""
    from dsl.lowering.emit import emit
    from dsl.lowering.emit.codegen import to_ptx

    llvm, version = emit(level.function, level.target, numbered=True)
    return llvm, to_ptx(llvm, level.target, version, llvm_level)


def choices(made: Mapping[str, Choice], places: Places) -> list[dict[str, Any]]:
    """The compiler's choices with their source places. Equal choices share an entry."""
    out = []
    for keys in grouped(made, made):
        locs = [made[key].loc for key in keys]
        at = dict.fromkeys(places.of(loc) for loc in locs if loc is not None)
        out.append(as_json(keys, made) | {"places": list(at)})
    return out


def tiles(function: Function, places: Places) -> list[dict[str, Any]]:
    """The named tiles with pictures of their layouts."""
    assert function.loc is not None
    spread, file = fragments(function), places.source(function.loc.source)
    out = []
    for tile in named_tiles(function):
        title, about = printable(f"{tile.name}: {tile.kind}"), summary(function, tile, spread)
        picture = pictured(function, tile, spread)
        out.append({"file": file, "line": tile.line, "title": title, "about": about, "svg": picture})
    return out


def machine(compiled: Compiled, operations: list[int], head: int) -> dict[str, Any]:
    """The machine code, or the reason why there is none.

    Each instruction has its row of PTX, its operation, and its number of live registers.
    """
    from dsl.runtime import assemble
    from dsl.runtime.errors import DeviceError, LaunchError
    from dsl.runtime.machine_code import listing, live_registers

    header = compiled.header
    try:
        code = assemble(compiled.body, header.arch, header.entry, header.maxnreg)
        listed = listing(code.cubin, header.entry)
    except (DeviceError, LaunchError) as error:
        return {"why": str(error), "rows": []}
    # nvdisasm up to 13.2 cannot list live registers of kernels that use all 255 registers. The code is then shown
    # without live registers.
    try:
        live, lacks = live_registers(code.cubin, header.entry), ""
    except DeviceError as error:
        live, lacks = {}, f"; {error}"
    spilled = code.spill_stores + code.spill_loads
    kinds = dict.fromkeys(kind for each in live.values() for kind in each)
    at_each = [live.get(each.address, {}) if each.address is not None else {} for each in listed]
    # Rows count from 0, lines of PTX count from 1.
    ptx = [-1 if each.ptx_line is None or each.address is None else each.ptx_line - 1 for each in listed]
    return {
        "figures": f"{code.registers} registers, {spilled} bytes spilled{lacks}",
        "rows": [each.text for each in listed],
        "addresses": [-1 if each.address is None else each.address for each in listed],
        "ptx": ptx,
        # Instructions that ptxas adds belong to the kernel's signature.
        "operations": [
            -1 if each.address is None else operations[at] if at >= 0 and operations[at] >= 0 else head
            for each, at in zip(listed, ptx, strict=True)
        ],
        "live": {kind: [each.get(kind, 0) for each in at_each] for kind in kinds},
    }


def counters(
    compiled: Compiled, counted: CountedCode, operations: list[int], at: list[int], places: Places
) -> dict[str, Any]:
    """The counts of each counter: lists of [row, count] for the PTX, and of [file, line, count] for the `.tile` text.

    For an inlined function, the lines of its calls count, too, but in each file only the innermost line.
    """
    from dsl.runtime.emulator.counters import Counters

    header = compiled.ptx.count("\n") - compiled.body.count("\n")
    # The page shows the PTX without its header.
    by_row = {line - 1 - header: found for line, found in counted.by_line.items()}
    by_line: dict[tuple[int, int], Counters] = {}
    for row, found in by_row.items():
        number = operations[row]
        # Reversed, so that the innermost line of a file overwrites the outer lines.
        innermost = dict(reversed(list(places.chain(at[number])))) if number >= 0 else {}
        for line in innermost.items():
            by_line.setdefault(line, Counters()).add(found)
    totals = Counters()
    for found in by_row.values():
        totals.add(found)
    told = {row: found.as_dict() for row, found in sorted(by_row.items())}
    lines = {line: found.as_dict() for line, found in sorted(by_line.items())}
    names = [name for name, count in totals.as_dict().items() if count]
    return {
        "launches": counted.launches,
        "blocks": counted.blocks,
        "totals": {name: totals.as_dict()[name] for name in names},
        "runs": [[line - 1 - header, count] for line, count in sorted(counted.runs.items())],
        "ptx": {name: [[row, each[name]] for row, each in told.items() if each[name]] for name in names},
        "lines": {name: [[*line, each[name]] for line, each in lines.items() if each[name]] for name in names},
    }
