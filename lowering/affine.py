"""Element offsets as affine functions of a tile's coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.facts import linear
from lowering.fold import constant_of
from lowering.ir import Value
from lowering.types import TileType

Terms = tuple[tuple[int, int], ...]  # (identity of a scalar value, factor), sorted


@dataclass(frozen=True, slots=True)
class Affine:
    """Element offsets of a tile: Σ coefficient · coordinate + Σ terms + constant.

    `terms` are scalars that nothing resolves further.
    """

    coefficients: tuple[int, ...]
    terms: Terms
    constant: int


class AffineOffsets:
    """The offsets of one function's values, computed on demand. `scalars` are the values behind the terms."""

    def __init__(self) -> None:
        self.known: dict[Value, Affine | None] = {}
        self.scalars: dict[int, Value] = {}

    def of(self, value: Value) -> Affine | None:
        if value not in self.known:
            self.known[value] = self._compute(value)
        return self.known[value]

    def _compute(self, value: Value) -> Affine | None:
        """The offsets as an affine function of the coordinates, as far as the definition shows."""
        if not isinstance(value.type, TileType):
            return None
        shape = value.tile.shape
        if not shape:
            terms, constant = linear(value)
            self.scalars.update((id(v), v) for v in terms)
            return Affine((), tuple(sorted((id(v), k) for v, k in terms.items())), constant)
        op = value.op
        if op is None:
            return None
        if op.name == "arange":
            return Affine((1,), (), 0)
        if op.name == "constant":
            return Affine((0,) * len(shape), (), int(op.attrs["value"]))
        if op.name in ("broadcast", "reshape"):
            inner = self.of(op.operands[0])
            if inner is None:
                return None
            source = op.operands[0].tile.shape
            if not source:
                return replace(inner, coefficients=(0,) * len(shape))
            if op.name == "broadcast":
                kept = tuple(c if a == b else 0 for c, a, b in zip(inner.coefficients, source, shape, strict=True))
                return replace(inner, coefficients=kept)
            return reshaped(inner, source, shape)
        if op.name in ("add", "sub"):
            a, b = self.of(op.operands[0]), self.of(op.operands[1])
            if a is None or b is None:
                return None
            sign = 1 if op.name == "add" else -1
            merged = dict(a.terms)
            for key, factor in b.terms:
                merged[key] = merged.get(key, 0) + sign * factor
            return Affine(
                tuple(x + sign * y for x, y in zip(a.coefficients, b.coefficients, strict=True)),
                tuple(sorted((k, f) for k, f in merged.items() if f)),
                a.constant + sign * b.constant,
            )
        if op.name == "mul":
            for i in (0, 1):
                number = constant_of(op.operands[i])
                if number is not None:
                    inner = self.of(op.operands[1 - i])
                    if inner is None:
                        return None
                    k = int(number)
                    return Affine(
                        tuple(c * k for c in inner.coefficients),
                        tuple((v, f * k) for v, f in inner.terms),
                        inner.constant * k,
                    )
        if op.name == "convert_layout":
            return self.of(op.operands[0])
        return None


def apply_affine(affine: Affine, coordinates: tuple[int, ...]) -> int:
    return affine.constant + sum(c * x for c, x in zip(affine.coefficients, coordinates, strict=True))


def free_of_carries(affine: Affine, shape: tuple[int, ...]) -> bool:
    """True if the sum of the coordinates' parts is their XOR: no two coefficients reach the same bit."""
    taken = 0
    for coefficient, extent in zip(affine.coefficients, shape, strict=True):
        if coefficient < 0 or coefficient & (coefficient - 1):
            return False
        reached = coefficient * (extent - 1)
        if reached & taken:
            return False
        taken |= reached
    return True


def reshaped(affine: Affine, old: tuple[int, ...], new: tuple[int, ...]) -> Affine | None:
    """Coefficients under another shape: axes of extent 1 come and go; a row-major tile splits and joins freely."""
    if tuple(e for e in old if e > 1) == tuple(e for e in new if e > 1):
        kept = iter([c for c, e in zip(affine.coefficients, old, strict=True) if e > 1])
        return replace(affine, coefficients=tuple(next(kept) if e > 1 else 0 for e in new))
    step = 1
    expected: list[int] = []
    for extent in reversed(old):
        expected.insert(0, step)
        step *= extent
    unit = [c for c, e in zip(affine.coefficients, old, strict=True) if e > 1]
    want = [c for c, e in zip(expected, old, strict=True) if e > 1]
    if not unit:
        return replace(affine, coefficients=(0,) * len(new))
    scale = unit[-1]
    if unit != [w * scale // want[-1] for w in want] or scale % want[-1]:
        return None
    out: list[int] = []
    step = scale // want[-1]
    for extent in reversed(new):
        out.insert(0, step)
        step *= extent
    return replace(affine, coefficients=tuple(out))
