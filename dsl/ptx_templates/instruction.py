"""An instruction of the PTX ISA as data: asm text, operands, fragments, effects and semantics.

`reader.py` builds these objects from TOML rows. This module reads no files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

# Maps the type of an operand to (inline-asm constraint, LLVM type) of a register in LLVM's NVPTX back end. Predicates
# are i1 with the constraint `b`, so a guard needs no `setp`.
_LLVM = {
    "b16": ("h", "i16"),
    "b32": ("r", "i32"),
    "b64": ("l", "i64"),
    "f32": ("f", "float"),
    "f64": ("d", "double"),
    "pred": ("b", "i1"),
    "immediate": ("n", "i32"),
}
OPERAND_TYPES = frozenset(_LLVM)
ROLES = ("out", "in", "inout")
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A linear map over F2 that states which elements of a tile the registers of one or several warps contain.

    `register[i]` is the (row, column) offset for bit i of an element's index within its lane. Elements of the first
    register come first. Within a register, elements in the lowest bits come first. `lane[i]` is the offset for bit i of
    the lane index. `warp[i]` is the offset for bit i of the warp's index within the warp group. An operand may have
    fewer elements than its index bits can count, such as an accumulator with 24 columns.

    A coordinate is the XOR of the offsets of all set bits. Offsets of different bits share no bit, so XOR equals
    addition. If a lane bit has the offset (0, 0), lanes that differ only in this bit have the same elements.

    Example: the f32 accumulator of `mma.sync.m16n8k16` has `register = [(0, 1), (8, 0)]` and
    `lane = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]`. Element 3 = 0b11 of lane 5 = 0b00101 has the coordinate
    (0, 2) ^ (1, 0) ^ (0, 1) ^ (8, 0) = row 9, column 3.
    """

    name: str
    shape: tuple[int, int]
    register: tuple[tuple[int, int], ...]
    lane: tuple[tuple[int, int], ...]
    warp: tuple[tuple[int, int], ...] = ()

    def coordinate(self, lane: int, element: int, warp: int = 0) -> tuple[int, int]:
        """The (row, column) of the element with number `element` in lane `lane` of warp `warp`."""
        row = column = 0
        for bases, index in ((self.register, element), (self.lane, lane), (self.warp, warp)):
            for bit, (row_offset, column_offset) in enumerate(bases):
                if index >> bit & 1:
                    row ^= row_offset
                    column ^= column_offset
        return row, column


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """The extents and types of a matrix product: d[m, n] = a[m, k] @ b[k, n] + c.

    `a`, `b` and `c` are element types. `modifier` is the PTX modifier `satfinite`, `xor.popc` or `and.popc`, or "".
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    modifier: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand in the asm text: `count` registers of PTX type `type`.

    `count` is None for a plain register. For a vector in braces, `count` is a number, which may be 1. A `pred` operand
    is an i1, and an `immediate` operand is a constant. `element` is the element type in the registers, if `type` does
    not determine it. Examples are `s8`, `f16`, and `descriptor` for the descriptor of a tile in shared memory.
    `fragment` maps elements to positions in the tile.
    """

    name: str
    role: str
    type: str
    count: int | None = None
    element: str | None = None
    fragment: Fragment | None = None

    @property
    def registers(self) -> int:
        """The number of registers. Each register is one LLVM value of type `llvm_type`."""
        return 1 if self.count is None else self.count

    @property
    def llvm_type(self) -> str:
        """The LLVM type of each register: `i1`, `i16`, `i32`, `i64`, `float` or `double`."""
        return _LLVM[self.type][1]


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of an instruction besides its result.

    action: one of these words.
        `reads`, `writes`, `updates` (both): one thread accesses `bytes` bytes in `space`. In a convergent instruction,
        the whole warp accesses `bytes` bytes. `bytes` is None if an operand contains the number.
        `synchronizes`: the threads of `scope` wait for one another.
        `orders`: memory accesses are ordered for the threads of `scope`.
        `commits`, `waits`: the instruction closes a group of copies, or waits for groups. `completion` is their kind.
        `arrives`: the instruction arrives at an mbarrier. A wait for the mbarrier orders accesses only when its
        predicate becomes true.
    order: `weak`, `volatile`, `relaxed`, `acquire`, `release`, `acq_rel` or `sc`, as in PTX. The order is `constant`
        if no thread may write the memory.
    scope: `warp`, `warpgroup`, `cta`, `cluster`, `gpu` or `sys`.
    proxy: `generic`, `async` or `tensormap`.
    completion: `at once`, `commit group`, `bulk group`, `wgmma group` or `mbarrier`.
    """

    action: str
    space: str | None = None
    bytes: int | None = None
    order: str = "weak"
    scope: str | None = None
    proxy: str = "generic"
    completion: str = "at once"


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction.

    arch: the least sm number. If `feature` is "a", the instruction exists only on this target.
    ptx: the least PTX version, (major, minor).
    section: the anchor in https://docs.nvidia.com/cuda/parallel-thread-execution/.
    meaning: the semantics as a Python expression. An operand with a fragment represents its whole tile. Any other
        operand represents the value of one lane. `a[i]` is the value of lane i, and `mask` is a set of lanes.
    """

    name: str
    family: str
    asm: str
    operands: tuple[Operand, ...]
    convergent: bool
    arch: int
    feature: str
    ptx: tuple[int, int]
    effects: tuple[Effect, ...]
    section: str
    meaning: str

    def __getitem__(self, operand: str) -> Operand:
        """The operand with this name. Raises KeyError if there is no such operand."""
        for candidate in self.operands:
            if candidate.name == operand:
                return candidate
        raise KeyError(f"{self.name} has no operand {operand!r}")

    @cached_property
    def outputs(self) -> tuple[Operand, ...]:
        """The operands that the instruction writes, in order. Their registers are the results of the asm call."""
        return tuple(operand for operand in self.operands if operand.role != "in")

    @cached_property
    def inputs(self) -> tuple[Operand, ...]:
        """The operands that the instruction reads, in order. Their registers are the arguments of the asm call."""
        return tuple(operand for operand in self.operands if operand.role != "out")

    @property
    def target(self) -> str:
        """The least target, as in `.target`: `sm_80`, `sm_100a`."""
        return f"sm_{self.arch}{self.feature}"

    def available(self, arch: str, ptx: tuple[int, int] | None = None) -> bool:
        """Whether the target `arch` (`sm_86`, `sm_100a`) has the instruction. If `ptx` is given, the instruction must
        exist in this PTX version."""
        if ptx is not None and ptx < self.ptx:
            return False
        if self.feature:  # PTX of an `a` target runs on no other architecture
            return arch == self.target
        return int(arch.removeprefix("sm_").rstrip("af")) >= self.arch

    def filled(self, **places: str) -> Instruction:
        """A copy in which text replaces some operands. The copy no longer has these operands."""
        asm = _PLACE.sub(lambda match: places.get(match[1], match[0]), self.asm)
        return replace(self, asm=asm, operands=tuple(o for o in self.operands if o.name not in places))

    def llvm(self) -> tuple[str, str]:
        """The text and the constraint string of an LLVM inline-asm call.

        The results are the registers of `outputs`, in order. The arguments are the registers of `inputs`, in order. An
        `inout` operand is both a result and an argument that is tied to the result. Instructions with effects clobber
        `~{memory}`. If the instruction is convergent, the caller must mark the call `convergent`.
        """
        places: dict[str, str] = {}
        constraints: list[str] = []
        number = 0
        for operand in self.outputs:
            places[operand.name] = _places(operand, number)
            constraints += ["=" + _LLVM[operand.type][0]] * operand.registers
            number += operand.registers
        # LLVM numbers results first, then arguments. The constraint of an `inout` argument is the number of its result.
        tied = 0
        for operand in self.operands:
            if operand.role == "out":
                tied += operand.registers
            elif operand.role == "inout":
                constraints += [str(tied + i) for i in range(operand.registers)]
                tied += operand.registers
                number += operand.registers
            else:
                places[operand.name] = _places(operand, number)
                constraints += [_LLVM[operand.type][0]] * operand.registers
                number += operand.registers
        if self.effects:
            constraints.append("~{memory}")
        text = _PLACE.sub(lambda match: places[match[1]], self.asm.replace("$", "$$"))  # LLVM itself uses `$`
        return text, ",".join(constraints)


def _places(operand: Operand, first: int) -> str:
    """The registers of an operand in asm text: `$3`, or `{$3, $4}` for a vector."""
    if operand.count is None:
        return f"${first}"
    return "{" + ", ".join(f"${first + i}" for i in range(operand.count)) + "}"


def joined(name: str, operands: Iterable[Operand], steps: Iterable[str | Instruction]) -> Instruction:
    """Joins instructions, and text between them, in a single asm call. So LLVM inserts nothing between the
    instructions.

    Operands with the same name share registers. The result exists on targets where all of the instructions exist. It
    has their effects, but no `meaning`.
    """
    steps = list(steps)
    rows = [step for step in steps if isinstance(step, Instruction)]
    return replace(
        max(rows, key=lambda row: (row.arch, row.feature)),  # the most demanding instruction decides the target
        name=name,
        asm=" ".join(step if isinstance(step, str) else step.asm for step in steps),
        operands=tuple(operands),
        convergent=any(row.convergent for row in rows),
        ptx=max(row.ptx for row in rows),
        effects=tuple(dict.fromkeys(effect for row in rows for effect in row.effects)),
        meaning="",
    )
