"""Counts the instructions in a kernel's machine code, and in its loops from the output of nvdisasm.

This module does not count how often instructions run. The emulator counts this for PTX. Machine instructions may run
less or more often, since ptxas may unroll loops, move instructions out of loops and turn branches into predicates."""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from msgspec import Struct, field

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

WORDS = struct.Struct("<QQ")
"""An instruction."""
NOP = 0x918
BRANCH_TO_ITSELF = {0xFFFFFFFC00FC7947, 0xFFFFFFF000007947}
"""The first eight bytes, from sm_90 on and before. The lowest 12 bits of an instruction are its opcode."""

ELF_HEADER = struct.Struct("<40xQ10xHHH")
"""Where the section headers are, their size, their number, and which of them has their names."""
ELF_SECTION = struct.Struct("<I20xQQ24x")
"""Of a section: its name's offset, and its own offset and size."""


@lru_cache(maxsize=16)
def _printed(cubin: bytes, *options: str) -> str:
    """Returns the output of nvdisasm for `cubin`. The output is cached, because several functions need it, and nvdisasm
    takes 0.3 s."""
    return sass(cubin, *options)


class MachineCode(Struct, frozen=True):
    """Instruction counts of a kernel's machine code.

    `instructions` counts all instructions except the padding at the end. `loop` counts the instructions in the longest
    innermost loop. `loop` is 0 if there is no loop, and None if the code has indirect branches."""

    instructions: int
    loop: int | None


class _Block(Struct):
    size: int = 0
    following: list[int] = field(default_factory=list)


@lru_cache(maxsize=256)
def machine_code(cubin: bytes, entry: str) -> MachineCode:
    """Counts the instructions of one entry. Raises DeviceError `tool` if nvdisasm is missing or fails.

    The result is cached, because variants in a benchmark or a search often have the same code."""
    return counted(_printed(cubin, WITH_LINES), entry)


@lru_cache(maxsize=256)
def instruction_count(cubin: bytes, entry: str) -> int:
    """Counts the instructions of one entry without the padding at the end: `machine_code(…).instructions`, without
    nvdisasm, which takes 0.4 s.

    Raises KeyError if there is no such entry."""
    offset, each, number, names = ELF_HEADER.unpack_from(cubin)
    sections = [ELF_SECTION.unpack_from(cubin, offset + i * each) for i in range(number)]
    _, texts, _ = sections[names]
    of_name = {cubin[texts + name : cubin.index(b"\0", texts + name)].decode(): part for name, *part in sections}
    begin, size = of_name[f".text.{entry}"]
    words = [word for word, _ in WORDS.iter_unpack(cubin[begin : begin + size])]
    while words and words[-1] & 0xFFF == NOP:
        words.pop()
    return len(words) - (bool(words) and words[-1] in BRANCH_TO_ITSELF)


class ListedInstruction(Struct):
    """An instruction of the machine code, or a label. A label has no address.

    `ptx_line` is the line of the PTX from which the instruction was compiled, or None if ptxas reports no line. For
    `@!P0 LDS.128 R4, [R8]`, `opcode` is `LDS.128`, and `operands` is `R4, [R8]`."""

    text: str
    address: int | None = None
    ptx_line: int | None = None
    is_conditional: bool = False
    opcode: str = ""
    operands: str = ""


class ListedBlock(Struct):
    """A basic block: instructions that are issued one after another.

    `behind` is the conditional branch right before the block, or None. `function` is the index of the first instruction
    of the function that contains the block, or 0 for the entry itself. `calls` contains such indices for the functions
    that the block calls."""

    instructions: list[ListedInstruction]
    behind: ListedInstruction | None
    function: int = 0
    calls: list[int] = field(default_factory=list)


class _Code:
    """The code of one entry, parsed from the output of nvdisasm with the option WITH_LINES.

    `rows` are the instructions without the padding at the end: a branch to itself, followed by NOPs. `listing` contains
    the same instructions and also the labels. `labels` maps each label to the index of the next instruction."""

    def __init__(self, text: str, entry: str):
        self.listing: list[ListedInstruction] = []
        self.labels: dict[str, int] = {}
        self.rows: list[ListedInstruction] = []
        line: int | None = None
        for row in _section(text, entry).splitlines():
            if found := PTX_LINE.match(row):
                line = int(found[1])
            elif found := INSTRUCTION.match(row):
                address, condition, name, operands = found.groups(default="")
                # The condition of a branch is either a predicate before the opcode or the first operand.
                conditional = condition not in ("", "PT") or (name.startswith("BRA") and operands[:1] != "`")
                code = row.partition("*/")[2].partition(";")[0].strip()
                self.rows.append(ListedInstruction(code, int(address, 16), line, conditional, name, operands))
                self.listing.append(self.rows[-1])
            elif found := LABEL.match(row):
                self.labels[found[1]] = len(self.rows)
                if not found[1].startswith(".text."):
                    self.listing.append(ListedInstruction(found[0]))
        while self.rows and self.rows[-1].opcode == "NOP":
            self.rows.pop()
        if self.rows and self.rows[-1].opcode == "BRA" and self.goes_to(self.rows[-1]) == len(self.rows) - 1:
            self.rows.pop()
        while self.listing and (not self.rows or self.listing[-1] is not self.rows[-1]):
            self.listing.pop()

    def goes_to(self, row: ListedInstruction) -> int | None:
        found = TARGET.search(row.operands)
        return self.labels.get(found[1]) if found else None


