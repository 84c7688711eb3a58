"""`stage x: ahead`: a loop loads tiles one iteration before it uses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.lowering.directives.slices import slice_of
from dsl.lowering.ir.function import Op, walk
from dsl.lowering.ir.location import TileError
from tests.compile_and_run import compile_kernel, dims_of, launch, passed, program_of, through

Arrays = dict[str, Any]

SUMS = """
kernel sums(y: f32[blocks, COLS], x: f32[rows, COLS], w: f32[rows], order: s32[rows], far: s32[rows]; COLS = 64):
    grid blocks
    acc, at = zeros(f32[COLS]), 0
    for i in range(block(0), rows, grid(0)):
        {body}
    y[block(0), :] = acc

schedule s of sums:
    warps = 1
    {lines}
"""
BODIES = {
    "rows": "acc = acc + x[i, :] * w[i]",
    "masked": "acc = acc + x[i, :] * load(w[i : i + 1], mask=i + arange(1) < rows - 2, other=-1.0)",
    "entries": "acc = acc + x[order[i], :] * w[i]",
    "entries_of_entries": "acc = acc + x[order[far[i]], :] * w[order[i]]",
    "nest": "for j in range(i, rows, 3):\n            acc = acc + x[j, :] * w[i]",
}


def arrays(rows: int, blocks: int) -> Arrays:
    random = np.random.default_rng(rows)
    x, w = random.standard_normal((rows, 64)).astype(np.float32), random.standard_normal(rows).astype(np.float32)
    order, far = (random.permutation(rows).astype(np.int32) for _ in range(2))
    return {"y": np.full((blocks, 64), np.nan, np.float32), "x": x, "w": w, "order": order, "far": far}


def wanted(form: str, given: Arrays) -> np.ndarray:
    x, w, order, far = (given[name] for name in ("x", "w", "order", "far"))
    rows, blocks = len(w), len(given["y"])
    out = np.zeros((blocks, 64))
    for block in range(blocks):
        for i in range(block, rows, blocks):
            weight, place = w[i], i
            if form == "masked":
                weight = w[i] if i < rows - 2 else -1.0
            if form == "entries":
                place = order[i]
            if form == "entries_of_entries":
                place, weight = order[far[i]], w[order[i]]
            out[block] += (x[i::3].sum(axis=0) if form == "nest" else x[place]) * weight
    return out


def waiting(ops: list[Op], names: set[str]) -> list[str | None]:
    """The tensors of these names that an iteration loads before it uses what it has loaded."""
    loads = [op for op in ops if op.name == "load" and op.operands[0].name in names]
    users = [op for op in ops if op.name in ("fma", "add", "mul") and op.results[0].shape]
    return [load.operands[0].name for load in loads if any(load in slice_of(ops, op.operands) for op in users)]


@pytest.mark.parametrize(("rows", "blocks"), [(9, 2), (3, 4), (1, 1)])
@pytest.mark.parametrize("form", BODIES)
def test_tiles_come_one_iteration_ahead(form: str, rows: int, blocks: int) -> None:
    text = SUMS.format(body=BODIES[form], lines="stage x, w: ahead\n    unroll i: 1")
    given = arrays(rows, blocks)
    asked = Request("sums", "s", dims=dims_of(compile_kernel(text, given).variant, given))
    function = passed(program_of(text), asked, through("stage")).function
    inner = [op for op in walk(function.body) if op.spec.control.counters][-1]
    assert waiting(inner.regions[0].ops, {"x"}) == []
    launch(compile_kernel(text, given), given)
    assert np.allclose(given["y"], wanted(form, given), rtol=1e-4, atol=1e-5)


def test_without_the_line_an_iteration_waits() -> None:
    text, given = SUMS.format(body=BODIES["rows"], lines="unroll i: 1"), arrays(9, 2)
    asked = Request("sums", "s", dims=dims_of(compile_kernel(text, given).variant, given))
    function = passed(program_of(text), asked, through("stage")).function
    (loop,) = (op for op in walk(function.body) if op.spec.control.counters)
    assert waiting(loop.regions[0].ops, {"x", "w"}) == ["x", "w"]


REFUSED = {
    "at = at + order[i]\n        acc = acc + x[at % rows, :]": "its place is not known one iteration earlier",
    "acc = acc + load(x[i : i + 1, :], cache=volatile)[0]": "must happen where it stands",
    "acc = acc + x[i, :]\n        store(x[i, :], acc)": "the kernel writes it",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_cannot_come_earlier_is_refused(body: str) -> None:
    with pytest.raises(TileError, match=f"'x' cannot be loaded ahead: .*{REFUSED[body]}") as caught:
        compile_kernel(SUMS.format(body=body, lines="stage x: ahead"), arrays(4, 2))
    assert caught.value.code == "schedule"
    assert "stage x: ahead" in str(caught.value)


def test_a_loop_that_counts_down_is_told() -> None:
    text = SUMS.format(body="acc = acc + x[i, :]", lines="stage x: ahead")
    with pytest.raises(TileError, match="'x' cannot be loaded ahead: the loop counts down"):
        compile_kernel(text.replace("range(block(0), rows, grid(0))", "range(rows - 1, -1, -1)"), arrays(4, 1))


def test_a_line_that_names_an_element_names_its_tensor() -> None:
    body = "weight = w[i]\n        acc = acc + x[i, :] * weight"
    with pytest.raises(TileError, match="'weight' is no tensor that a loop loads") as caught:
        compile_kernel(SUMS.format(body=body, lines="stage weight: ahead"), arrays(4, 2))
    assert "w, from which it is loaded" in str(caught.value)


def test_a_load_outside_of_loops_is_refused() -> None:
    body = "acc = acc + x[i, :] * first\n"
    text = SUMS.format(body=body, lines="stage w: ahead").replace(", at = zeros", ", first = zeros")
    text = text.replace("zeros(f32[COLS]), 0", "zeros(f32[COLS]), w[0 : COLS]")
    with pytest.raises(TileError, match="no loop loads it"):
        compile_kernel(text, arrays(4, 2))


def test_what_is_only_stored_is_refused() -> None:
    with pytest.raises(TileError, match="no loop of kernel 'sums' loads a tile of 'y'"):
        compile_kernel(SUMS.format(body=BODIES["rows"], lines="stage y: ahead"), arrays(4, 2))
