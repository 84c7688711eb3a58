"""An instruction of the PTX ISA as data: asm text, operands, fragments, effects and semantics.

`reader.py` builds these objects from TOML rows; this module reads no files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

# Operand type → (inline-asm constraint, LLVM type) of a register in LLVM's NVPTX back end.
# Predicates are i1 with the constraint `b`, so a guard needs no setp of its own.
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
    """How the elements of a tile lie in the registers of one or several warps: a linear map over F2.

    `register[i]` is the (row, column) offset of bit i of an element's index within its lane. Elements of the first
    register come first; within a register, those in the lowest bits. `lane[i]` is the offset of bit i of the lane, and
    `warp[i]` that of bit i of the warp's number in the instruction. An operand may have fewer elements than its index
    bits can count: an accumulator of 24 columns, for example.

    A coordinate is the XOR of the offsets of all set bits. Offsets of different bits share no bit, so XOR is addition.
    A lane bit with offset (0, 0) means that both lanes hold the same elements.

    Example: the f32 accumulator of `mma.sync.m16n8k16` has `register = [(0, 1), (8, 0)]` and
    `lane = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]`. Lane 5 = 0b00101, element 3 = 0b11:
    (0, 2) ^ (1, 0) ^ (0, 1) ^ (8, 0) = row 9, column 3.
    """

    name: str
    shape: tuple[int, int]
    register: tuple[tuple[int, int], ...]
    lane: tuple[tuple[int, int], ...]
    warp: tuple[tuple[int, int], ...] = ()

    def coordinate(self, lane: int, element: int, warp: int = 0) -> tuple[int, int]:
        """The (row, column) of element number `element` of `lane` in `warp`."""
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

    a, b, c: element types. modifier: the PTX modifier `satfinite`, `xor.popc` or `and.popc`, or "".
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

    count: None for a plain register; a number, 1 included, for a vector in braces. A `pred` operand is an i1, an
    `immediate` a constant. element: the type in the registers, where `type` does not say it (`s8`, `f16`; `descriptor`
    of a tile in shared memory). fragment: where in the tile each element lies.
    """

    name: str
    role: str
    type: str
    count: int | None = None
    element: str | None = None
    fragment: Fragment | None = None

    @property
    def registers(self) -> int:
        """The number of registers; each is one LLVM value of `llvm_type`."""
        return 1 if self.count is None else self.count

    @property
    def llvm_type(self) -> str:
        """The LLVM type of each register: `i1`, `i16`, `i32`, `i64`, `float` or `double`."""
        return _LLVM[self.type][1]


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of an instruction besides its result.

    action: `reads`, `writes` or `updates` (both), of `bytes` in `space`, by one thread or, for convergent instructions,
        by the warp; bytes is None where an operand has the count.
        `synchronizes`: the threads of `scope` meet. `orders`: memory accesses, for `scope`. `commits`, `waits`: a group
        of copies of `completion`. `arrives`: at an mbarrier; a wait for it orders nothing while its predicate is false.
    order: `weak`, `volatile`, `relaxed`, `acquire`, `release`, `acq_rel` or `sc`, as in PTX; `constant` where nobody
        may write.
    scope: `warp`, `warpgroup`, `cta`, `cluster`, `gpu` or `sys`. proxy: `generic`, `async` or `tensormap`.
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

    arch: the least sm number; with `feature` "a", the instruction exists only on exactly that target.
    ptx: the least PTX version, (major, minor). section: the anchor in
        https://docs.nvidia.com/cuda/parallel-thread-execution/.
    meaning: the semantics as a Python expression: of whole tiles for operands with a fragment, else of the values of
        one lane; `a[i]` is the value of lane i, and `mask` a set of lanes.
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
        """The operand with this name; KeyError if there is none."""
        for candidate in self.operands:
            if candidate.name == operand:
                return candidate
        raise KeyError(f"{self.name} has no operand {operand!r}")

    @cached_property
    def outputs(self) -> tuple[Operand, ...]:
        """Operands that the instruction writes, in order: the results of the asm call, flattened."""
        return tuple(operand for operand in self.operands if operand.role != "in")

    @cached_property
    def inputs(self) -> tuple[Operand, ...]:
        """Operands that the instruction reads, in order: the arguments of the asm call, flattened."""
        return tuple(operand for operand in self.operands if operand.role != "out")

    @property
    def target(self) -> str:
        """The least target, as in `.target`: `sm_80`, `sm_100a`."""
        return f"sm_{self.arch}{self.feature}"

    def available(self, arch: str, ptx: tuple[int, int] | None = None) -> bool:
        """Whether target `arch` (`sm_86`, `sm_100a`) has the instruction, in PTX version `ptx` if given."""
        if ptx is not None and ptx < self.ptx:
            return False
        if self.feature:  # PTX of an `a` target runs on no other architecture
            return arch == self.target
        return int(arch.removeprefix("sm_").rstrip("af")) >= self.arch

    def filled(self, **places: str) -> Instruction:
        """A copy with texts in the places of some operands, which are then no operands any more."""
        asm = _PLACE.sub(lambda match: places.get(match[1], match[0]), self.asm)
        return replace(self, asm=asm, operands=tuple(o for o in self.operands if o.name not in places))

    def llvm(self) -> tuple[str, str]:
        """The text and the constraint string of an LLVM inline-asm call.

        Results are the registers of `outputs`, arguments those of `inputs`, in order. An `inout` operand is a result
        and an argument tied to it. Instructions with effects clobber `~{memory}`. The caller marks the call
        `convergent` if the instruction is.
        """
        places: dict[str, str] = {}
        constraints: list[str] = []
        number = 0
        for operand in self.outputs:
            places[operand.name] = _places(operand, number)
            constraints += ["=" + _LLVM[operand.type][0]] * operand.registers
            number += operand.registers
        # LLVM numbers results first, then arguments; an `inout` argument names the number of its result.
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
        text = _PLACE.sub(lambda match: places[match[1]], self.asm.replace("$", "$$"))  # `$` is LLVM's own sign
        return text, ",".join(constraints)


def _places(operand: Operand, first: int) -> str:
    """The registers of an operand in asm text: `$3`, or `{$3, $4}` for a vector."""
    if operand.count is None:
        return f"${first}"
    return "{" + ", ".join(f"${first + i}" for i in range(operand.count)) + "}"


def joined(name: str, operands: Iterable[Operand], steps: Iterable[str | Instruction]) -> Instruction:
    """Several instructions and text between them as one asm, so that LLVM puts nothing between them.

    Operands with one name share registers. The result exists where all of the instructions exist, and has the effects
    of all. It has no semantics of its own.
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
