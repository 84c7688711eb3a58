"""`assert ld % 8 == 0` of a scalar parameter is used: accesses are as wide as of a dim with that divisor."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.known.facts import facts_of
from dsl.lowering.shared.access_width import access_width
from tests.compile_and_run import NUMPY, compile_kernel, launch

TEXT = """
kernel k(y: f16[rows, 1024], x: f16[n], ld: {type}):
    grid rows
    {asserted}
    v = load(flat(x)[block(0) * ld + arange(1024)])
    store(y[block(0), 0 : 1024], v)
"""
WIDTHS = {"ld % 8 == 0": 8, "ld % 24 == 0": 8, "ld > 0 and ld % 4 == 0": 4, "ld % 8 == 1": 1, "ld > 8": 1}


@pytest.mark.parametrize("asserted", WIDTHS)
@pytest.mark.parametrize("name", ["s32", "u32", "s64"])
def test_an_asserted_divisor_of_a_scalar_makes_accesses_wide(name: str, asserted: str) -> None:
    x = (np.arange(1280 * 4) % 1999).astype(np.float16)
    text = TEXT.format(type=name, asserted=f"assert {asserted}")
    ld = 1033 if asserted == "ld % 8 == 1" else 1032
    if name != "s32":
        text = text.replace("* ld", "* ld.to(index)")
    args = {"y": np.zeros((4, 1024), np.float16), "x": x, "ld": NUMPY[name].type(ld)}
    variant = compile_kernel(text, args)
    facts = facts_of(variant.variant.function)
    assert [access_width(facts, op) for op in variant.ops if op.name == "load"] == [WIDTHS[asserted]]
    launch(variant, args)
    assert np.array_equal(args["y"], np.stack([x[i * ld : i * ld + 1024] for i in range(4)]))
