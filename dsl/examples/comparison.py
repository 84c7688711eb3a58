"""Compares an array with the wanted array. Reports how much they differ, where, and in which pattern of rows and
columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np


NOTHING_COMPARED = "all are NaN on both sides, so that nothing was compared"


class Comparison(Struct):
    """The result of `compare`.

    `max_error` is the greatest |actual - wanted|. If some elements are wrong, `max_error` is taken over the wrong
    elements only. The error is inf where only one side has a NaN or an infinity. `tolerance` is the allowed error at
    the element with `max_error`. `first` is the index of the first wrong element in row-major order, and `actual` and
    `wanted` are its values. `first`, `actual` and `wanted` are None if nothing is wrong. `pattern` describes where the
    wrong elements are. If all elements are NaN on both sides, nothing was compared, and the comparison fails."""

    passed: bool
    max_error: float
    tolerance: float
    wrong: int
    size: int
    first: list[int] | None = None
    actual: float | int | bool | None = None
    wanted: float | int | bool | None = None
    pattern: str = ""


def compare(actual: Any, wanted: Any, bound: float, relative: float = 0.0) -> Comparison:
    """Compares element by element: |actual - wanted| <= bound + relative * |wanted|.

    NaN equals NaN, unless all elements are NaN. An infinity equals the same infinity. `wanted` may be a number. If
    `wanted` is an array, both arrays must have the same shape. Raises ValueError if the shapes differ. Accepts arrays
    of all element types, including bf16.
    """
    import numpy as np

    from dsl.values.element_types import CHUNK, widen

    actual = np.asarray(actual)
    target = np.asarray(wanted)
    if target.shape != actual.shape:
        if target.shape:
            raise ValueError(f"the shapes {actual.shape} and {target.shape} differ")
        target = np.broadcast_to(target, actual.shape)
    flat, goal = actual.reshape(-1), target.reshape(-1)
    mask = np.zeros(flat.shape, bool)
    worst, tolerance, nans, failed = 0.0, float(bound), 0, False
    # Works on chunks, because all elements of an f16 array in float64 would need four times the memory.
    for start in range(0, flat.size, CHUNK):
        part = slice(start, min(start + CHUNK, flat.size))
        a, w = widen(flat[part]), widen(goal[part])
        error = _error(a, w)
        nans += int(((a != a) & (w != w)).sum())
        with np.errstate(invalid="ignore", over="ignore"):
            allowed = (
                np.full(a.shape, float(bound)) if not relative else bound + relative * np.abs(w.astype(np.float64))
            )
        # A wanted infinity would allow any error.
        allowed = np.where(np.isfinite(allowed), allowed, bound)
        mask[part] = error > allowed
        # After the first wrong element, only wrong elements count. A correct element with a large relative bound may
        # have a greater error. Without this rule, a result that failed by 0.2 where 0.01 is allowed would report "max
        # error 0.5, allowed 1".
        if mask[part].any() and not failed:
            failed, worst = True, 0.0
        at = int(np.where(mask[part], error, 0.0).argmax() if failed else error.argmax())
        if error[at] > worst and (mask[part][at] or not failed):
            worst, tolerance = float(error[at]), float(allowed[at])
    wrong = int(mask.sum())
    # If all elements are NaN on both sides, as from 0 / 0, the comparison would pass without comparing a number.
    if nans and nans == flat.size:
        nan, first = float("nan"), [0] * actual.ndim
        return Comparison(False, 0.0, tolerance, flat.size, flat.size, first, nan, nan, NOTHING_COMPARED)
    if not wrong:
        return Comparison(True, worst, tolerance, 0, flat.size)
    place = int(mask.argmax())
    return Comparison(
        False,
        worst,
        tolerance,
        wrong,
        flat.size,
        [int(i) for i in np.unravel_index(place, actual.shape)],
        widen(flat[place : place + 1]).item(),
        widen(goal[place : place + 1]).item(),
        describe_pattern(mask.reshape(actual.shape)),
    )


def agree(actual: Any, wanted: Any, bound: float, relative: float = 0.0) -> bool:
    """Returns whether `compare` accepts arrays of the same shape."""
    return compare(actual, wanted, bound, relative).passed


def _error(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Returns |a - w| in float64, also for 64-bit integers. It is inf where only one side is NaN or an infinity."""
    import numpy as np

    if a.dtype.kind in "biu" and w.dtype.kind in "biu":
        # The greater of two 64-bit integers minus the smaller is exact modulo 2^64. The difference is below 2^64,
        # except between a negative number and a number that needs uint64. For this exception float64 is precise enough,
        # because the numbers certainly differ.
        bits = [x.astype(np.int64).view(np.uint64) if x.dtype.kind != "u" else x for x in (a, w)]
        apart = np.where(a > w, bits[0] - bits[1], bits[1] - bits[0]).astype(np.float64)
        if a.dtype != w.dtype and "u" in (a.dtype.kind, w.dtype.kind):
            far = np.abs(a.astype(np.float64) - w.astype(np.float64))
            apart = np.where((a < 0) | (w < 0), far, apart)
        return apart
    x, y = a.astype(np.float64), w.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(x - y)
    # inf - inf is NaN, and equal infinities are equal.
    error[(x == y) | (np.isnan(x) & np.isnan(y))] = 0.0
    error[np.isnan(error)] = np.inf
    return error


