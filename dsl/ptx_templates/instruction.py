"""An instruction of the PTX ISA as data: asm text, operands, fragments, effects and meaning.

Nothing here reads a file; `reader.py` builds these from the TOML rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

# What a register of each operand type is to LLVM's NVPTX back end: (inline-asm constraint, LLVM type).
# Predicates travel as i1 in the constraint class `b`, so a guard needs no setp of its own.
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
    """How the elements of a tile lie in the registers of a warp, or of several: a linear map over F2.

    `register[i]` is the (row, column) offset of bit i of an element's index within its lane (the elements of the
    first register come first, in each register from the lowest bits up); `lane[i]` that of bit i of the lane, `warp[i]`
    that of bit i of the warp's number among those that an instruction joins. An operand may have fewer elements than
    the bits of their index can count, as the sums of 24 columns do.
    A coordinate is the XOR of the offsets of all set bits. Offsets of distinct bits share no bit, so XOR is addition;
    a lane bit with offset (0, 0) means that both lanes hold the same elements.

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
        """Row and column that `lane` of `warp` holds as its element number `element`."""
        row = column = 0
        for bases, index in ((self.register, element), (self.lane, lane), (self.warp, warp)):
            for bit, (row_offset, column_offset) in enumerate(bases):
                if index >> bit & 1:
                    row ^= row_offset
                    column ^= column_offset
        return row, column


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """What a product of matrices multiplies: d[m, n] = a[m, k] @ b[k, n] + c.

    `a`, `b` and `c` are element types. `modifier` is what else PTX says: `satfinite`, `xor.popc`, `and.popc`, or
    nothing.
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
    """A place in the asm text: `count` registers of PTX type `type`.

    `count` is None for a plain register and an int, 1 included, for a braced vector. A `pred` operand is an i1,
    an `immediate` a constant. `element` names what the registers hold where `type` does not say it (`s8`, `f16`,
    `descriptor`: of a tile in shared memory);
    `fragment` where in the tile each element lies.
    """

    name: str
    role: str
    type: str
    count: int | None = None
    element: str | None = None
    fragment: Fragment | None = None

    @property
    def registers(self) -> int:
        """Number of registers, each one LLVM value of `llvm_type`."""
        return 1 if self.count is None else self.count

    @property
    def llvm_type(self) -> str:
        """The LLVM type of each register: `i1`, `i16`, `i32`, `i64`, `float` or `double`."""
        return _LLVM[self.type][1]


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that an instruction does beside its result.

    `action` is `reads`, `writes` or `updates`, which is both at once (`bytes` of `space`: of one thread or, where the
    instruction is convergent, of the warp; None where an operand says how many), `synchronizes` (the threads of `scope`
    meet), `orders` (memory accesses, for `scope`), `commits` or `waits` (for the copies of `completion`), `arrives` (at
    a barrier in shared memory, which is then waited for; such a wait orders nothing while its predicate is false).
    `order` is PTX's: `weak`, `volatile`, `relaxed`, `acquire`, `release`, `acq_rel`, `sc`, or `constant` where nobody
    may write. `scope` is `warp`, `warpgroup`, `cta`, `cluster`, `gpu` or `sys`.
    `proxy` is `generic`, `async` or `tensormap`; `completion` is `at once`, `commit group`, `bulk group`, `wgmma
    group` or `mbarrier`.
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
    """One instruction. `arch` is the least sm number; with `feature` "a" it exists on that very target only.

    `ptx` is the least PTX version as (major, minor). `section` is the anchor in
    https://docs.nvidia.com/cuda/parallel-thread-execution/. `meaning` is Python: over the whole tiles of
    operands with a fragment, over the values of one lane otherwise, `a[i]` that of lane i, `mask` a set of lanes.
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
        """The operand of that name; KeyError without one."""
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
        """The least target, as `.target` spells it: `sm_80`, `sm_100a`."""
        return f"sm_{self.arch}{self.feature}"

    def available(self, arch: str, ptx: tuple[int, int] | None = None) -> bool:
        """Whether target `arch` (`sm_86`, `sm_100a`) has it, in PTX version `ptx` where one is given."""
        if ptx is not None and ptx < self.ptx:
            return False
        if self.feature:
            return arch == self.target
        return int(arch.removeprefix("sm_").rstrip("af")) >= self.arch

    def filled(self, **places: str) -> Instruction:
        """The same with these texts in some of its places, whose operands are gone."""
        asm = _PLACE.sub(lambda match: places.get(match[1], match[0]), self.asm)
        return replace(self, asm=asm, operands=tuple(o for o in self.operands if o.name not in places))

    def llvm(self) -> tuple[str, str]:
        """The text and the constraint string of an LLVM inline-asm call.

        Results are the registers of `outputs`, arguments those of `inputs`, each operand's registers in order. An
        `inout` operand is a result and an argument tied to it. Anything that touches or orders memory clobbers
        `~{memory}`. The caller marks the call `convergent` where the instruction is.
        """
        places: dict[str, str] = {}
        constraints: list[str] = []
        number = 0
        for operand in self.outputs:
            places[operand.name] = _places(operand, number)
            constraints += ["=" + _LLVM[operand.type][0]] * operand.registers
            number += operand.registers
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
        text = _PLACE.sub(lambda match: places[match[1]], self.asm.replace("$", "$$"))
        return text, ",".join(constraints)


def _places(operand: Operand, first: int) -> str:
    """`$3`, or `{$3, $4}` for a vector."""
    if operand.count is None:
        return f"${first}"
    return "{" + ", ".join(f"${first + i}" for i in range(operand.count)) + "}"


def joined(name: str, operands: Iterable[Operand], steps: Iterable[str | Instruction]) -> Instruction:
    """Several instructions as one, and text between them, where nothing of the compiler's may come in between.

    Their places are those of `operands`: of the same name, the same registers. It exists where all of the instructions
    do, and does what each of them does; it says no meaning of its own.
    """
    steps = list(steps)
    rows = [step for step in steps if isinstance(step, Instruction)]
    return replace(
        max(rows, key=lambda row: (row.arch, row.feature)),
        name=name,
        asm=" ".join(step if isinstance(step, str) else step.asm for step in steps),
        operands=tuple(operands),
        convergent=any(row.convergent for row in rows),
        ptx=max(row.ptx for row in rows),
        effects=tuple(dict.fromkeys(effect for row in rows for effect in row.effects)),
        meaning="",
    )
