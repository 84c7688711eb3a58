"""A wait is worth what its answer decides: who goes on whatever it says has no order.

Beside each text that goes on is one that does not. In all bodies %p2 is thread 0, the mbarrier lies at %r2, and 256
bytes of x come to %r2 + 128 with its first phase.
"""

from __future__ import annotations

import numpy as np
import pytest
from handwritten import kernel, run, words

from dsl.runtime.emulator import EmulatorError, Kind, emulate

COPY = """setp.eq.u32 %p2, %r0, 0;
@%p2 mbarrier.init.shared::cta.b64 [%r2], 1;
@%p2 fence.mbarrier_init.release.cluster;
bar.sync 0;
add.u32 %r10, %r2, 128;
@!%p2 bra ISSUED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd0], 256, [%r2];
ISSUED:
"""
READ = "ld.shared.u32 %r11, [%r3+128];\nst.global.u32 [%rd4], %r11;"
TRY, TEST = (f"mbarrier.{each}_wait.parity.shared::cta.b64 %p3, [%r2], 0;" for each in ("try", "test"))
UNTIL = f"WAIT: {TRY}\n@!%p3 bra WAIT;"

# Each goes on though the wait may have said no.
HEEDLESS = {
    "a test that nobody asks": TEST,
    "a try that nobody asks": TRY,
    "two of them": f"{TRY}\n{TRY}",
    "a branch to where it goes anyway": f"{TRY}\n@!%p3 bra NEXT;\nNEXT:",
    "a branch around nothing": f"{TRY}\n@%p3 bra NEXT;\nmov.u32 %r12, 1;\nNEXT:",
    "the wrong way round": f"WAIT: {TRY}\n@%p3 bra WAIT;",
    **{
        f"{tries} times at most": f"mov.u32 %r12, 0;\nWAIT: {TEST}\nadd.u32 %r12, %r12, 1;\n"
        f"setp.lt.u32 %p4, %r12, {tries};\nnot.pred %p5, %p3;\nand.pred %p4, %p4, %p5;\n@%p4 bra WAIT;"
        for tries in (3, 10, 128)
    },
    "an answer that is only kept": f"{TEST}\nselp.u32 %r12, 1, 0, %p3;\nst.global.u32 [%rd4+512], %r12;",
    "a loop for one lane": f"WAIT: {TRY}\nnot.pred %p5, %p3;\nand.pred %p5, %p5, %p0;\n@%p5 bra WAIT;",
    "any lane's answer but one's own": f"{TRY}\nWAIT: vote.sync.any.pred %p4, 1, 0xffffffff;\n@!%p4 bra WAIT;",
    "a sleep": f"{TEST}\n@%p3 bra NEXT;\nnanosleep.u32 1000;\nNEXT:",
    "the lanes that are here": f"{TEST}\nactivemask.b32 %r12;\nsetp.ne.u32 %p4, %r12, 0;\n@!%p4 bra ISSUED;",
    "a guarded wait": "setp.eq.u32 %p4, %r0, %r0;\n" + TRY.replace("mb", "@%p4 mb"),
}
HEEDFUL = {
    "until it says yes": UNTIL,
    "with a test": UNTIL.replace("try_wait", "test_wait"),
    "with a jump back": f"WAIT: {TRY}\n@%p3 bra NEXT;\nbra WAIT;\nNEXT:",
    "with a sleep": f"WAIT: {TEST}\n@%p3 bra NEXT;\nnanosleep.u32 100;\nbra WAIT;\nNEXT:",
    "through a register": f"WAIT: {TEST}\nselp.b32 %r12, 1, 0, %p3;\nsetp.eq.s32 %p4, %r12, 0;\n@%p4 bra WAIT;",
    "two at once": f"WAIT: {TRY}\nmov.pred %p4, %p3;\n{TRY}\nand.pred %p5, %p3, %p4;\n@!%p5 bra WAIT;",
    "all lanes agree": f"WAIT: {TEST}\nvote.sync.all.pred %p4, %p3, 0xffffffff;\n@!%p4 bra WAIT;",
    "the block agrees": f"WAIT: {TEST}\nbarrier.cta.red.and.pred %p4, 1, %p3;\n@!%p4 bra WAIT;",
    "a look ahead, then a loop": f"{TRY}\nselp.b32 %r12, 1, 0, %p3;\nst.global.u32 [%rd4+512], %r0;\n"
    f"setp.ne.u32 %p6, %r12, 0;\n@%p6 bra NEXT;\n{UNTIL}\nNEXT:",
    **{
        f"{tries} times, then a trap": f"mov.u32 %r12, 0;\nWAIT: {TEST}\n@%p3 bra NEXT;\nadd.u32 %r12, %r12, 1;\n"
        f"setp.lt.u32 %p4, %r12, {tries};\n@%p4 bra WAIT;\ntrap;\nNEXT:"
        for tries in (1000, 2)
    },
    "a guarded trap": f"mov.u32 %r12, 0;\nWAIT: {TEST}\n@%p3 bra NEXT;\nadd.u32 %r12, %r12, 1;\n"
    "setp.gt.u32 %p4, %r12, 50;\n@%p4 trap;\nbra WAIT;\nNEXT:",
    "the reading under its guard": f"{TEST}\n@!%p3 bra LATER;\n{READ}\nbra END;\nLATER: {UNTIL}",
}


