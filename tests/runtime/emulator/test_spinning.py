"""Loops without an end that ask for no word of memory are found at once; those that have one go on to it."""

from __future__ import annotations

import pytest
from handwritten import run

from dsl.runtime.emulator import Kind
from tests.work import at_most

ENDLESS = {
    "nothing": "L:\nbra L;  //!",
    "registers that come back": "mov.u32 %r10, 0;\nL:\nadd.u32 %r10, %r10, 1;\nrem.u32 %r10, %r10, 7;\nbra L;  //!",
    "a store of the same": "L:\nst.global.u32 [%rd3], 7;\nbra L;  //!",
    "while others wait": "@%p1 bra L;\nbar.sync 0;\nret;\nL:\nbra L;  //!",
    "a barrier in each round": "L:\nbar.sync 0;\nbra L;  //!",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_loop_whose_state_comes_back_has_no_end(name: str) -> None:
    body = ENDLESS[name]
    with at_most(calls=4_000_000):
        (found,) = run(body, on_finding="collect")[0].findings
    assert found.kind == Kind.DEADLOCK and "nothing changes any more" in found.message
    wanted = next(at for at, line in enumerate(body.splitlines(), 1) if "//!" in line)
    assert found.location is not None and found.location.line == wanted


COUNTS = """
mov.u32 %r10, 0;
@%p0 st.shared.u32 [%r2], 0;
bar.sync 2;
@!%p1 bra ASK;
COUNT:
add.u32 %r10, %r10, 1;
setp.gt.u32 %p3, %r10, 60;
selp.u32 %r12, 1, 0, %p3;
@%p0 st.shared.u32 [%r2], %r12;
bar.sync 0;
bar.sync 1;
@!%p3 bra COUNT;
ret;
ASK:
bar.sync 0;
ld.shared.u32 %r11, [%r2];
bar.sync 1;
setp.eq.u32 %p2, %r11, 0;
@%p2 bra ASK;
"""


@pytest.mark.parametrize("before", range(8))
def test_who_waits_may_count(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second warp asks again and again with the same registers, and memory stays as it is, until the first one,
    which waits for it at barriers meanwhile, has counted to 60. Looks fall on other steps with barriers before."""
    monkeypatch.setattr("dsl.runtime.emulator.spinning.LOOK", 1)
    assert run("bar.sync 3;\n" * before + COUNTS)[0].findings == []


def test_a_loop_that_counts_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsl.runtime.emulator.spinning.LOOK", 1)
    body = "mov.u32 %r10, 0;\nL:\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p2, %r10, 99;\n@%p2 bra L;"
    assert run(body)[0].findings == []
