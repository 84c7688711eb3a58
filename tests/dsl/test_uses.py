"""Which tensors a kernel writes and reads, told before a variant is made, is what the headers of its variants say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.calls.uses import tensors_used
from dsl.kernels.variant import record_access
from dsl.text.program import parse_program

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lowering"))
from sample_variants import Case, cases, program


def variants() -> dict[tuple[str, str], list[Case]]:
    """Two of each kernel: with other types, and with what is optional."""
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases():
        found.setdefault((case.file, case.kernel), []).append(case)
    return {key: [*dict.fromkeys((all[0], all[-1]))] for key, all in found.items()}


def test_the_samples_are_as_their_variants_say() -> None:
    """17 of their tensors were both read and written by their text, as they are given to functions."""
    said: dict[tuple[str, str, str], set[str]] = {}
    for (file, kernel), all in variants().items():
        for case in all:
            function = case.build("sm_90a").function
            record_access(function)
            for p in function.params:
                if p.kind == "tensor" and p.value is not None:
                    said.setdefault((file, kernel, p.name), set()).update(p.access)
    wrong = {}
    for (file, kernel, name), access in said.items():
        written, read = tensors_used(program(file), kernel)
        if access != {*("r" * (name in read) + "w" * (name in written))}:
            wrong[file, kernel, name] = access
    assert wrong == {} and len(said) > 120


FORMS = """
def kept(y, i, v; B):
    y[i : i + B] = v

def loaded(x, i; B):
    return load(x[i : i + B])

def both(y, x, i; B):
    kept(y, i, loaded(x, i, B=B), B=B)

def flipped(x):
    return transpose(x, [1, 0])

kernel through(y: f32[n], x: f32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    both(y, x, i, B=B)

kernel around(y: f32[n], x: f32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    def within(v):
        y[i : i + B] = v + x[i : i + B]
    within(full(f32[B], 1.0))

kernel adds(y: f32[n], x: f32[n], z: f32[n]?; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] += x[i : i + B]
    if given(z):
        y[i : i + B] = 0.0

kernel counts(y: u32[1], x: f32[n]; B = 32):
    grid cdiv(n, B)
    atomic_add(y[0], 1)

kernel turned(y: f32[m, n], x: f32[n, m]; B = 4):
    grid cdiv(m, B), cdiv(n, B)
    i, j = block(0) * B, block(1) * B
    xs = flipped(x)
    y[i : i + B, j : j + B] = xs[i : i + B, j : j + B]

kernel viewed(y: f32[m, n], x: f32[n, m]; B = 4):
    grid cdiv(m, B), cdiv(n, B)
    i, j = block(0) * B, block(1) * B
    ys = flipped(y)
    store(ys[j : j + B, i : i + B], x[j : j + B, i : i + B])

kernel in_a_row(y: f32[m, n], x: f32[m, n]; B = 32):
    grid cdiv(m * n, B)
    i = block(0) * B
    store(flat(y)[i : i + B], loaded(flat(x), i, B=B))
"""
USED = {
    "through": ({"y"}, {"x"}),
    "around": ({"y"}, {"x"}),
    "adds": ({"y"}, {"x", "y"}),
    "counts": ({"y"}, {"y"}),
    "turned": ({"y"}, {"x"}),
    "viewed": ({"y"}, {"x"}),
    "in_a_row": ({"y"}, {"x"}),
}


@pytest.mark.parametrize("kernel", USED)
def test_functions_views_and_names_around_are_looked_through(kernel: str) -> None:
    made = parse_program(FORMS)
    written, read = tensors_used(made, kernel)
    tensors = {*made.head(kernel).arrays}
    assert (written & tensors, read & tensors) == USED[kernel]


def test_outputs_that_functions_write_may_be_left_out() -> None:
    """`y` alone: x is no output, though it is given to the same function."""
    module, x = dsl.parse(FORMS, device="emulator"), np.arange(40, dtype=np.float32)
    assert (module.through(x) == x).all() and (module.around(x) == x + 1).all()
    with pytest.raises(dsl.TileError, match="needs 'x'"):
        module.turned(y=np.empty((4, 4), np.float32))
    with pytest.raises(dsl.TileError, match="reads it"):
        module.adds(x)