@pytest.mark.parametrize("name", HEEDLESS)
def test_who_goes_on_whatever_a_wait_says_has_not_waited(name: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(COPY + HEEDLESS[name] + "\n" + READ, budget=1 << 16)
    finding = caught.value.finding
    if name == "the wrong way round":
        assert finding.kind in {Kind.IN_FLIGHT, Kind.BUDGET}
    else:
        assert finding.kind == Kind.IN_FLIGHT and "repeat it until it says yes" in (finding.last_writer or "")


@pytest.mark.parametrize("name", HEEDFUL)
def test_who_asks_until_it_says_yes_has_waited(name: str) -> None:
    _, y = run(COPY + HEEDFUL[name] + "\n" + READ + "\nEND:", x=words(), budget=1 << 16)
    assert (y[:64] == words()[:64]).all()


FLAG = """setp.eq.u32 %p2, %r7, 0;
@%p2 bra WRITE;
{wait}
ld.global.u32 %r11, [%rd1+1024];
st.global.u32 [%rd1+2048], %r11;
bra END;
WRITE:
mov.u32 %r11, 7;
st.global.u32 [%rd1+1024], %r11;
st.release.gpu.global.u32 [%rd1+512], %r11;
END:"""
POLLS = {
    "a load": "ld.acquire.gpu.global.u32 %r12, [%rd1+512];\nsetp.eq.u32 %p3, %r12, 0;",
    "an addition": "atom.acquire.gpu.global.add.u32 %r12, [%rd1+512], 0;\nsetp.eq.u32 %p3, %r12, 0;",
    "a swap": "atom.acquire.gpu.global.cas.b32 %r12, [%rd1+512], 7, 7;\nsetp.eq.u32 %p3, %r12, 0;",
    "a load and a fence": "ld.relaxed.gpu.global.u32 %r12, [%rd1+512];\nsetp.eq.u32 %p3, %r12, 0;\nfence.acq_rel.gpu;",
}


def of_flag(wait: str) -> list[str]:
    text, y = kernel(FLAG.format(wait=wait)), np.zeros(1024, np.uint32)
    found = emulate(text, "kernel", 2, 1, [words(), y], on_finding="collect", budget=1 << 20).findings
    return [each.kind for each in found]


@pytest.mark.parametrize("name", POLLS)
def test_a_flag_that_is_read_and_not_looked_at_orders_nothing(name: str) -> None:
    assert of_flag(f"WAIT: {POLLS[name]}\n@%p3 bra WAIT;") == []
    assert of_flag(POLLS[name]) == [Kind.RACE]


def test_a_second_load_acquires_what_the_first_has_looked_at() -> None:
    relaxed = "WAIT: ld.relaxed.gpu.global.u32 %r12, [%rd1+512];\nsetp.eq.u32 %p3, %r12, 0;\n@%p3 bra WAIT;\n"
    assert of_flag(relaxed) == [Kind.RACE]
    assert of_flag(relaxed + "ld.acquire.gpu.global.u32 %r13, [%rd1+512];") == []
