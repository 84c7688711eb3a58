"""What the machine code of a kernel has, as nvdisasm prints it: how many instructions, and how many in its loops.

The emulator counts how often the PTX runs. How often the machine code runs is not known from that: ptxas unrolls loops,
moves instructions out of them and makes branches into predicates. What is counted here is the text, as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import sass, version_of

INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?\w+)\s+)?(\S+?)(?:\s+(.*?))?\s*;")
LABEL = re.compile(r"^([^\s:]+):")
PTX_LINE = re.compile(r'^\s*//## File "\.nv_debug_ptx_txt", line (\d+)')
LIVE = re.compile(r"// \|([^/]*)\|$")
KINDS = re.compile(r"// \|((?: [A-Z]+ +\|)+)$")
TARGET = re.compile(r"`\(([^)]+)\)")
ENDS = ("EXIT", "RET", "KILL")
INDIRECT = ("BRX", "JMX", "JMP", "JMXU", "BRXU")


WITH_LINES = "--print-line-info-ptx"


@lru_cache(maxsize=16)
def _printed(cubin: bytes, *options: str) -> str:
    """What nvdisasm prints. It takes 0.3 s of any code, and what counts, lists and compares the same code asks soon
    after one another."""
    return sass(cubin, *options)


@dataclass(frozen=True, slots=True)
class MachineCode:
    """`instructions`, without the filling at the end; `loop`, those of them in the longest inner loop: 0 without a
    loop, None where branches are computed."""

    instructions: int
    loop: int | None


@dataclass(slots=True)
class _Block:
    size: int = 0
    following: list[int] = field(default_factory=list)


@lru_cache(maxsize=256)
def machine_code(cubin: bytes, entry: str) -> MachineCode:
    """Counts the code of one entry, once a process: rows of a bench or points of a search often have the same code.
    Raises DeviceError `tool` where nvdisasm is missing or fails."""
    return counted(_printed(cubin, WITH_LINES), entry)


@dataclass(slots=True)
class ListedInstruction:
    """An instruction of the machine code, or a label, which has no address. ptx_line: of the text that was assembled,
    None where the assembler says none."""

    text: str
    address: int | None = None
    ptx_line: int | None = None
    is_conditional: bool = False

    @property
    def opcode(self) -> str:
        """`LDS.128` of `@!P0 LDS.128 R4, [R8]`."""
        words = self.text.split(maxsplit=2)
        return words[1] if words[0][0] == "@" else words[0]


@dataclass(slots=True)
class ListedBlock:
    """Instructions that are issued one after the other. behind: the instruction in front, if that is a branch which may
    lead around them. function: 0, or where the function begins that they are of, which others call; calls: the
    functions that they call."""

    instructions: list[ListedInstruction]
    behind: ListedInstruction | None
    function: int = 0
    calls: list[int] = field(default_factory=list)


def listed_blocks(cubin: bytes, entry: str) -> list[ListedBlock]:
    """The code of one entry block by block. Raises DeviceError `tool` as `machine_code` does."""
    return blocks_in(_printed(cubin, WITH_LINES), entry)


def blocks_in(text: str, entry: str) -> list[ListedBlock]:
    """The code of one entry in what nvdisasm prints with lines of PTX."""
    code = _section(text, entry)
    rows, labels = _read(code)
    rows = rows[: _end(rows, labels)]
    listed = [each for each in _listed(code, len(rows)) if each.address is not None]
    called = {at: target for at, row in enumerate(rows)
              if row[1].startswith("CALL") and (target := _goes_to(row, labels)) is not None}  # fmt: skip
    found, at, function = [], 0, 0
    for block in _blocks(rows, labels)[0]:
        end = at + block.size
        function = at if at in called.values() else function
        behind = listed[at - 1] if at and rows[at - 1][0] and rows[at - 1][1].startswith("BRA") else None
        calls = [called[each] for each in range(at, end) if each in called]
        found.append(ListedBlock(listed[at:end], behind, function, calls))
        at = end
    for each, (is_conditional, _, _) in zip(listed, rows, strict=True):
        each.is_conditional = is_conditional
    return found


def listing(cubin: bytes, entry: str) -> list[ListedInstruction]:
    """The code of one entry, without the filling at the end. Raises DeviceError `tool` as `machine_code` does."""
    code = _section(_printed(cubin, WITH_LINES), entry)
    rows, labels = _read(code)
    return _listed(code, _end(rows, labels))


def live_registers(cubin: bytes, entry: str) -> dict[int, dict[str, int]]:
    """How many registers hold something needed at each address, by kind (GPR, PRED, UGPR), as nvdisasm tells it. Raises
    DeviceError `tool` where it does not: before 13.3 it does not for kernels with 255 registers."""
    try:
        return _live(_printed(cubin, "--life-range-mode", "count"), entry)
    except DeviceError as error:
        if "Invalid register count" not in error.message:
            raise
        said = f"nvdisasm {version_of('nvdisasm')} tells no live registers of a kernel with 255 of them"
        raise DeviceError("tool", said, "13.3 does: pip install 'nvidia-cuda-nvdisasm>=13.3'") from None


def _listed(code: str, count: int) -> list[ListedInstruction]:
    """The first `count` instructions with their labels and PTX lines."""
    out: list[ListedInstruction] = []
    line: int | None = None
    for row in code.splitlines():
        if found := PTX_LINE.match(row):
            line = int(found[1])
        elif found := INSTRUCTION.match(row):
            if count == 0:
                break
            out.append(ListedInstruction(row.partition("*/")[2].partition(";")[0].strip(), int(found[1], 16), line))
            count -= 1
        elif (found := LABEL.match(row)) and not found[1].startswith(".text."):
            out.append(ListedInstruction(found[0]))
    while out and out[-1].address is None:  # of the filling
        out.pop()
    return out


def _live(text: str, entry: str) -> dict[int, dict[str, int]]:
    """Live registers by kind at each address, where nvdisasm tells them."""
    out: dict[int, dict[str, int]] = {}
    kinds: list[str] = []
    for row in _section(text, entry).splitlines():
        if found := KINDS.search(row):
            kinds = [kind.strip() for kind in found[1].split("|")[:-1]]
        elif (at := INSTRUCTION.match(row)) and (found := LIVE.search(row)):
            counts = zip(kinds, found[1].split("|"), strict=False)
            out[int(at[1], 16)] = {kind: int(count) for kind, count in counts if count.strip()}
    return out


def _section(text: str, entry: str) -> str:
    """The code of one entry in what nvdisasm prints."""
    sections = re.split(r"^\s*\.section\s+\.text\.([^,\s]+).*$", text, flags=re.M)
    return dict(zip(sections[1::2], sections[2::2], strict=True))[entry]


def counted(text: str, entry: str) -> MachineCode:
    """Counts the code of one entry in what nvdisasm prints."""
    rows, labels = _read(_section(text, entry))
    rows = rows[: _end(rows, labels)]
    if any(name.split(".")[0] in INDIRECT for _, name, _ in rows):
        return MachineCode(len(rows), None)
    blocks, entries = _blocks(rows, labels)
    sizes = [sum(blocks[i].size for i in loop) for loop in _inner(blocks, entries)]
    return MachineCode(len(rows), max(sizes, default=0))


Row = tuple[bool, str, str]
"""An instruction: is it done only under a condition, its name, its operands."""


def _read(code: str) -> tuple[list[Row], dict[str, int]]:
    """The instructions, and at which of them the labels stand."""
    rows: list[Row] = []
    labels: dict[str, int] = {}
    for line in code.splitlines():
        found = INSTRUCTION.match(line)
        if found:
            _, condition, name, operands = found.groups()
            operands = operands or ""
            # A branch has its condition before it or as its first operand.
            conditional = condition not in (None, "PT") or (name.startswith("BRA") and not operands.startswith("`"))
            rows.append((conditional, name, operands))
        elif label := LABEL.match(line):
            labels[label[1]] = len(rows)
    return rows, labels


def _end(rows: list[Row], labels: dict[str, int]) -> int:
    """Where the filling begins: a branch to itself, then instructions that do nothing."""
    end = len(rows)
    while end and rows[end - 1][1] == "NOP":
        end -= 1
    if end and rows[end - 1][1] == "BRA" and _goes_to(rows[end - 1], labels) == end - 1:
        end -= 1
    return end


def _goes_to(row: Row, labels: dict[str, int]) -> int | None:
    found = TARGET.search(row[2])
    return labels.get(found[1]) if found else None


def _blocks(rows: list[Row], labels: dict[str, int]) -> tuple[list[_Block], list[int]]:
    """Instructions in a row with what may follow them, and the blocks that begin the code and what it calls."""
    starts, called = {0}, {0}
    for at, row in enumerate(rows):
        target = _goes_to(row, labels)
        if row[1].startswith("CALL"):
            called |= {target} if target is not None else set()
        elif row[1].startswith("BRA"):
            starts |= {at + 1} | ({target} if target is not None else set())
        elif row[1].startswith(ENDS):
            starts.add(at + 1)
    ordered = sorted(start for start in starts | called if start < len(rows))
    number = {start: i for i, start in enumerate(ordered)}
    blocks = []
    for start, end in zip(ordered, [*ordered[1:], len(rows)], strict=True):
        conditional, name, _ = rows[end - 1]
        block = _Block(end - start)
        is_branch = name.startswith("BRA")
        target = _goes_to(rows[end - 1], labels) if is_branch else None
        if target in number:
            block.following.append(number[target])
        if end in number and (conditional or not (is_branch or name.startswith(ENDS))):
            block.following.append(number[end])
        blocks.append(block)
    return blocks, [number[start] for start in sorted(called) if start in number]


def _inner(blocks: list[_Block], entries: list[int]) -> list[set[int]]:
    """The loops that have no loop inside, each as its blocks.

    A loop is what comes to a branch back without passing where that leads, which every way to the branch passes: code
    that is taken out of the way and comes back is none.
    """
    before: list[list[int]] = [[] for _ in blocks]
    for i, block in enumerate(blocks):
        for j in block.following:
            before[j].append(i)
    every = (1 << len(blocks)) - 1
    passed = [1 << i if i in entries else every for i in range(len(blocks))]  # blocks on every way to a block
    changed = True
    while changed:
        changed = False
        for i in range(len(blocks)):
            if i in entries:
                continue
            found = every
            for j in before[i]:
                found &= passed[j]
            found |= 1 << i
            changed |= found != passed[i]
            passed[i] = found
    loops: dict[int, set[int]] = {}
    for i, block in enumerate(blocks):
        if passed[i] == every and i not in entries and len(blocks) > 1:  # nothing leads there
            continue
        for head in block.following:
            if passed[i] >> head & 1:
                inside = loops.setdefault(head, {head})
                work = [i]
                while work:
                    each = work.pop()
                    if each not in inside:
                        inside.add(each)
                        work += before[each]
    return [loop for head, loop in loops.items() if not any(other != head and other in loop for other in loops)]
