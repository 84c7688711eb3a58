"""A block that waits for a later one of its grid is found, however few or many blocks there are, and whatever it has
written itself; meetings, locks and tickets are none of this.

In all bodies %p2 is thread 0; flags lie in y, one a block: %rd6 is the block's own one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handwritten import kernel, words

from dsl.runtime.emulator import Kind, emulate
from tests.work import at_most

pytestmark = pytest.mark.usefixtures("short_turns")


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few rounds, not of 64, which take seconds."""
    monkeypatch.setattr("dsl.runtime.emulator.wave.BACK_EDGES", 2)
    monkeypatch.setattr("dsl.runtime.emulator.wave.FEW_BACK_EDGES", 6)


HEAD = """setp.eq.u32 %p2, %r0, 0;
mul.wide.u32 %rd10, %r7, 4;
add.u64 %rd6, %rd1, %rd10;
mov.u32 %r20, %nctaid.x;
sub.u32 %r20, %r20, 1;
"""
POLLS = {
    "a load": "LOOK: ld.acquire.gpu.global.u32 %r21, [{at}];",
    "a volatile load": "LOOK: ld.volatile.global.u32 %r21, [{at}];",
    "an addition of nothing": "LOOK: atom.acquire.gpu.global.add.u32 %r21, [{at}], 0;",
    "a swap of nothing": "LOOK: atom.relaxed.gpu.global.cas.b32 %r21, [{at}], 9, 9;",
}
UNTIL = "\nsetp.eq.u32 %p3, %r21, 0;\n@%p3 bra LOOK;\n"
SET = "@%p2 st.release.gpu.global.u32 [%rd6], 1;\n"


def found(body: str, blocks: int = 5, **options: Any) -> list[Kind]:
    """Of one thread a block, so that it is told by nothing else."""
    options = {"on_finding": "collect", "budget": 1 << 24, **options}
    args = [words(), np.zeros(4096, np.uint32)]
    return [each.kind for each in emulate(kernel(HEAD + body), "kernel", blocks, 1, args, **options).findings]


def waits(for_next: bool, poll: str) -> str:
    """For the flag of the next block, or of the one before it."""
    end, at = ("%r20", "%rd6+4") if for_next else ("0", "%rd6+-4")
    return f"setp.eq.u32 %p4, %r7, {end};\n@%p4 bra SET;\n{POLLS[poll].format(at=at)}{UNTIL}SET: {SET}"


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("poll", POLLS)
def test_a_block_that_waits_for_the_next_one(poll: str, seed: int) -> None:
    assert found(waits(True, poll), seed=seed) == [Kind.DEADLOCK]
    assert found(waits(False, poll), seed=seed) == []


OWN = "@%p2 st.volatile.global.u32 [%rd6+2048], 1;\n"
PHASES = "mbarrier.init.shared.b64 [%r2], 1;\n"


@pytest.mark.parametrize("more", [OWN, PHASES, OWN + PHASES])
def test_what_a_block_has_done_before_it_waits_makes_a_later_one_no_earlier(more: str) -> None:
    assert found(more + waits(True, "a load")) == [Kind.DEADLOCK]
    assert found(more + waits(False, "a load")) == []


def looks_back(upwards: bool) -> str:
    """Decoupled look-back: a block says what it has, adds up the others' (1) as far as one has all of those (2)."""
    step, end = (4, "%r20") if upwards else (-4, "0")
    return f"""@%p2 st.volatile.global.u32 [%rd6], 1;
    mov.u32 %r22, {end};
    sub.u32 %r22, %r22, %r7;
    abs.s32 %r22, %r22;
    mov.u64 %rd8, %rd6;
    setp.eq.u32 %p4, %r22, 0;
    @%p4 bra ALL;
    add.s64 %rd8, %rd8, {step};
    {POLLS["a volatile load"].format(at="%rd8")}{UNTIL}
    setp.eq.u32 %p3, %r21, 2;
    @%p3 bra ALL;
    add.s64 %rd8, %rd8, {step};
    sub.u32 %r22, %r22, 1;
    setp.ne.u32 %p3, %r22, 0;
    @%p3 bra LOOK;
    ALL: @%p2 st.volatile.global.u32 [%rd6], 2;"""


@pytest.mark.parametrize("blocks", [2, 20, 70])
def test_look_back_goes_to_blocks_that_have_started(blocks: int) -> None:
    assert found(looks_back(True), blocks) == [Kind.DEADLOCK]
    assert found(looks_back(False), blocks) == []


def test_of_thousands_of_blocks_a_few_are_enough() -> None:
    args = [words(), np.zeros(5001, np.uint32)]
    with at_most(calls=300_000):
        result = emulate(kernel(HEAD + waits(True, "a load")), "kernel", 5000, 1, args, on_finding="collect")
    (finding,) = result.findings
    assert "4999 blocks have not started" in str(finding)


