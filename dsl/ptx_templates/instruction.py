"""Classes that describe a PTX instruction: its asm text, operands, fragments, effects and meaning.

`reader.py` builds these objects from TOML rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

# Maps an operand's PTX type to (inline-asm constraint, LLVM type) in LLVM's NVPTX back end. A predicate is an i1 with
# the constraint `b`, so a guarded instruction needs no `setp`.
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


class Fragment(Struct, frozen=True):
    """Maps the registers of one warp, or of several warps, to the tile elements that they contain.

    The map is linear over F2, so each bit of an index has its own (row, column) offset. `lane[i]` is the offset for bit
    i of the lane index. `warp[i]` is the offset for bit i of the warp's index within the warp group. `register[i]` is
    the offset for bit i of an element's index within its lane. This index counts the elements of the first register
    first, and within a register from the lowest bits. Some indices may be unused, as in an accumulator with 24 columns.

    An element's (row, column) is the XOR of the offsets of all index bits that are 1. Two offsets never have a 1 in
    the same bit, so XOR equals addition. If a lane bit has the offset (0, 0), lanes that differ only in this bit
    contain the same elements.

    Example: the f32 accumulator of `mma.sync.m16n8k16` has `register = [(0, 1), (8, 0)]` and `lane = [(0, 2), (0, 4),
    (1, 0), (2, 0), (4, 0)]`. Element 3 = 0b11 of lane 5 = 0b00101 is at (0, 2) ^ (1, 0) ^ (0, 1) ^ (8, 0), which is row
    9, column 3.
    """

    name: str
    shape: tuple[int, int]
    register: tuple[tuple[int, int], ...]
    lane: tuple[tuple[int, int], ...]
    warp: tuple[tuple[int, int], ...] = ()

    def coordinate(self, lane: int, element: int, warp: int = 0) -> tuple[int, int]:
        """Returns the tile position (row, column) of element number `element` in lane `lane` of warp `warp`."""
        row = column = 0
        for bases, index in ((self.register, element), (self.lane, lane), (self.warp, warp)):
            for bit, (row_offset, column_offset) in enumerate(bases):
                if index >> bit & 1:
                    row ^= row_offset
                    column ^= column_offset
        return row, column


class MatrixProduct(Struct, frozen=True):
    """The extents and element types of a matrix product d[m, n] = a[m, k] @ b[k, n] + c.

    `a`, `b` and `c` are element types. `modifier` is the PTX modifier `satfinite`, `xor.popc` or `and.popc`, or "".
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    modifier: str = ""


class Operand(Struct, frozen=True):
    """An operand in the asm text: `count` registers of PTX type `type`.

    `count` is None for a plain register such as `%0`. For a vector in braces, such as `{%0, %1}`, it is the number of
    registers, which may be 1. A `pred` operand is an i1, and an `immediate` operand is a constant. `element` is the
    type of the elements in the registers, if `type` does not determine it. Examples are `s8`, `f16`, and `descriptor`
    for the descriptor of a tile in shared memory. `fragment` maps elements to positions in the tile.
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


class Effect(Struct, frozen=True):
    """One effect of an instruction besides its result.

    action: one of these words.
        `reads`, `writes`, `updates` (reads and writes): each thread accesses `bytes` bytes of the memory `space`. If
        the instruction is convergent, `bytes` is for the whole warp. `bytes` is None if an operand contains the number.
        `synchronizes`: the threads of `scope` wait for one another.
        `orders`: the instruction orders memory accesses for the threads of `scope`, as a fence does.
        `commits`: the instruction closes a group of asynchronous operations of the kind `completion`.
        `waits`: the instruction waits for groups of this kind, or for an mbarrier.
        `arrives`: the instruction arrives at an mbarrier. A wait for the mbarrier orders accesses only when its result
        is true.
    order: `weak`, `volatile`, `relaxed`, `acquire`, `release`, `acq_rel` or `sc`, as in PTX. The order is `constant`
        for memory that no thread may write.
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


class Instruction(Struct, frozen=True, eq=False, dict=True):
    """One instruction.

    arch: the oldest architecture with the instruction: 80 for `sm_80`. If `feature` is "a", only the target `sm_80a`
        has the instruction.
    ptx: the oldest PTX version with the instruction, as (major, minor).
    section: the anchor of its description in https://docs.nvidia.com/cuda/parallel-thread-execution/.
    meaning: what the instruction computes, written like Python. An operand with a fragment means its whole tile. Any
        other operand means the value of one lane. `a[i]` is the value of lane i, and `mask` is a set of lanes.
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
        """Returns the operand with the name `operand`. Raises KeyError if there is no such operand."""
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
        """The oldest `.target` that has the instruction, such as `sm_80` or `sm_100a`."""
        return f"sm_{self.arch}{self.feature}"

    def available(self, arch: str, ptx: tuple[int, int] | None = None) -> bool:
        """Returns whether the target `arch`, such as `sm_86`, has the instruction. If `ptx` is given, this PTX version
        must have it, too."""
        if ptx is not None and ptx < self.ptx:
            return False
        if self.feature:  # PTX of an `a` target runs on no other architecture
            return arch == self.target
        return int(arch.removeprefix("sm_").rstrip("af")) >= self.arch

    def filled(self, **places: str) -> Instruction:
        """Returns a copy in which fixed text replaces some operands. `places` maps their names to text."""
        asm = _PLACE.sub(lambda match: places.get(match[1], match[0]), self.asm)
        return replace(self, asm=asm, operands=tuple(o for o in self.operands if o.name not in places))

    def llvm(self) -> tuple[str, str]:
        """Returns the asm text and the constraint string for an LLVM inline-asm call.

        The call's results are the registers of `outputs`, in order. Its arguments are the registers of `inputs`, in
        order. An `inout` operand is a result, and also an argument that is tied to this result. If the instruction has
        effects, the constraints include the clobber `~{memory}`. If the instruction is convergent, the caller must mark
        the call `convergent`.
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
    """Returns an operand's registers as asm text: `$3`, or `{$3, $4}` for a vector."""
    if operand.count is None:
        return f"${first}"
    return "{" + ", ".join(f"${first + i}" for i in range(operand.count)) + "}"


def joined(name: str, operands: Iterable[Operand], steps: Iterable[str | Instruction]) -> Instruction:
    """Joins several instructions into one, so that LLVM inserts nothing between them.

    A string in `steps` is asm text, to be placed between instructions. Operands with the same name share registers. The
    joined instruction exists on targets that have all the instructions. It has all their effects, but no `meaning`.
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
