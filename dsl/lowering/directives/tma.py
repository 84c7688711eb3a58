"""Checks which tile loads and stores can be TMA boxes. One instruction copies a box to or from shared memory (PTX ISA,
"Tensors")."""

from __future__ import annotations

from math import prod

from dsl.lowering.building.single import flaw_of_elements
from dsl.lowering.hopper.boxes import ATOM, BOX_ALIGN, LEAST_ARCH, MOST_OF_BOX, CopiedBox, box_fault
from dsl.lowering.ir.function import Function, Op, Value
from dsl.lowering.ir.targets import Target
from dsl.lowering.known.facts import Analysis
from dsl.lowering.ops.memory import moved_by
from dsl.lowering.shared.access_width import MAX_BYTES, neighbours, offset_of
from dsl.lowering.shared.atoms import MOST_OF_ROW
from dsl.lowering.shared.shared_map import Swizzle, row_swizzle

TMA = "tma"
WHAT_IS_A_BOX = (
    "a box is made of slices and scalars; a table may say where eight rows or more begin that follow each other, "
    "a[t[i // 8], i % 8]; single rows that an index tile chooses are copied by threads, 'stage NAME: shared'; image, "
    "row and column must be digits of a pixel's number, 'specialize h, w, p, q'"
)
WHAT_IS_A_MASK = (
    "a mask of comparisons that excludes rows, or the ends of rows: j + arange(64)[:, None] < n; threads leave out "
    "other elements, 'stage NAME: shared'"
)
ROWS_OF_A_MAP = f"rows at multiples of {MAX_BYTES} bytes"
LEAST_ROW = 64
"""By default, TMA copies only boxes with at least this many bytes in a row. In int8 convolutions with rows of 32 bytes
(256 images, H200), TMA takes 1.3 to 2.1 times as long as `cp.async`."""
LEAST_RUN = 32
"""The number of bytes that one step of an MMA reads from a row.

A copy needs one pass over shared memory for each line of 128 bytes that it writes. If each row of the tile has 32
bytes, as with channels in blocks of 32, four rows fill one line. If runs of 32 bytes are parts of longer rows, four
runs may be in four different lines and need four passes.
"""


def swizzle_of_box(rows: int, width: int) -> Swizzle:
    """Returns the swizzle of a shared tile for boxes with `rows` rows of `width` bytes. Hardware swizzles depend on the
    address, and repeat after eight rows. If `rows` is not a multiple of eight, stages would start at different
    positions of the pattern, so the tile has no swizzle."""
    return row_swizzle(width) if rows % ATOM == 0 else ()


def flaw_of_box(function: Function, target: Target, facts: Analysis, op: Op) -> tuple[str, str] | None:
    """Checks whether the load or store `op` can be a TMA box. Returns None if it can, otherwise the reason why not and
    a hint."""
    shape, size = moved_by(op).tile.shape, op.operands[0].dtype.bytes
    if target.number < LEAST_ARCH:
        return f"{target.arch} has no TMA", f"sm_{LEAST_ARCH}"
    if "box" not in op.attrs:
        return op.attrs.get("no_box", "it is no access of a tile"), WHAT_IS_A_BOX
    if op.attrs.get("cache") is not None:
        return "TMA has no cache operator", "leave out cache="
    rows, runs = neighbours(facts, op, "falls") * size, facts.of(offset_of(op)).run
    if rows != MAX_BYTES:
        if neighbours(facts, op, None) * size == MAX_BYTES:
            return f"its mask excludes elements within {MAX_BYTES} bytes of a row", WHAT_IS_A_MASK
        known = f"{rows} bytes of its rows are known to be aligned neighbours"
        return known, _aligned_rows(function, op.operands[0])
    box, last = CopiedBox.of(op), runs.index(max(runs))
    for axis in sorted(each.axis for each in box.axes if each.along != last or each.step > 1):
        wrong = _flaw_of_stride(function, facts, op.operands[0], axis)
        if wrong is not None:
            return wrong
    if box.walks and box.axes[0].along != last:
        return "the channels of its pixels are no neighbours in memory", WHAT_IS_A_BOX
    # A row must have at least 32 bytes. Then the shared tile has a swizzle, and so starts at a multiple of 128 bytes,
    # as TMA requires.
    inner = shape[last]
    message = f"a box of {list(shape)} elements of {size} bytes"
    if min(inner, max(runs)) * size < LEAST_RUN or any(
        extent > MOST_OF_BOX for axis, extent in enumerate(shape) if runs[axis] == 1
    ):
        return message, f"at most {MOST_OF_BOX} rows of {LEAST_RUN} bytes or more"
    apart = _flaw_of_rows(box, shape, last)
    if apart is not None:
        return apart, WHAT_IS_A_BOX
    rows = prod(shape) // inner
    if rows * boxed(inner, rows, max(runs), size) * size % BOX_ALIGN:
        return message, f"boxes of multiples of {BOX_ALIGN} bytes, as all begin at such places of shared memory"
    return box_fault(facts, box)


