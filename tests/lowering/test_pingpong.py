"""`pingpong e`: groups of warps make a value and begin its products one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.lowering.ir.location import TileError
from dsl.runtime import Kernel, device_facts
from dsl.runtime.errors import RuntimeFault

TEXT = """
kernel weigh(o: f32[m, d], a: f16[m, k], b: f16[n, k], v: f16[n, d]; TM, TN, K, D):
    grid cdiv(m, TM)
    i = block(0) * TM
    acc, rows = zeros(f32[TM, D]), a[i : i + TM, 0 : K]
    for j in range(0, n, TN):
        x = dot(rows, b[j : j + TN, 0 : K].T)
        e = x * 0.5
        w = e.to(f16)
        acc = dot(w, v[j : j + TN, 0 : D], acc)
    o[i : i + TM, 0 : D] = acc

schedule groups of weigh:
    TM, TN, K, D, warps = 128, 32, 64, 64, 8
    instruction x, acc: wgmma
    stage a: shared
    stage b, v: tma
    pipeline j: 2
    pingpong e
"""
FOUR = {"TM, TN, K, D, warps = 128, 32, 64, 64, 8": "TM, TN, K, D, warps = 256, 32, 64, 64, 16"}
DEVICES = ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)]


def skip_without_boxes(device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")


def changed(changes: dict[str, str], source: str = TEXT) -> str:
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    return source


def arrays(m: int, n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(m + n)
    a, b, v = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, 64), (n, 64), (n, 64)))
    wanted = (a.astype(np.float64) @ b.T.astype(np.float64) * 0.5) @ v.astype(np.float64)
    return np.full((m, 64), np.nan, np.float32), a, b, v, wanted


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("m, n", [(300, 160), (128, 32), (100, 200)])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        FOUR,
        {"pipeline j: 2": "pipeline j: 3\n    persistent 1"},
        {"pipeline j: 2": "pipeline j: 2\n    unroll j: 2"},
    ],
    ids=["two", "four", "persistent", "two iterations in one"],
)
def test_groups_take_turns(changes: dict[str, str], m: int, n: int, device: str) -> None:
    """All groups come to each number, of one tile after the other, and of no iteration."""
    skip_without_boxes(device)
    module = dsl.parse(changed(changes), device=device)
    o, a, b, v, wanted = arrays(m, n)
    module.weigh(o, a, b, v)
    np.testing.assert_array_equal(o, wanted)


def test_what_stands_in_a_turn() -> None:
    """The value and the begin of its product; the wait for that comes behind the turn."""
    ptx = dsl.parse(TEXT, device="emulator").compile("weigh", m=128, n=64, k=64, d=64).ptx
    loop = ptx[ptx.rindex("setmaxnreg.inc") :]
    words = ("mbarrier.try_wait", "wgmma.mma_async", "mul.rn.f32", "mbarrier.arrive", "wgmma.wait_group")
    found = re.findall("|".join(words), loop)
    order = [word for i, word in enumerate(found) if i == 0 or word != found[i - 1]]
    product = ["wgmma.mma_async", "mbarrier.arrive", "wgmma.wait_group", "mbarrier.arrive"]
    assert order == [
        "mbarrier.try_wait",
        "wgmma.mma_async",
        "wgmma.wait_group",
        "mbarrier.try_wait",
        "mul.rn.f32",
        *product,
    ]
    inits = re.findall(r"mbarrier\.init\.shared\.b64", ptx)
    assert len(inits) == 2 * 2 + 2


def test_the_last_group_lets_the_first_one_go_on() -> None:
    """Without the end of turns the second group waits for ever."""
    module = dsl.parse(TEXT, device="emulator")
    k = module.compile("weigh", m=128, n=64, k=64, d=64)
    behind = k.ptx.rindex("wgmma.commit_group")
    at = k.ptx.index("mbarrier.arrive", behind)
    start, end = k.ptx.rindex("\n", 0, at), k.ptx.index("\n", at)
    o, a, b, v, _ = arrays(128, 64)
    with pytest.raises(RuntimeFault, match="wait for an mbarrier"):
        Kernel(k.ptx[:start] + k.ptx[end:], device="emulator")(o, a, b, v)


def body(tmp_path: Path, source: str, **choose: str) -> str:
    file = tmp_path / "weigh.tile"
    file.write_text(source)
    module = dsl.load(file, device="emulator", choose={name.replace("_", "."): way for name, way in choose.items()})
    return module.compile("weigh", m=128, n=64, k=64, d=64).ptx.partition(".visible")[2]


def test_a_choice_or_a_condition_leaves_turns_out(tmp_path: Path) -> None:
    without = body(tmp_path, changed({"pingpong e": "pingpong e: D > 64"}))
    assert body(tmp_path, TEXT, pingpong_e="all") == without != body(tmp_path, TEXT)


def test_turns_are_taken_without_a_line(tmp_path: Path) -> None:
    """By two groups, if one product takes what is computed from another one."""
    plain = {"    pingpong e\n": ""}
    assert body(tmp_path, changed(plain)) == body(tmp_path, TEXT)
    four = dsl.parse(changed(plain | FOUR), device="emulator").compile("weigh", m=256, n=64, k=64, d=64)
    assert "pingpong.e" not in four.compiled.variant.function.choices.keyed()


LOOP = TEXT[TEXT.index("    for j") : TEXT.index("    o[i")]
AGAIN = {LOOP: LOOP + LOOP.replace("j", "l")}
"""A second loop, whose pipeline counts iterations of its own."""


def test_loops_one_after_another_take_no_turns_without_a_line() -> None:
    """Each has its own iterations, and these say whose turn it is: with an odd number in the first loop, two groups
    would be in the second one together, or wait for each other for ever."""
    made = dsl.parse(changed({**AGAIN, "    pingpong e\n": ""}), device="emulator")
    compiled = made.compile("weigh", m=256, n=96, k=64, d=64).compiled
    assert "pingpong.e" not in compiled.variant.function.choices.keyed() and len(compiled.header.pipelines) == 2
    o, a, b, v, wanted = arrays(256, 96)
    made.weigh(o, a, b, v)
    np.testing.assert_array_equal(o, 2 * wanted)


TOTAL = {"        w = e": "        acc = acc + sum(sum(e, axis=0))\n        w = e"}
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "one group": ({"TM, TN, K, D, warps = 128, 32, 64, 64, 8": "TM, TN, K, D, warps = 64, 32, 64, 64, 4"}, "4 warps"),
    "no pipeline": ({"stage b, v: tma": "stage b, v: shared"}, "there is none"),
    "no such value": ({"pingpong e": "pingpong ee"}, "has no value 'ee'"),
    "behind the loop": ({"    o[i": "    done = acc\n    o[i", "pingpong e": "pingpong done"}, "has no value 'done'"),
    "no product of it": ({"pingpong e": "pingpong acc"}, "no product of its iteration takes it"),
    "several": ({"pingpong e": "pingpong e, w"}, "they take turns at something else"),
    "two pipelines": (AGAIN, "which count their iterations apart"),
    "a barrier within": (TOTAL, "a barrier for all of them stands within"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_there_are_no_turns_is_told(name: str) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(TileError, match=message) as told:
        dsl.parse(changed(changes), device="emulator").compile("weigh", m=256, n=64, k=64, d=64)
    assert told.value.loc is not None and told.value.hint
