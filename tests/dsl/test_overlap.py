"""Launches of one call that overlap: what stands ahead of a wait, and that a wait in a wrong place is found."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.calls.plan import BoundPlan, overlaps
from dsl.runtime import FindingError, Kernel
from dsl.runtime.emulator import Kind

N = 1000
TEXT = """
kernel first(t: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    t[i : i + BLOCK] = x[i : i + BLOCK] + 1.0

kernel second(u: f32[n], t: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    w = x[i : i + BLOCK]
    u[i : i + BLOCK] = t[i : i + BLOCK] * w

kernel third(y: f32[n], u: f32[n], t: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    w = x[i : i + BLOCK]
    y[i : i + BLOCK] = u[i : i + BLOCK] - t[i : i + BLOCK] * w + w

dispatch chain(y, x):
    t, u = workspace(f32[n]), workspace(f32[n])
    first(t, x)
    second(u, t, x)
    third(y, u, t, x)

dispatch of_arrays(u, t, x, w):
    first(t, x)
    second(u, t, w)

dispatch rows(u, t, x, w):
    first(t, x)
    second(u, w, w)
"""
OPTIONS = [("access", "loads"), ("access", "end"), ("head", "loads"), ("behind", "head")]
WAIT, GO = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"


def module_of(text: str = TEXT, start: str = "access", next: str = "loads", device: str = "emulator") -> dsl.Module:
    module = dsl.parse(text, device=device)
    module.asked.options.update({"overlap.start": start, "overlap.next": next})
    return module


def planned(module: dsl.Module, name: str, *arrays: Any) -> tuple[BoundPlan, dict[str, Any]]:
    """The launches of a call."""
    function = module[name]
    given = dict(zip(function.params, arrays, strict=True))
    return BoundPlan(function, function.plan(function.facts(given))), given


@pytest.mark.parametrize(("start", "next"), OPTIONS)
def test_every_option_gives_the_same(start: str, next: str, device: str) -> None:
    if device != "emulator":
        from dsl.runtime import device_facts

        if int(re.sub(r"\D", "", device_facts(device).arch)) < 90:
            pytest.skip("launches overlap from sm_90 on")
    x, y = np.random.default_rng(1).random(N, np.float32), np.zeros(N, np.float32)
    module = module_of(start=start, next=next, device=device)
    for _ in range(3):
        y[:] = 0
        module.chain(y, x)
        assert np.array_equal(y, x)
    kernels = planned(module, "chain", y, x)[0].kernels
    assert [WAIT in each.ptx for each in kernels] == [False, *[start != "behind"] * 2]
    assert [GO in each.ptx for each in kernels] == [next != "end", next == "loads" or start == "behind", False]
    assert [each.header.overlaps for each in kernels] == [False, *[start != "behind"] * 2]


def test_a_kernel_reads_ahead_of_its_wait_what_no_launch_in_front_writes() -> None:
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32)
    bound, _ = planned(module_of(), "chain", y, x)
    assert [step.request.follows for step in bound.plan.steps] == [None, ("u", "x"), ("y", "x")]
    assert [step.request.leads for step in bound.plan.steps] == [True, True, False]
    found = [re.findall(r"ld\.global|st\.global|griddepcontrol\.\w+", each.ptx) for each in bound.kernels]
    load, store, wait, go = "ld.global", "st.global", WAIT[:-1], GO[:-1]
    assert found == [[load, go, store], [load, wait, load, go, store], [load, wait, load, load, store]]


def test_arrays_of_the_caller_may_share_memory_unless_one_launch_takes_both() -> None:
    a = [np.zeros(N, np.float32) for _ in range(4)]
    assert planned(module_of(), "of_arrays", *a)[0].plan.steps[1].request.follows == ()
    bound, given = planned(module_of(), "of_arrays", a[0], a[1], a[2], a[1])
    bound.launch(given)  # `w` is `t` here: read ahead of the wait it would be a race


def test_the_rule_is_ahead_of_need_and_at_once() -> None:
    """Where the one in front waits itself, behind its reads."""
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32)
    kernels = planned(dsl.parse(TEXT, device="emulator"), "chain", y, x)[0].kernels
    assert [each.header.overlaps for each in kernels] == [False, True, True]
    assert kernels[0].ptx.index(GO) < kernels[0].ptx.index("ld.global")
    assert kernels[1].ptx.index("ld.global") < kernels[1].ptx.index(WAIT) < kernels[1].ptx.index(GO)


def test_launches_in_order_have_the_code_of_kernels_that_are_called_alone() -> None:
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32)
    module = module_of(start="behind", next="end")
    for kernel in planned(module, "chain", y, x)[0].kernels:
        alone = module.compile(kernel.header.kernel, n=N)
        assert kernel.compiled.body == alone.compiled.body and kernel.header == alone.header
    old = dsl.parse(TEXT, device="emulator", arch="sm_80")
    assert {step.request.follows for step in planned(old, "chain", y, x)[0].plan.steps} == {None}


def test_a_schedule_may_say_it_of_a_kernel_that_is_called_alone_too() -> None:
    said = "\nschedule s of second:\n    choose overlap.start: {}\n"
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32)
    module = dsl.parse(TEXT + said.format("behind"), device="emulator")
    assert WAIT not in module.compile("second", n=N).ptx
    assert [WAIT in each.ptx for each in planned(module, "chain", y, x)[0].kernels] == [False, False, True]
    with pytest.raises(dsl.TileError, match="no option 'early' here"):
        dsl.parse(TEXT + said.format("early"), device="emulator").chain(y, x)


def test_a_launch_behind_one_without_blocks_does_not_overlap() -> None:
    none, some = np.zeros(0, np.float32), np.ones(N, np.float32)
    text = TEXT.replace("kernel first(t: f32[n], x: f32[n]", "kernel first(t: f32[m], x: f32[m]").replace(
        "cdiv(n, BLOCK)", "cdiv(m, BLOCK)", 1
    )
    for first, does in ((none, False), (some, True)):
        bound, given = planned(module_of(text), "rows", np.zeros(N, np.float32), first, first.copy(), some)
        arguments = [bound.arguments(step, given) for step in bound.plan.steps]
        assert overlaps(bound.kernels, arguments) == [False, does]
        bound.launch(given)


FAULTS = {
    "no wait": (lambda ptx: ptx.replace(WAIT, ""), Kind.RACE, "u[i : i + BLOCK] = t[i : i + BLOCK] * w"),
    "a wait behind all": (
        lambda ptx: ptx.replace(WAIT, "").replace("ret;", f"{WAIT} ret;"),
        Kind.RACE,
        "u[i : i + BLOCK] = t[i : i + BLOCK] * w",
    ),
    "a wait that blocks skip": (
        lambda ptx: ptx.replace(
            WAIT, f"mov.u32 %few, %ctaid.x; setp.eq.u32 %skip, %few, 0; @%skip ret; {WAIT}"
        ).replace(".reg .pred", ".reg .pred %skip; .reg .b32 %few; .reg .pred", 1),
        Kind.NO_WAIT,
        "u[i : i + BLOCK] = t[i : i + BLOCK] * w",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_put_into_the_code_is_found_at_its_line(fault: str) -> None:
    change, kind, line = FAULTS[fault]
    y, x = np.zeros(N, np.float32), np.zeros(N, np.float32)
    bound, given = planned(module_of(), "chain", y, x)
    texts = [kernel.ptx for kernel in bound.kernels]
    texts[1] = change(texts[1])
    edited = BoundPlan(bound_function(), bound.plan, [Kernel(ptx, device="emulator") for ptx in texts])
    with pytest.raises(FindingError) as error:
        edited.launch(given)
    finding = error.value.finding
    number = next(n for n, each in enumerate(TEXT.splitlines(), 1) if line in each)
    assert (finding.kind, finding.line) == (kind, number)
    if kind == Kind.RACE:
        writer = next(n for n, each in enumerate(TEXT.splitlines(), 1) if "t[i : i + BLOCK] = " in each)
        assert f"<text>:{writer} " in finding.last_writer and finding.last_writer.endswith("of first")


def bound_function() -> Any:
    return module_of().chain


ROLES = """
kernel first(t: f16[m, k], x: f16[m, k]; BLOCK = 64):
    grid cdiv(m, BLOCK)
    i = block(0) * BLOCK
    t[i : i + BLOCK, 0 : 64] = x[i : i + BLOCK, 0 : 64] + x[i : i + BLOCK, 0 : 64]

kernel product(c: f32[m, n], a: f16[m, k], b: f16[k, n]; TM, TN, TK):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)
    c[i : i + TM, j : j + TN] = acc

schedule tma of product:
    warps = 4
    TM, TN, TK = 64, 64, 32
    stage a, b: tma
    pipeline p: 2

dispatch doubled(c, x, b):
    t = workspace(f16[m, k])
    first(t, x)
    product(c, t, b) with tma
"""


def test_each_role_waits_by_itself() -> None:
    """The thread that copies waits ahead of its loop, the others ahead of what they store: copies of what the launch in
    front writes are found if it does not."""
    x, b = (np.random.default_rng(2).random((64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    module = module_of(ROLES)
    module.doubled(c, x, b)
    assert np.allclose(c, 2.0 * x.astype(np.float32) @ b.astype(np.float32), rtol=1e-3)
    bound, given = planned(module, "doubled", c, x, b)
    first, second = (kernel.ptx for kernel in bound.kernels)
    assert second.count(WAIT) == 2 and second.index(WAIT) < second.index("cp.async.bulk.tensor")
    kernels = [Kernel(ptx, device="emulator") for ptx in (first, second.replace(WAIT, "", 1))]
    with pytest.raises(FindingError) as error:
        BoundPlan(module.doubled, bound.plan, kernels).launch(given)
    assert error.value.finding.kind == Kind.RACE and error.value.finding.line == 12


SPLIT = """
kernel first(t: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    t[i : i + BLOCK] = x[i : i + BLOCK]

kernel total(out: f32[1], x: f32[n]; TILE = 128):
    grid 1
    v = zeros(f32[TILE])
    for i in range(0, n, TILE):
        v = v + x[i : i + TILE]
    out[0] = sum(v)

schedule shared of total:
    split i: 4

dispatch both(out, t, x):
    first(t, x)
    total(out, x)
"""


def test_what_a_stream_lends_to_all_launches_is_touched_behind_the_wait() -> None:
    """All that `total` reads it may read at once; its own workspaces it may not: the launch in front has the same."""
    x, t, out = np.ones(N, np.float32), np.zeros(N, np.float32), np.zeros(1, np.float32)
    bound, given = planned(module_of(SPLIT), "both", out, t, x)
    bound.launch(given)
    assert out[0] == N
    ptx = bound.kernels[1].ptx
    assert ptx.rindex("ld.global", 0, ptx.index(WAIT)) > 0
    kernels = [bound.kernels[0].kernel, Kernel(ptx.replace(WAIT, ""), device="emulator")]
    with pytest.raises(FindingError, match=r"a launch in front of it has \w+, which may still run"):
        BoundPlan(module_of(SPLIT).both, bound.plan, kernels).launch(given)
