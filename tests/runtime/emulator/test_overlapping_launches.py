"""Launches that start before those in front of them have ended: what the emulator finds where a wait is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.runtime.emulator import EmulatorError, Finding, Kind, Memory, Touched, emulate

BLOCK, N = 64, 128
HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry {name}(.param .u64 {name}_y, .param .u64 {name}_t, .param .u64 {name}_x)
{{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [{name}_y];
    ld.param.u64 %rd2, [{name}_t];
    ld.param.u64 %rd3, [{name}_x];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd4, %r4, 4;
    add.s64 %rd1, %rd1, %rd4;
    add.s64 %rd2, %rd2, %rd4;
    add.s64 %rd3, %rd3, %rd4;
"""
FIRST = (  # t = x + x
    HEAD.format(name="first")
    + """
    griddepcontrol.launch_dependents;
    ld.global.u32 %r5, [%rd3];
    add.u32 %r5, %r5, %r5;
    st.global.u32 [%rd2], %r5;
    ret;
}
"""
)
WAIT, LOAD, STORE = "    griddepcontrol.wait;", "    ld.global.u32 %r6, [%rd2];", "    st.global.u32 [%rd1], %r6;"
SECOND = (  # y = t + x
    HEAD.format(name="second")
    + f"""
    griddepcontrol.launch_dependents;
    ld.global.u32 %r5, [%rd3];
{WAIT}
{LOAD}
    add.u32 %r6, %r6, %r5;
{STORE}
    ret;
}}
"""
)


class Chain:
    """Launches in one memory, each but the first before those in front of it have ended."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.x = np.arange(N, dtype=np.uint32)
        zeros = np.zeros(N, np.uint32)
        self.arrays = {"y": self.memory.allocate(zeros, "y"), "t": self.memory.allocate(zeros, "t")}
        self.arrays["x"] = self.memory.allocate(self.x, "x")
        self.touched: list[Touched] | None = None

    def launch(self, ptx: str, name: str, arrays: str = "y t x") -> None:
        given = [self.arrays[each] for each in arrays.split()]
        done = emulate(ptx, name, N // BLOCK, BLOCK, given, after=self.touched, keeps=True)
        self.touched = [*(self.touched or []), *done.touched]

    def value(self, name: str) -> np.ndarray:
        return self.memory.read(self.arrays[name], np.uint32, N)


def found_in(second: str) -> Finding:
    """What is found where this follows FIRST; without the attribute nothing is."""
    alone = Chain()
    alone.launch(FIRST, "first")
    alone.touched = None
    alone.launch(second, "second")
    chain = Chain()
    chain.launch(FIRST, "first")
    with pytest.raises(EmulatorError) as error:
        chain.launch(second, "second")
    return error.value.finding


def line_of(text: str, ptx: str) -> int:
    (line,) = (number for number, each in enumerate(ptx.splitlines(), 1) if each == text)
    return line


def test_a_wait_orders_all_behind_it() -> None:
    chain = Chain()
    chain.launch(FIRST, "first")
    chain.launch(SECOND, "second")
    chain.launch(SECOND, "second", "t y x")  # what the first has read and written is behind the second's wait
    assert (chain.value("y") == 3 * chain.x).all() and (chain.value("t") == 4 * chain.x).all()


SHORT = """\
    .shared .align 16 .b8 s[256];
    mov.u64 %rd6, s;
    mul.wide.u32 %rd7, %r3, 4;
    add.s64 %rd6, %rd6, %rd7;
    cp.async.ca.shared.global [%rd6], [%rd3], 4, 3;
    cp.async.wait_all;
"""


def test_a_copy_with_a_short_source_is_kept_by_whole_granules() -> None:
    """Each of its bytes is read by itself, and granules of this launch have 4: that was a ValueError."""
    chain = Chain()
    chain.launch(FIRST, "first")
    chain.launch(SECOND.replace(WAIT, SHORT + WAIT), "second")
    assert (chain.value("y") == 3 * chain.x).all()


MOVED = {
    "no wait": (SECOND.replace(WAIT + "\n", ""), Kind.RACE, LOAD),
    "a wait behind the load": (SECOND.replace(f"{WAIT}\n{LOAD}", f"{LOAD}\n{WAIT}"), Kind.RACE, LOAD),
    "a wait that some blocks skip": (
        SECOND.replace(
            WAIT, f"    setp.ne.u32 %p, %r1, 0;\n    @%p bra over;\n{WAIT}\nover:\n    @%p bra done;"
        ).replace("    ret;", "done:\n    ret;"),
        Kind.NO_WAIT,
        "    ret;",
    ),
    "a wait that some threads skip": (
        SECOND.replace(WAIT, "    setp.eq.u32 %p, %r3, 0;\n    @%p griddepcontrol.wait;"),
        Kind.RACE,
        LOAD,
    ),
    "the attribute and nothing to wait for": (
        SECOND.replace(WAIT + "\n", "").replace(LOAD, "    mov.u32 %r6, 0;").replace(STORE, "    mov.u32 %r6, 1;"),
        Kind.NO_WAIT,
        "    ret;",
    ),
    "a write before the wait": (
        SECOND.replace(WAIT, f"    st.global.u32 [%rd3], %r5;\n{WAIT}"),
        Kind.RACE,
        "    st.global.u32 [%rd3], %r5;",
    ),
}


@pytest.mark.parametrize("fault", MOVED)
def test_what_a_wrong_wait_leaves_open_is_found_at_its_line(fault: str) -> None:
    ptx, kind, line = MOVED[fault]
    finding = found_in(ptx)
    assert (finding.kind, finding.ptx_line) == (kind, line_of(line, ptx))
    if kind == Kind.RACE:
        touched = "    ld.global.u32 %r5, [%rd3];" if "%rd3" in line else "    st.global.u32 [%rd2], %r5;"
        assert finding.last_writer is not None
        assert f"(PTX line {line_of(touched, FIRST)}) of first" in finding.last_writer


def test_one_thread_may_wait_for_those_who_meet_it_at_a_barrier() -> None:
    one = "    setp.eq.u32 %p, %r3, 0;\n    @%p griddepcontrol.wait;"
    chain = Chain()
    chain.launch(FIRST, "first")
    chain.launch(SECOND.replace(WAIT, f"{one}\n    bar.sync 0;"), "second")
    assert (chain.value("y") == 3 * chain.x).all()


def test_the_third_launch_overlaps_the_first() -> None:
    """The second lets it start before it has waited itself: what the first writes is open, though the second is not
    to touch it."""
    chain = Chain()
    chain.launch(FIRST, "first")
    chain.launch(SECOND, "second", "y y x")
    early = SECOND.replace(f"{WAIT}\n{LOAD}", f"{LOAD}\n{WAIT}")
    with pytest.raises(EmulatorError, match="of first"):
        chain.launch(early, "second", "y t x")