def describe_pattern(mask: np.ndarray) -> str:
    """Describes in words where the true elements of a mask are. An axis is left out if true elements occur at all of
    its indices.

    >>> import numpy as np
    >>> describe_pattern(np.arange(32)[None, :] % np.full((4, 1), 8) == 3)
    'every 8th column from 3'
    """
    import numpy as np

    count = int(np.count_nonzero(mask))
    if count == 0:
        return "none"
    if count == mask.size:
        return "every element" if mask.size > 1 else "the only element"
    if count == 1:
        return "one element"
    parts, box = [], 1
    for axis in range(mask.ndim):
        others = tuple(i for i in range(mask.ndim) if i != axis)
        hit = np.flatnonzero(mask.any(axis=others)) if others else np.flatnonzero(mask)
        box *= len(hit)
        text = _along(hit.tolist(), mask.shape[axis], _axis_name(axis, mask.ndim))
        if text:
            parts.append(text)
    if not parts:
        return "scattered over all rows and columns" if mask.ndim == 2 else "scattered"
    # Where a row with wrong elements crosses a column with wrong elements, the element may still be correct.
    return ("" if box == count else "some elements of ") + ", ".join(parts)


def _axis_name(axis: int, rank: int) -> str:
    if rank == 1:
        return "element"
    return {rank - 1: "column", rank - 2: "row"}.get(axis, f"axis-{axis} index")


def _plural(name: str) -> str:
    return "axis-" + name[5:-5] + "indices" if name.endswith("index") else name + "s"


def _along(hit: list[int], extent: int, name: str) -> str | None:
    """Describes the indices `hit` of an axis in words. Returns None if `hit` contains all indices, or if they follow no
    known pattern."""
    first, last, many = hit[0], hit[-1], _plural(name)
    if len(hit) == extent:
        return None
    if len(hit) == 1:
        return f"only the last {name} ({first})" if last == extent - 1 and extent > 2 else f"{name} {first}"
    if last - first == len(hit) - 1:
        if last == extent - 1:
            return f"only the last {len(hit)} {many}"
        return f"only the first {len(hit)} {many}" if first == 0 else f"{many} {first}…{last}"
    step = hit[1] - hit[0]
    if len(hit) > 2 and hit == list(range(first, last + 1, step)):
        to = "" if last + step >= extent else f" to {last}"
        return f"every {_ordinal(step)} {name} from {first}{to}"
    period = 2
    chosen = set(hit)
    # Tries powers of two, because the wrong lanes, warps and registers of a layout repeat with such periods.
    while period * 2 <= extent:
        residues = sorted({i % period for i in hit})
        if len(residues) < period and all((i in chosen) == (i % period in residues) for i in range(extent)):
            if residues[-1] - residues[0] == len(residues) - 1:
                return f"{many} {residues[0]}…{residues[-1]} of every {period}"
            return f"{many} {', '.join(map(str, residues[:8]))}{', …' if len(residues) > 8 else ''} of every {period}"
        period *= 2
    if len(hit) <= 6:
        return f"{many} {', '.join(map(str, hit))}"
    return f"{len(hit)} {many} from {first} to {last}" if len(hit) * 2 <= extent else None


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"
