"""What ptxas adds to a kernel where it costs instructions, by line of the `.tile` text (`dsl why --machine`).

Three facts about ptxas 12.0 to 13.5 (findings/ptxas_predicated_load_branches.sh, ptxas_copy_size_and_offset.sh):

- A masked load of global memory that stands alone becomes a branch around the load, with a convergence barrier (BSSY,
  BSYNC).
- `cp.async` adds an offset to a global address for free only from -2048 to 2047. Any other offset takes two additions.
  Plain loads have 24 bits for it.
- The source size of a `cp.async` is a predicate if it is the whole size or 0. Any other number of bytes takes five
  instructions, and LDGSTS then has the modifier ZFILL.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from dsl.kernels.compile import Compiled
from dsl.kernels.plain_rows import ptx_lines
from dsl.runtime import Assembly, assemble
from dsl.runtime.machine_code import ListedInstruction, instruction_count, listing

NEAR = range(-2048, 2048)
"""The offsets of a global address that are free in `cp.async`."""
MASKED_LOAD = re.compile(r"^\s*@!?%p\d+\s+ld\.global")
COPY = re.compile(r"^\s*cp\.async\.c[ag]\.shared\.global\b.*, \[(%rd\d+)(?:\+(-?\d+))?\], \d+[,;]")
SUM = re.compile(r"^\s*add\.[su]64\s+(%rd\d+), (%rd\d+), (-?\d+);")


class MachineNote(Struct, frozen=True):
    """A cost that ptxas adds at a line of the `.tile` text. `count` is the number of instructions with this cost. A
    note whose `line` is None is about the whole kernel."""

    line: int | None
    count: int
    cost: str
    hint: str


Row = tuple[str, int | None]
"""A row of PTX, and its line of the `.tile` text."""


def machine_notes(compiled: Compiled) -> list[MachineNote]:
    """Assembles a kernel. Returns a note about the whole kernel, then the notes sorted by line. Raises DeviceError if
    ptxas or nvdisasm is missing, and LaunchError if ptxas refuses the kernel."""
    rows = [*ptx_lines(compiled.ptx)]
    made, whole = assembled(compiled)
    code = listing(made.cubin, compiled.header.entry)
    notes = [*_of_code(code, rows), *_far_copies(rows)]
    return [whole, *sorted(notes, key=lambda note: (note.line or 0, note.cost))]


def assembled(compiled: Compiled) -> tuple[Assembly, MachineNote]:
    """Assembles a kernel. Returns the output of ptxas, and the note about the whole kernel. Raises the same errors as
    `machine_notes`."""
    header = compiled.header
    made = assemble(compiled.ptx, header.arch, header.entry, header.maxnreg)
    spilled, count = made.spill_stores + made.spill_loads, instruction_count(made.cubin, header.entry)
    cost = f"{made.registers} registers, {spilled} bytes of spills, {count} instructions"
    return made, MachineNote(None, count, cost, "")


def _of_code(code: Sequence[ListedInstruction], rows: Sequence[Row]) -> Iterator[MachineNote]:
    """Notes on masked loads that became branches, and on copies whose source size is a number of bytes."""
    branches, sizes = Counter[int | None](), Counter[int | None]()
    for each in code:
        text, line = rows[each.ptx_line - 1] if each.ptx_line else ("", None)
        branches[line] += each.opcode == "BSSY" and bool(MASKED_LOAD.match(text))
        sizes[line] += each.opcode.startswith("LDGSTS") and "ZFILL" in each.opcode
    for line, count in (+branches).items():
        cost = "a masked load is a branch with a convergence barrier (BSSY, BSYNC)"
        yield MachineNote(line, count, cost, "several loads together are no branch, nor is a load without a mask")
    for line, count in (+sizes).items():
        cost = "the source size of a copy is a number of bytes, which takes five instructions"
        yield MachineNote(line, count, cost, "rows that end at multiples of what is copied at once: pad or align them")


def _far_copies(rows: Sequence[Row]) -> Iterator[MachineNote]:
    """Notes on copies of one line whose global addresses differ by a constant that is too large for a free offset."""
    sums: dict[str, tuple[str, int]] = {}  # register → (register, constant) whose sum it is
    lines: defaultdict[int | None, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for text, line in rows:
        if found := SUM.match(text):
            start, behind = sums.get(found[2], (found[2], 0))
            sums[found[1]] = start, behind + int(found[3])
        elif found := COPY.match(text):
            start, behind = sums.get(found[1], (found[1], 0))
            lines[line][start].add(behind + int(found[2] or 0))
    for line, places in lines.items():
        far = sum(behind - min(each) not in NEAR for each in places.values() for behind in each)
        if far:
            cost = "a copy adds to its global address, which is 2048 bytes and more behind that of another copy"
            yield MachineNote(line, far, cost, "plain loads and TMA boxes need no such additions")