def _flaw_of_rows(box: CopiedBox, shape: tuple[int, ...], last: int) -> str | None:
    """Checks whether each of several boxes below each other is one part of its shared tile, and whether the place of
    each can be computed. Returns None if so, otherwise the reason why not. The axis `last` is contiguous in memory."""
    if box.rows is None:
        return None
    along, _ = box.rows
    if along == last or prod(shape[axis] for axis in range(along) if axis != last) > 1:
        return "the rows that follow each other do not in its shared tile"
    mixed = next(filter(None, (flaw_of_elements(axis.first) for axis in box.axes)), None)
    return f"where its boxes begin is computed by '{mixed}'" if mixed else None


def _aligned_rows(function: Function, tensor: Value) -> str:
    """Returns the hint for a tensor whose rows are not known to be aligned. If a multiple of the last dim would help,
    the hint names the dim and the multiple."""
    (parameter,) = [p for p in function.params if p.value is tensor]
    dim, least = parameter.dims[-1] if parameter.dims else 1, MAX_BYTES // tensor.dtype.bytes
    if parameter.strides or isinstance(dim, int) or function.divisors.get(dim, 1) % least == 0:
        return ROWS_OF_A_MAP
    return f"{ROWS_OF_A_MAP}, '{dim}' a multiple of {least}; or 'stage {tensor.name}: shared', for rows of any length"


def _flaw_of_stride(function: Function, facts: Analysis, tensor: Value, axis: int) -> tuple[str, str] | None:
    """Checks whether a TMA tensor map can represent the tensor's stride along `axis`. Returns None if it can, otherwise
    the reason why not and a hint."""
    (parameter,) = [p for p in function.params if p.value is tensor]
    if not parameter.strides:
        known = prod(d if isinstance(d, int) else function.divisors.get(d, 1) for d in parameter.dims[axis + 1 :])
    else:
        stride = parameter.strides[axis]
        known = facts.divisor(stride)
        if facts.of(stride).low is None:  # the sign is known in each variant
            return f"its stride along axis {axis} is negative, which no tensor map has", "a contiguous copy of it"
    if known * tensor.dtype.bytes % MAX_BYTES:
        return f"its stride along axis {axis} is not known to be a multiple of {MAX_BYTES} bytes", ROWS_OF_A_MAP
    return None


def part_of_rows(function: Function, facts: Analysis, op: Op) -> str | None:
    """Checks whether the rows of a stored tensor end at multiples of 16 bytes, as TMA stores require. Returns None if
    they do, otherwise the reason why TMA cannot do the store.

    A TMA store writes whole units of 16 bytes, even past the end of the tensor's row. Example on an H100: a tensor is a
    view of 466 f16 columns, in rows of 512. A TMA store to this view overwrote 420 elements outside it. TMA loads stop
    at the end of a row.
    """
    tensor, box, runs = op.operands[0], CopiedBox.of(op), facts.of(offset_of(op)).run
    size = tensor.dtype.bytes
    inner = [axis.axis for axis in box.axes if axis.along == runs.index(max(runs)) and axis.step == 1]
    (dims,) = [p.dims for p in function.params if p.value is tensor]
    known = box.joined([d if isinstance(d, int) else function.divisors.get(d, 1) for d in dims])
    if inner and known[inner[0]] * size % MAX_BYTES == 0:
        return None
    why = f"TMA stores whole {MAX_BYTES} bytes, and its rows are not known to end at multiples of {MAX_BYTES} bytes"
    dim = dims[inner[0]] if inner else 0
    return f"{why}: '{dim}' is no known multiple of {MAX_BYTES // size}" if isinstance(dim, str) else why


def boxed(columns: int, rows: int, run: int, size: int) -> int:
    """Returns how many of a tile's `columns` columns one TMA copy transfers. `run` is the number of contiguous columns
    in global memory, and `size` is the number of bytes of an element."""
    # If `rows` is a multiple of eight, the tile is swizzled, and a copy transfers swizzle atoms of 128 bytes a row.
    # Other tiles have no swizzle.
    most = MOST_OF_ROW // size if rows % ATOM == 0 else MOST_OF_BOX
    return min(columns, most, *([run] if run * size >= LEAST_RUN else []))
