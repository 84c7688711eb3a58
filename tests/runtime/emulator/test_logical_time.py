"""What clocks tell on the emulator: turns of a warp, which goes on no earlier than those that it has waited for."""

from __future__ import annotations

import numpy as np
import pytest
from handwritten import run

WORK = 40
SLOW = "add.u32 %r11, %r0, 1;\n" * WORK
START, END = (
    "mov.u32 %r10, %clock;\n",
    "mov.u32 %r12, %clock;\nsub.u32 %r13, %r12, %r10;\nst.global.u32 [%rd6], %r13;\n",
)
ONLY_SECOND = "@%p1 bra FIRST;\n"
OBJECT = """setp.eq.u32 %p2, %r0, 0;
@%p2 mbarrier.init.shared.b64 [%r2], 1;
bar.sync 0;
"""


def turns(body: str, **options: object) -> np.ndarray:
    """Of each warp, between the two readings of the clock."""
    return run(body, **options)[1][: 64 * int(options.get("grid", 1))].reshape(-1, 32)[:, 0]  # type: ignore[call-overload]


def test_an_instruction_is_a_turn() -> None:
    found, y = run(START + SLOW + END)
    assert (y[:64] == WORK + 1).all()  # and the first reading itself
    assert not found.findings


def test_constants_and_loops_count() -> None:
    body = (
        START + "mov.u32 %r14, 5;\nAGAIN:\nsub.u32 %r14, %r14, 1;\nsetp.ne.u32 %p3, %r14, 0;\n@%p3 bra AGAIN;\n" + END
    )
    assert turns(body).tolist() == [2 + 3 * 5] * 2


def test_lanes_of_a_warp_that_part_take_turns_one_after_another() -> None:
    body = START + "@%p0 bra FIRST;\n" + SLOW + "bra MET;\nFIRST:\n" + SLOW + "MET:\nbar.warp.sync 0xffffffff;\n" + END
    assert turns(body).tolist() == [2 + WORK + 1 + WORK + 1] * 2


def test_who_waits_at_a_barrier_goes_on_with_the_last() -> None:
    slow = START + ONLY_SECOND + SLOW + "FIRST:\n"
    assert turns(slow + END).tolist() == [2, WORK + 2]
    assert turns(slow + "bar.sync 0;\n" + END).tolist() == [WORK + 3] * 2


def test_who_arrives_waits_for_nobody() -> None:
    """Where the first warp is slow and waits, and the second one arrives at once, neither has to wait."""
    ends = "bar.sync 1, 64;\nbra MET;\n", "bar.arrive 1, 64;\n"
    body = START + "@!%p1 bra SECOND;\n{0}" + ends[0] + "SECOND:\n{1}" + ends[1] + "MET:\n" + END
    assert turns(body.format(SLOW, "")).tolist() == [WORK + 4, 3]
    assert turns(body.format("", SLOW)).tolist() == [WORK + 4, WORK + 3]


@pytest.mark.parametrize("order", ["", ".relaxed"])
def test_who_waits_for_a_phase_goes_on_with_the_last_arrival(order: str) -> None:
    scope = ".cta" if order else ""
    arrive = f"@%p0 mbarrier.arrive{order}{scope}.shared.b64 %rd10, [%r2];\nbra MET;\n"
    wait = "FIRST:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;\n@!%p3 bra FIRST;\n"
    module = OBJECT + START + ONLY_SECOND + SLOW + arrive + wait + "MET:\n" + END
    first, second = turns(module).tolist()
    assert WORK + 2 <= first <= second + 2


def test_who_waits_for_its_cluster_goes_on_with_the_last() -> None:
    slow = "setp.eq.u32 %p3, %r7, 0;\n@%p3 bra FIRST;\n" + SLOW + "FIRST:\n"
    meet = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
    assert turns(START + slow + END, grid=2).tolist() == [3, 3, WORK + 3, WORK + 3]
    assert set(turns(START + slow + meet + END, grid=2, cluster=2).tolist()) == {WORK + 5}


@pytest.mark.parametrize(
    ("store", "load"),
    [
        ("st.release.gpu.global", "ld.acquire.gpu.global"),
        ("st.relaxed.gpu.global", "ld.relaxed.gpu.global"),
        ("st.volatile.global", "ld.volatile.global"),
        ("red.relaxed.gpu.global.max", "ld.relaxed.gpu.global"),
    ],
)
def test_who_asks_for_a_word_comes_behind_the_store(store: str, load: str) -> None:
    """A block that asks again and again for what another block writes late, whether that releases anything or not."""
    body = (
        START
        + "setp.eq.u32 %p3, %r7, 0;\n@%p3 bra FIRST;\n"
        + SLOW * 20
        + f"{store}.u32 [%rd0], 7;\nbra MET;\n"
        + f"FIRST:\n{load}.u32 %r15, [%rd0];\nsetp.ne.u32 %p4, %r15, 7;\n@%p4 bra FIRST;\nMET:\n"
        + END
    )
    found = turns(body, grid=2, x=np.zeros(1024, np.uint32), block=32)
    assert found[0] >= 20 * WORK
    assert found[1] == 20 * WORK + 5
