"""A thousand products of each row of mma.sync, on a device and by the row's formula: how far they are apart.

`python tests/ptx_templates/template_products.py` prints the table of docs/tensor_cores.md; it needs a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from template_kernel import LANES, SLOT, kernel
from template_machine_code import of_kind
from template_meaning import FLOATS, REGISTER_BYTES, vocabulary

from dsl.ptx_templates import Instruction, Operand, family
from dsl.runtime import Kernel

ROWS = tuple(family("mma_sync").values())
MATRICES = 1024
KINDS = ("small integers", "normal", "wide", "subnormal", "special", "cancelling", "extreme", "zeros")
"""What the operands of a product are made of, by the product's number modulo 8."""
FRACTION = {"f16": 10, "bf16": 7, "tf32": 10, "e4m3": 3, "e5m2": 2, "f32": 23, "f64": 52}
LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "f32": -126, "f64": -1022}
"""Bits of the fraction, and the exponent of the least normal number."""
LARGEST = {
    "f16": 65504.0,
    "bf16": 2.0**60,
    "tf32": 2.0**60,
    "e4m3": 448.0,
    "e5m2": 57344.0,
    "f32": 2.0**40,
    "f64": 2.0**500,
}
"""The largest operands: finite, with products whose sum is finite in an accumulator of f32 or f64."""
LARGEST_FOR_F16 = 32.0
"""The same for an accumulator of f16."""


@dataclass(frozen=True)
class Outcome:
    """Tiles [matrices, M, N]: what a device gave; what the formula gives; the largest |a b| or |c| of each sum, at
    least the least normal number of the sum's type."""

    found: np.ndarray
    exact: np.ndarray
    scale: np.ndarray

    @property
    def finite(self) -> np.ndarray:
        return np.isfinite(self.exact)

    def error(self, other: np.ndarray | None = None) -> float:
        """The largest |found - other| of finite sums, relative to the largest term; `other` is the formula's result."""
        exact = self.exact if other is None else other
        return float(np.max(np.abs(self.found[self.finite] - exact[self.finite]) / self.scale[self.finite]))

    @property
    def same_specials(self) -> bool:
        """True if NaN is NaN, and infinities are the same infinities, and finite sums are finite."""
        wrong = ~self.finite
        return np.array_equal(self.found[wrong], self.exact[wrong], equal_nan=True) and bool(
            np.isfinite(self.found[self.finite]).all()
        )