@pytest.mark.parametrize("wanted", [20, 50, 69])
def test_all_blocks_wait_for_one_that_is_not_the_first(wanted: int) -> None:
    """Those behind it wait for an earlier one, and stand still without it."""
    body = f"setp.ne.u32 %p4, %r7, {wanted};\n@%p4 bra LOOK;\n@%p2 st.release.gpu.global.u32 [%rd1], 1;\n"
    assert found(body + POLLS["a load"].format(at="%rd1") + UNTIL, 70) == [Kind.DEADLOCK]
    body = body.replace(str(wanted), "0")
    assert found(body + POLLS["a load"].format(at="%rd1") + UNTIL, 70) == []


MEETINGS = {
    "by a flag each": SET
    + "mov.u64 %rd8, %rd1;\nmov.u32 %r22, 0;\n"
    + POLLS["a load"].format(at="%rd8")
    + UNTIL
    + "add.u64 %rd8, %rd8, 4;\nadd.u32 %r22, %r22, 1;\nsetp.le.u32 %p3, %r22, %r20;\n@%p3 bra LOOK;",
    "the last to come lets go": """atom.acq_rel.gpu.global.add.u32 %r22, [%rd1], 1;
    setp.eq.u32 %p4, %r22, %r20;
    @%p4 bra LAST;
    LOOK: ld.acquire.gpu.global.u32 %r21, [%rd1+4];
    setp.eq.u32 %p3, %r21, 0;
    @%p3 bra LOOK;
    bra END;
    LAST: st.release.gpu.global.u32 [%rd1+4], 1;
    END:""",
}


@pytest.mark.parametrize("way", MEETINGS)
def test_blocks_that_wait_for_each_other_meet(way: str) -> None:
    assert found(MEETINGS[way], 9) == []


def test_the_first_block_waits_for_all_others() -> None:
    """It takes no part in the count that it waits for; the last block may wait so. They count one after another."""
    body = "setp.ne.u32 %p4, %r7, {0};\n@%p4 bra COUNT;\n" + POLLS["a load"].format(at="%rd1") + UNTIL.replace(
        "setp.eq.u32 %p3, %r21, 0", "setp.ne.u32 %p3, %r21, %r20"
    ) + "bra END;\nCOUNT: red.release.gpu.global.add.u32 [%rd1], 1;\nEND:"  # fmt: skip
    hold = "mov.u32 %r22, 0;\nHOLD: add.u32 %r22, %r22, 1;\nsetp.le.u32 %p5, %r22, %r7;\n@%p5 bra HOLD;\n"
    assert found(hold + body.format(0)) == [Kind.DEADLOCK]
    assert found(hold + body.format("%r20")) == []


def test_blocks_that_meet_must_fit_which_is_theirs_who_launch_them() -> None:
    meet = "red.release.gpu.global.add.u32 [%rd1], 1;\n" + POLLS["a load"].format(at="%rd1")
    assert found(meet + UNTIL.replace("setp.eq.u32 %p3, %r21, 0", "setp.le.u32 %p3, %r21, %r20"), 50) == []


@pytest.mark.parametrize("seed", range(3))
def test_who_holds_a_lock_or_has_drawn_a_number_runs(seed: int) -> None:
    lock = """LOOK: atom.acquire.gpu.global.cas.b32 %r21, [%rd1], 0, 1;
    setp.ne.u32 %p3, %r21, 0;
    @%p3 bra LOOK;
    st.release.gpu.global.u32 [%rd1], 0;"""
    assert found(lock, 20, seed=seed) == []
    ticket = """atom.relaxed.gpu.global.add.u32 %r22, [%rd1+2048], 1;
    LOOK: ld.acquire.gpu.global.u32 %r21, [%rd1];
    setp.ne.u32 %p3, %r21, %r22;
    @%p3 bra LOOK;
    red.release.gpu.global.add.u32 [%rd1], 1;"""
    assert found(ticket, 20, seed=seed) == []


def test_a_loop_that_works_and_looks_at_a_word_waits_for_nobody() -> None:
    """Another block tells it to stop."""
    body = f"""setp.eq.u32 %p4, %r7, %r20;
    @%p4 bra LAST;
    mov.u32 %r22, 0;
    {POLLS["a load"].format(at="%rd1")}
    add.u32 %r22, %r22, 1;
    st.global.u32 [%rd6+2048], %r22;
    setp.gt.u32 %p5, %r22, 1000;
    @%p5 bra END;
    setp.eq.u32 %p3, %r21, 0;
    @%p3 bra LOOK;
    bra END;
    LAST: st.release.gpu.global.u32 [%rd1], 1;
    END:"""
    assert found(body, 3) == []