def listed_blocks(cubin: bytes, entry: str) -> list[ListedBlock]:
    """Returns the basic blocks of one entry. Raises DeviceError `tool` if nvdisasm is missing or fails."""
    return blocks_in(_printed(cubin, WITH_LINES), entry)


def blocks_in(text: str, entry: str) -> list[ListedBlock]:
    """Returns the basic blocks of one entry. `text` is the output of nvdisasm with the option WITH_LINES."""
    code = _Code(text, entry)
    called = {at: target for at, row in enumerate(code.rows)
              if row.opcode.startswith("CALL") and (target := code.goes_to(row)) is not None}  # fmt: skip
    found, at, function = [], 0, 0
    for block in _blocks(code)[0]:
        end = at + block.size
        function = at if at in called.values() else function
        before = code.rows[at - 1] if at else None
        behind = before if before and before.is_conditional and before.opcode.startswith("BRA") else None
        calls = [called[each] for each in range(at, end) if each in called]
        found.append(ListedBlock(code.rows[at:end], behind, function, calls))
        at = end
    return found


def listing(cubin: bytes, entry: str) -> list[ListedInstruction]:
    """Returns the instructions and labels of one entry, without the padding at the end. Raises DeviceError `tool` if
    nvdisasm is missing or fails."""
    return _Code(_printed(cubin, WITH_LINES), entry).listing


def live_registers(cubin: bytes, entry: str) -> dict[int, dict[str, int]]:
    """Returns the number of live registers of each kind at each instruction: {address: {"GPR": 20, "PRED": 1}}.

    Raises DeviceError `tool` if nvdisasm fails. Versions of nvdisasm before 13.3 fail for kernels with 255
    registers."""
    try:
        return _live(_printed(cubin, "--life-range-mode", "count"), entry)
    except DeviceError as error:
        if "Invalid register count" not in error.message:
            raise
        said = f"nvdisasm {version_of('nvdisasm')} reports no live registers of a kernel with 255 registers"
        raise DeviceError("tool", said, "13.3 does: pip install 'nvidia-cuda-nvdisasm>=13.3'") from None


def _live(text: str, entry: str) -> dict[int, dict[str, int]]:
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
    sections = re.split(r"^\s*\.section\s+\.text\.([^,\s]+).*$", text, flags=re.M)
    return dict(zip(sections[1::2], sections[2::2], strict=True))[entry]


def counted(text: str, entry: str) -> MachineCode:
    """Counts the instructions of one entry. `text` is the output of nvdisasm with the option WITH_LINES."""
    code = _Code(text, entry)
    # A computed branch may go anywhere, so the loops are unknown.
    if any(row.opcode.split(".")[0] in INDIRECT for row in code.rows):
        return MachineCode(len(code.rows), None)
    blocks, entries = _blocks(code)
    sizes = [sum(blocks[i].size for i in loop) for loop in _inner(blocks, entries)]
    return MachineCode(len(code.rows), max(sizes, default=0))


def _blocks(code: _Code) -> tuple[list[_Block], list[int]]:
    """Returns the basic blocks with their successors, and the numbers of those blocks with which the entry or a called
    function begins."""
    starts, called = {0}, {0}
    for at, row in enumerate(code.rows):
        target = code.goes_to(row)
        if row.opcode.startswith("CALL"):
            called |= {target} if target is not None else set()
        elif row.opcode.startswith("BRA"):
            starts |= {at + 1} | ({target} if target is not None else set())
        elif row.opcode.startswith(ENDS):
            starts.add(at + 1)
    ordered = sorted(start for start in starts | called if start < len(code.rows))
    number = {start: i for i, start in enumerate(ordered)}
    blocks = []
    for start, end in zip(ordered, [*ordered[1:], len(code.rows)], strict=True):
        last, block = code.rows[end - 1], _Block(end - start)
        is_branch = last.opcode.startswith("BRA")
        target = code.goes_to(last) if is_branch else None
        if target in number:
            block.following.append(number[target])
        if end in number and (last.is_conditional or not (is_branch or last.opcode.startswith(ENDS))):
            block.following.append(number[end])
        blocks.append(block)
    return blocks, [number[start] for start in sorted(called) if start in number]


def _inner(blocks: list[_Block], entries: list[int]) -> list[set[int]]:
    """Returns the innermost loops. Each loop is a set of block numbers.

    Only natural loops are returned. A natural loop has a back edge whose target dominates its source. The loop consists
    of the target and of all blocks that reach the source without passing through the target. Code that ptxas moved out
    of line also jumps back, but it is no loop."""
    before: list[list[int]] = [[] for _ in blocks]
    for i, block in enumerate(blocks):
        for j in block.following:
            before[j].append(i)
    # The dominators of each block, as bit sets. They are refined until nothing changes.
    every = (1 << len(blocks)) - 1
    passed = [1 << i if i in entries else every for i in range(len(blocks))]  # the blocks on every path to block i
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
        if passed[i] == every and i not in entries and len(blocks) > 1:  # unreachable
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
    # A loop that contains the head of another loop is not innermost.
    return [loop for head, loop in loops.items() if not any(other != head and other in loop for other in loops)]
