"""Selects the `mma` instructions for a matrix product, and computes the layouts that they require.

Each entry of `dsl/ptx_templates/mma_sync.toml` describes an instruction's fragments: linear maps over F2 from (element,
lane) to (row, column). A tile consists of many fragments, in several registers and warps.
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import prod

from msgspec import Struct
from msgspec.structs import astuple, replace

from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import DTYPES, OPERAND_TYPES, DType, TileType
from dsl.lowering.layouts.layout import Layout, LayoutError, apply, bits_of
from dsl.ptx_templates import Instruction, family

MODIFIERS = ("satfinite", "xor.popc", "and.popc")
OPERANDS = DTYPES | OPERAND_TYPES
NEAR = ("m", "k", "n", "mk", "mn", "kn", "mkn")
"""The values of `Mma.near`, besides ""."""


class Mma(Struct, frozen=True):
    """An instruction of `mma_sync.toml`: d[m, n] = a[m, k] @ b[k, n] + c, with the element types of a, b and c.

    `near`: the axes among `m`, `n` and `k` along which an operand's bytes are neighbours in memory, if bytes are
        converted to the 16-bit elements of the instruction. `product` then gives a thread neighbours along these axes.
    """

    name: str
    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    modifier: str
    near: str = ""

    @property
    def shape(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def written(self) -> str:
        """The shape and the modifier as written in a schedule, such as m16n8k32.satfinite."""
        return ".".join(filter(None, (self.shape, self.modifier)))

    @property
    def row(self) -> Instruction:
        return family("mma_sync")[self.name]

    @property
    def takes_bytes(self) -> bool:
        """Whether operands that are converted from bytes can have neighbours in a thread: four elements of a row of a,
        or a column of b, that have two registers. A register has two of 16 bits."""
        fragment = self.row["b"].fragment
        return (
            fragment is not None
            and OPERANDS[self.b].bits == 16
            and sum(1 for base in fragment.register if base[0]) == 2
        )


@cache
def instructions() -> tuple[Mma, ...]:
    """Returns all instructions of `mma_sync.toml`, the largest first."""
    rows = family("mma_sync")
    # `fitting` keeps this order, and without a schedule the compiler uses the first result of `fitting`. A smaller
    # shape needs more instructions for the same product.
    return tuple(sorted((Mma(name, *astuple(rows.product(name))) for name in rows), key=lambda i: -i.m * i.n * i.k))


@cache
def shapes() -> tuple[str, ...]:
    """Returns the shapes of all instructions, with their modifiers: m16n8k16, m16n8k32.satfinite, …"""
    return tuple(dict.fromkeys(i.written for i in instructions()))


def accumulators(a: DType, b: DType) -> list[str]:
    """Returns the accumulator types for products of `a` and `b`, or an empty list if no instruction multiplies these
    types."""
    return list(dict.fromkeys(i.c for i in instructions() if (i.a, i.b) == (a.name, b.name)))


def fitting(
    target: Target, a: TileType, b: TileType, c: TileType, shape: str | None, modifier: str, loc: Loc | None
) -> list[Mma]:
    """Returns the instructions that can compute c[M, N] + a[M, K] @ b[K, N], the largest first. If `shape` is not None,
    considers only instructions of this shape.

    Raises TileError `type` if no instruction has these types, `target` if only other targets have one, and `shape` if
    the product is smaller than every such instruction.
    """

    types = (a.dtype.name, b.dtype.name, c.dtype.name)
    found = _of_modifier(_of_types(a.dtype, b.dtype, types, loc), modifier, types, loc)
    if shape is not None:
        known = list(dict.fromkeys(i.shape for i in found))
        found = [i for i in found if i.shape == shape]
        if not found:
            message = f"no instruction {shape} multiplies {types[0]} and {types[1]} into {types[2]}"
            raise TileError("type", loc, message, "shapes: " + ", ".join(known))
    there = [i for i in found if i.row.available(target.arch)]
    if not there:
        least = min(found, key=lambda i: i.row.arch).row.target
        what = f"mma.sync.{shape} of {types[0]}" if shape else f"tensor-core product of {types[0]} and {types[1]}"
        raise TileError("target", loc, f"{target.arch} has no {what}: it needs {least}")
    m, n, k = *c.shape[-2:], a.shape[-1]
    small = [i for i in there if i.m <= m and i.n <= n and i.k <= k]
    if small:
        return small
    least_one = min(there, key=lambda i: i.m * i.n * i.k)
    message = f"a product of {m} x {k} and {k} x {n} is smaller than mma.sync.{least_one.shape}"
    hint = f"tiles of at least {least_one.m} rows, {least_one.n} columns and {least_one.k} products a sum"
    raise TileError("shape", loc, message, hint)


def _of_types(a: DType, b: DType, types: tuple[str, str, str], loc: Loc | None) -> list[Mma]:
    """Returns the instructions with these types of operands and accumulator. Raises TileError `type` if there are
    none."""
    found = [i for i in instructions() if (i.a, i.b, i.c) == types]
    if found:
        return found
    known = accumulators(a, b)
    if known:
        hint = "start it with zeros(" + " or ".join(f"{t}[…]" for t in known) + ")"
        raise TileError("type", loc, f"no tensor core adds products of {types[0]} and {types[1]} to {types[2]}", hint)
    raise TileError("type", loc, f"no tensor core multiplies {types[0]} and {types[1]}", type_hint(a, b))


def _of_modifier(typed: list[Mma], modifier: str, types: tuple[str, str, str], loc: Loc | None) -> list[Mma]:
    """Returns the instructions in `typed` with this modifier. Raises TileError `type` if there are none. Products of b1
    always need a modifier."""
    found = [i for i in typed if i.modifier == modifier]
    if found:
        return found
    words = list(dict.fromkeys(i.modifier for i in typed if i.modifier))
    if not modifier:
        names = " or ".join(f"mma.sync.{typed[0].shape}.{word}" for word in words)
        raise TileError("type", loc, "which product of bits is meant, and their sum?", f"name it: {names}")
    hint = f"known: {', '.join(words)}" if words else None
    raise TileError("type", loc, f"'{modifier}' does not go with {types[0]} and {types[1]}", hint)


def type_hint(a: DType, b: DType) -> str:
    if "f32" in (a.name, b.name):
        return "convert f32 with .to(tf32), .to(f16) or .to(bf16)"
    if {a.bits, b.bits} == {8} or {a.bits, b.bits} == {4}:
        return "s8 with u8, s4 with u4 and e4m3 with e5m2 go together; others are converted first"
    return "types: f16, bf16, f64, s8, u8, and with bitcast tf32, e4m3, e5m2, s4, u4, b1"


# ---- layouts --------------------------------------------------------------------------------------------------


class Product(Struct, frozen=True):
    """The distribution of a product over threads: the layouts of its tiles, and the offsets of the instructions that
    compute it.

    `rows`, `columns`: pairs (row or column of the instruction, row or column of the tile). The row or column of the
        instruction is a power of two.
    `m_repeats`, `n_repeats`: the offsets of further instructions along M and N, one offset for each register bit.
    `batch`: the offsets of further products along the batch axis, one for each of the operands' last register bits.
    """

    instruction: Mma
    c: Layout
    a: Layout
    b: Layout
    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    m_repeats: tuple[int, ...]
    n_repeats: tuple[int, ...]
    batch: tuple[int, ...] = ()

    @property
    def loaded(self) -> tuple[Layout, Layout]:
        """The layouts in which a and b are loaded: with registers in the order that suits bytes (`Mma.near`). An
        instruction takes two registers of neighbours along k, between which those of a have other rows."""
        if not {"m", "k"} & {*self.instruction.near}:
            return self.a, self.b
        k = len(self.a.shape) - 1
        return _first_along(self.a, k), _first_along(self.b, k - 1)


def accumulator(
    instruction: Mma, shape: tuple[int, ...], warps: tuple[int, ...], contiguous: tuple[int, int] = (1, 1)
) -> Layout:
    """Returns the layout of an accumulator [M, N], or [B, M, N] with a batch axis. `warps` contains the number of warps
    along each axis.

    Each warp has one contiguous part of the tile. Each thread has at least `contiguous` adjacent elements along M and
    N. Raises LayoutError if the tile is too small for `warps` or `contiguous`.

    >>> m16n8k16 = next(i for i in instructions() if i.shape == "m16n8k16")
    >>> accumulator(m16n8k16, (16, 16), (1, 2)).places
    (('register', (1, 128)), ('lane', (2, 4, 16, 32, 64)), ('warp', (8,)))
    """
    if len(shape) == 3:
        return _batch_of(shape, warps[0], accumulator(instruction, shape[1:], warps[1:], contiguous))
    fragment = instruction.row["c"].fragment
    assert fragment is not None
    strides = (shape[1], 1)
    # For each axis, maps a power of two in the instruction to the corresponding power of two in the tile.
    moved: list[dict[int, int]] = [{}, {}]
    first: list[int] = []  # the register bits of contiguous neighbours
    repeats: list[list[int]] = [[], []]
    warp: list[list[int]] = [[], []]
    # Columns come before rows, so the lowest register bits select elements of a row. These are adjacent in memory, so
    # one instruction stores them. Storing 16 bytes per thread instead of 4 saves 4 % of the time of an f16 product of
    # 4096 (docs/tensor_cores.md).
    for axis in (1, 0):
        own = [max(base) for base in fragment.register if base[axis]]
        lanes = [max(base) for base in fragment.lane if base[axis]]
        left = bits_of(shape[axis]) - len(own) - len(lanes) - bits_of(warps[axis])
        if left < 0:
            extent = (instruction.m, instruction.n)[axis]
            needs = f"{warps[axis] * extent} {('rows', 'columns')[axis]}; the tile has {shape[axis]}"
            raise LayoutError(f"{warps[axis]} warps of {instruction.shape} need {needs}")
        near = bits_of(contiguous[axis])
        if near > len(own) + left:
            held = f"{1 << len(own) + left} elements along axis {axis}"
            raise LayoutError(f"a thread holds {held}; not {contiguous[axis]}")
        free = iter(1 << bit for bit in range(bits_of(shape[axis])))
        if near:
            neighbours = [next(free) for _ in range(near)]
            first += [strides[axis] * bit for bit in neighbours]
            moved[axis] = dict(zip(own, neighbours, strict=False))
            repeats[axis] = neighbours[len(own) :]
        for power in sorted(own + lanes):
            if power not in moved[axis]:
                moved[axis][power] = next(free)
        repeats[axis] += [next(free) for _ in range(left - len(repeats[axis]))]
        warp[axis] = [strides[axis] * bit for bit in free]

    def tile(base: tuple[int, int]) -> int:
        return sum(moved[axis][power] * strides[axis] for axis, power in enumerate(base) if power)

    register = first + [tile(base) for base in fragment.register if tile(base) not in first]
    # Each bit of the tile must be exactly one register bit. So bits that are already in `register`, because of
    # `contiguous`, are skipped.
    for axis in (1, 0):
        register += [strides[axis] * bit for bit in repeats[axis] if strides[axis] * bit not in register]
    return Layout.registers(shape, register, [tile(base) for base in fragment.lane], warp[1] + warp[0])


def _batch_of(shape: tuple[int, ...], warps: int, one: Layout) -> Layout:
    """Extends the layout of one accumulator to a batch of them. `warps` warps along the batch axis have a contiguous
    part of the batch each, in their last registers."""
    batch = [prod(one.shape) << bit for bit in range(bits_of(shape[0]))]
    held = len(batch) - bits_of(warps)
    if held < 0:
        raise LayoutError(f"{warps} warps lie along a batch of {shape[0]} products")
    return Layout.registers(shape, [*one.register, *batch[:held]], one.lane, [*one.warp, *batch[held:]])


def _product_of_batch(instruction: Mma, c: Layout, k: int) -> Product | None:
    """Like `product`, for an accumulator [B, M, N]. The batch axis may lie in registers and warps, but not in lanes: an
    instruction multiplies two matrices."""
    size = prod(c.shape[1:])
    if any(b > size and b % size for b in c.flat) or any(b >= size for b in c.lane):
        return None
    inner = [b for b in c.register if b < size]
    one = product(instruction, Layout.registers(c.shape[1:], inner, c.lane, [b if b < size else 0 for b in c.warp]), k)
    batch = tuple(b // size for b in c.register if b >= size)

    def lifted(layout: Layout) -> Layout:
        step = prod(layout.shape)
        warp = [b // size * step if b >= size else own for b, own in zip(c.warp, layout.warp, strict=True)]
        register = (*layout.register, *(b * step for b in batch))
        return Layout.registers((c.shape[0], *layout.shape), register, layout.lane, warp)

    return None if one is None else replace(one, c=c, a=lifted(one.a), b=lifted(one.b), batch=batch)


@lru_cache(maxsize=256)
def product(instruction: Mma, c: Layout, k: int) -> Product | None:
    """Derives the layouts of a product's operands from the layout `c` of its accumulator and the extent `k` of the sum.

    Returns None if `c` does not consist of the instruction's fragments.
    """
    if len(c.shape) == 3:
        return _product_of_batch(instruction, c, k)
    height, width = c.shape
    fragments = [instruction.row[name].fragment for name in "cab"]
    of_c, of_a, of_b = fragments
    assert of_c is not None and of_a is not None and of_b is not None
    moved: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for base, basis in zip(of_c.lane, c.lane, strict=True):
        axis = 0 if base[0] else 1
        coordinate = divmod(basis, width)
        if not coordinate[axis] or coordinate[1 - axis]:
            return None
        moved[axis][max(base)] = coordinate[axis]
    free = ([b // width for b in c.register if not b % width], [b for b in c.register if b < width])
    if len(free[0]) + len(free[1]) != len(c.register):
        return None
    depth = _order_of_depth(instruction)
    # Any free bit of the accumulator could be the register bit of the fragment. The lowest free bit keeps adjacent
    # elements in one word. For products of bytes, the bit below the lane bits is better, because `ldmatrix` can then
    # transpose pairs.
    pairs = (OPERANDS[instruction.a].bits, OPERANDS[instruction.c].bits) == (8, 32) or "n" in instruction.near
    for base in of_c.register:
        axis = 0 if base[0] else 1
        if not free[axis]:
            return None
        nearest = min(free[axis])
        below = min(moved[axis].values(), default=0) >> 1
        if pairs and below in free[axis]:
            nearest = below
        free[axis].remove(nearest)
        moved[axis][max(base)] = nearest
    steps = [instruction.k << i for i in range(bits_of(k // instruction.k))]
    rows, columns = moved

    def of_left(base: tuple[int, int]) -> int:
        return rows.get(base[0], 0) * k + depth.get(base[1], 0)

    def of_right(base: tuple[int, int]) -> int:
        return depth.get(base[0], 0) * width + columns.get(base[1], 0)

    a = Layout.registers(
        (height, k),
        [*map(of_left, of_a.register), *(r * k for r in free[0]), *steps],
        map(of_left, of_a.lane),
        [b // width * k for b in c.warp],
    )
    b = Layout.registers(
        (k, width),
        [*map(of_right, of_b.register), *free[1], *(s * width for s in steps)],
        map(of_right, of_b.lane),
        [b % width for b in c.warp],
    )
    return Product(instruction, c, a, b, tuple(rows.items()), tuple(columns.items()), tuple(free[0]), tuple(free[1]))


def _order_of_depth(instruction: Mma) -> dict[int, int]:
    """Maps each power of two along the instruction's K to the one of the tile. The order is free, as long as both
    operands have the same. If bytes are neighbours along K, a thread gets those of its registers as neighbours:
    `ldmatrix` moves four bytes at a time."""
    fragment = instruction.row["b"].fragment
    assert fragment is not None
    powers = [base[0] for base in (*fragment.register, *fragment.lane) if base[0]]
    return {power: 1 << i if "k" in instruction.near else power for i, power in enumerate(powers)}


def _first_along(layout: Layout, axis: int) -> Layout:
    """Returns the layout with the first two register bits along `axis` as the first ones of all."""
    first = [b for b in layout.register if b & layout.axis_mask(axis)][:2]
    rest = [b for b in layout.register if b not in first]
    return Layout.registers(layout.shape, [*first, *rest], layout.lane, layout.warp)


def accumulator_registers(p: Product, number: int = 0) -> list[list[list[int]]]:
    """Returns the accumulator registers of each instruction: `result[i][j]` for instruction i along M and j along N.
    The registers are in the order of the fragment. `number` counts the products of a batch that a thread has."""
    fragment = p.instruction.row["c"].fragment
    assert fragment is not None
    width = p.c.shape[-1]
    first = apply(p.batch, number) * prod(p.c.shape[-2:])
    register_at = {offset: r for r, offset in enumerate(p.c.offsets)}
    rows, columns = dict(p.rows), dict(p.columns)
    bases = [rows.get(base[0], 0) * width + columns.get(base[1], 0) for base in fragment.register]
    inside = [apply(bases, e) for e in range(1 << len(bases))]
    return [
        [
            [register_at[first ^ offset ^ apply(p.m_repeats, i) * width ^ apply(p.n_repeats, j)] for offset in inside]
            for j in range(1 << len(p.n_repeats))
        ]
        for i in range(1 << len(p.m_repeats))
    ]


def splits_of_warps(instruction: Mma, shape: tuple[int, ...], warps: int) -> dict[tuple[int, ...], int]:
    """Maps each possible pair (warps along M, warps along N) to its cost: the number of rows plus the number of columns
    that a warp reads. With a batch axis, the warps along it come first. If the tile is too small for all warps, the
    pairs use fewer warps."""
    splits: dict[tuple[int, ...], int] = {}
    batch = prod(shape[:-2])
    while not splits:
        ways = [(1 << i, 1 << j) for i in range(bits_of(min(batch, warps)) + 1) for j in range(bits_of(warps >> i) + 1)]
        for apart, along_m in ways:
            along_n = warps // apart // along_m
            part = (shape[-2] // along_m, shape[-1] // along_n)
            if part[0] >= instruction.m and part[1] >= instruction.n:
                # The cost is rows plus columns, not rows times columns. All pairs need the same number of
                # multiplications, but `ldmatrix` reads more or fewer operands. These reads take 5 % of a product's time
                # (docs/tensor_cores.md, "What bounds a product").
                splits[(apart, along_m, along_n)[-len(shape) :]] = batch // apart * sum(part)
        # A tile may be too small for all warps: a 16 x 8 tile on 8 warps is legal, and `replicated` gives the other
        # warps the same elements.
        warps //= 2
    return splits


def replicated(layout: Layout, warps: int) -> Layout:
    """Extends a layout to more warps. The additional warps have the same elements as the original warps."""
    more = (0,) * (bits_of(warps) - len(layout.warp))
    return Layout.registers(layout.shape, layout.register, layout.lane, (*layout.warp, *more)) if more else layout