def floats(kind: str, element: str, total: str, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Operands of type `element` for sums of type `total`, as float64 that may still be rounded."""
    least, fraction = 2.0 ** LEAST[element], FRACTION[element]
    normal = rng.normal(size=shape)
    signs = rng.choice([-1.0, 1.0], size=shape)
    if kind == "small integers":
        return rng.integers(-4, 5, shape).astype(np.float64)
    if kind == "wide":
        return normal * 2.0 ** rng.integers(-6, 4, shape)
    if kind == "subnormal":
        tiny = signs * rng.integers(0, 1 << fraction, shape) * least * 2.0**-fraction
        return np.where(rng.integers(0, 2, shape), tiny, normal)
    if kind == "special":
        values = np.where(rng.integers(0, 16, shape), normal, 0.0 * signs)
        # e4m3 has no infinity
        rare = rng.choice([np.nan] if element == "e4m3" else [np.nan, np.inf, -np.inf], size=shape)
        return np.where(rng.integers(0, 150, shape), values, rare)
    if kind == "extreme":
        largest = min(LARGEST[element], LARGEST_FOR_F16 if total == "f16" else np.inf)
        return signs * np.where(rng.integers(0, 2, shape), largest, rng.choice([least, 1.0], size=shape))
    if kind == "zeros":
        return np.where(rng.integers(0, 8, shape), 0.0 * signs, normal)
    return normal


def integers(kind: str, element: str, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Integers of the type: all of its range, its ends alone, or small ones."""
    width = int(element[1:])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if element[0] == "s" else (0, (1 << width) - 1)
    if kind == "extreme":
        return rng.choice([low, high], size=shape)
    if kind == "zeros":
        return np.where(rng.integers(0, 8, shape), 0, rng.integers(low, high + 1, shape))
    if kind == "small integers":
        return rng.integers(max(low, -4), min(high, 4) + 1, shape)
    return rng.integers(low, high + 1, shape)


def element_of(operand: Operand) -> str:
    return operand.element or operand.type


def tiles(row: Instruction, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Operands a, b, c of MATRICES products, [MATRICES, rows, columns], as numbers that their types have."""
    total = element_of(row["c"])
    out = {}
    for name in "abc":
        operand = row[name]
        assert operand.fragment is not None
        element = element_of(operand)
        made = np.empty((MATRICES, *operand.fragment.shape), np.float64 if element in FLOATS else np.int64)
        for number, kind in enumerate(KINDS):
            part = made[number :: len(KINDS)]
            if element in FLOATS:
                part[...] = rounded(floats(kind, element, total, part.shape, rng), element)
            else:
                part[...] = integers(kind, element, part.shape, rng)
        out[name] = made
    if total in FLOATS:
        cancel = slice(KINDS.index("cancelling"), None, len(KINDS))
        out["c"][cancel] = rounded(-(out["a"][cancel] @ out["b"][cancel]), total)
        if total == "f16":
            out["c"][KINDS.index("extreme") :: len(KINDS)] = 1.0
    return out


def rounded(values: np.ndarray, element: str) -> np.ndarray:
    """To nearest even, as numbers of the type; tf32 toward zero."""
    with np.errstate(over="ignore"):
        if element == "tf32":
            return (
                (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
            )
        return values.astype(FLOATS[element]).astype(np.float64)


def places(operand: Operand) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the elements, [lanes, elements of a lane]."""
    fragment = operand.fragment
    assert fragment is not None
    count = range(2 ** len(fragment.register))
    both = np.array([[fragment.coordinate(lane, i) for i in count] for lane in range(LANES)])
    return both[..., 0], both[..., 1]


def packed(tile: np.ndarray, operand: Operand, rng: np.random.Generator) -> np.ndarray:
    """The registers of tiles as slots of bytes, [matrices, registers, lanes, 8]."""
    element = element_of(operand)
    rows, columns = places(operand)
    values = np.ascontiguousarray(tile[:, rows, columns])  # [matrices, lanes, elements]
    if element in FLOATS:
        raw = values.astype(FLOATS[element]).view(np.uint8)
        if element == "tf32":  # the low 13 bits do not count
            words = raw.view(np.uint32)
            noise = rng.integers(0, 1 << 13, words.shape, dtype=np.uint32)
            words |= np.where(np.isfinite(values), noise, 0).astype(np.uint32)
    elif (width := int(element[1:])) >= 8:
        raw = values.astype(f"i{width // 8}" if element[0] == "s" else f"u{width // 8}").view(np.uint8)
    else:
        bits = values[..., None] >> np.arange(width) & 1
        raw = np.packbits(bits.astype(np.uint8).reshape(*values.shape[:2], -1), axis=-1, bitorder="little")
    size = REGISTER_BYTES[operand.type]
    raw = raw.reshape(*values.shape[:2], operand.registers, size)
    out = np.zeros((len(tile), operand.registers, LANES, 8), np.uint8)
    out[..., :size] = raw.swapaxes(1, 2)
    return out


def unpacked(slots: np.ndarray, operand: Operand) -> np.ndarray:
    """Tiles of what the registers hold: the inverse of `packed` for types of 16 bits and more."""
    element, size = element_of(operand), REGISTER_BYTES[operand.type]
    raw = np.ascontiguousarray(slots[..., :size].swapaxes(1, 2)).reshape(len(slots), LANES, -1)
    values = raw.view(FLOATS.get(element, "i4"))
    assert operand.fragment is not None
    tile = np.empty((len(slots), *operand.fragment.shape), np.float64 if element in FLOATS else np.int64)
    rows, columns = places(operand)
    tile[:, rows, columns] = values
    return tile


def by_formula(row: Instruction, operands: dict[str, np.ndarray]) -> np.ndarray:
    """The row's meaning on each matrix; s32 sums wrap around."""
    code, words = compile(row.meaning, row.name, "exec"), vocabulary(0)
    results = []
    with np.errstate(all="ignore"):
        for a, b, c in zip(operands["a"], operands["b"], operands["c"], strict=True):
            names = words | {"a": a, "b": b, "c": c}
            exec(code, names)
            results.append(names["d"])
    found = np.stack(results)
    return found.astype(np.int32).astype(np.int64) if found.dtype == np.int64 else found


def run(row: Instruction, device: str, seed: int = 0) -> Outcome:
    """MATRICES products of a row."""
    rng = np.random.default_rng(seed)
    operands = tiles(row, rng)
    inputs = np.concatenate([packed(operands[name], row[name], rng) for name in "abc"], axis=1)
    outputs = np.zeros((MATRICES, row["d"].registers, LANES, 8), np.uint8)
    assert inputs[0].nbytes % SLOT == 0 and [o.name for o in row.operands] == ["d", "a", "b", "c"]
    arguments = [inputs.reshape(-1), outputs.reshape(-1), *(np.zeros(1, np.uint8) for _ in range(2))]
    text = kernel([row], "sm_90", max(row.ptx, (7, 8)), 0, MATRICES)
    Kernel(text, device=device)(*arguments)
    found = unpacked(arguments[1].reshape(outputs.shape), row["d"])
    with np.errstate(all="ignore"):
        if found.dtype == np.int64:
            scale = np.ones(found.shape)
        else:
            terms = np.abs(operands["a"][:, :, :, None] * operands["b"][:, None, :, :])
            scale = np.fmax(np.nan_to_num(terms, nan=0, posinf=0).max(axis=2), np.abs(operands["c"]))
            scale = np.fmax(scale, 2.0 ** LEAST[element_of(row["d"])])
    return Outcome(found, by_formula(row, operands), scale)


def table() -> str:
    """Markdown: for each kind of rows (see `of_kind`), emulator and GPU against the formula, and each other."""
    lines: dict[str, list[float]] = {}
    equal: dict[str, bool] = {}
    for row in ROWS:
        ours, theirs = run(row, "emulator"), run(row, "cuda")
        kind = of_kind(row.name.removeprefix("mma.sync."))
        if ours.found.dtype == np.int64:
            errors = [float(np.count_nonzero(o.found != o.exact)) for o in (ours, theirs)]
            errors.append(float(np.count_nonzero(ours.found != theirs.found)))
        else:
            assert ours.same_specials, row.name
            errors = [ours.error(), theirs.error(), theirs.error(ours.found)]
        lines[kind] = [max(pair) for pair in zip(lines.get(kind, [0.0] * 3), errors, strict=True)]
        equal[kind] = equal.get(kind, True) and theirs.same_specials
    rows = ["| row | emulator | H200 | H200 against emulator | special values |", "|---|---|---|---|---|"]
    for kind, errors in lines.items():
        cells = ["equal" if e == 0 else f"2^{np.log2(e):.1f}" for e in errors]
        rows.append(f"| {kind} | {' | '.join(cells)} | {'equal' if equal[kind] else 'differ'} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table())
