"""A plain load whose value is only a guess that a compare-and-swap checks: a note; used otherwise: a race."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handwritten import kernel, run, words

from dsl.runtime.emulator import EmulatorError, Kind, Result, emulate

GUESSES = (Path(__file__).parent / "foreign" / "guess.ptx").read_text()
SEEDS = (0, 7)


def launch(entry: str, grid: int, block: int, args: list[Any], **options: Any) -> Result:
    return emulate(GUESSES, entry, grid, block, args, **options)


def is_noted(result: Result) -> bool:
    return not result.findings and all(each.kind == Kind.RACE and "guess" in each.message for each in result.notes)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_loop_of_the_cuda_guide_is_noted_and_right(seed: int) -> None:
    x, total, before = np.arange(1, 101, dtype=np.float32), np.zeros(1, np.float32), np.zeros(100, np.float32)
    result = launch("total", 3, 48, [x, total, before, 100], seed=seed)
    assert is_noted(result)
    chain = result.notes[0].location.chain()
    assert (chain[-1].file, chain[-1].line) == ("guess.cu", 10)
    assert total[0] == x.sum()
    assert sorted(before + x)[-1] == total[0] and len(set(before)) == 100


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loop_in_a_grid_stride_loop(seed: int) -> None:
    x, most = np.random.default_rng(1).standard_normal(1003), np.full(5, -np.inf)
    result = launch("maxima", 3, 64, [x, most, len(x)], seed=seed)
    assert is_noted(result) and result.notes
    np.testing.assert_array_equal(most, [x[first::5].max() for first in range(5)])


def test_a_loop_on_shared_memory() -> None:
    x, y = np.arange(256, dtype=np.float32), np.zeros(2, np.float32)
    result = launch("in_shared", 2, 128, [x, y])
    assert is_noted(result) and result.notes
    np.testing.assert_array_equal(y, x.reshape(2, 128).sum(1))


@pytest.mark.parametrize("entry", ["leaks", "gives_up"])
def test_a_guess_that_goes_elsewhere_is_a_race(entry: str) -> None:
    args: list[Any] = [words().astype(np.float32), np.zeros(1, np.float32), np.zeros(256, np.float32), 256]
    if entry == "gives_up":
        del args[2]
    with pytest.raises(EmulatorError) as caught:
        launch(entry, 2, 128, args)
    assert caught.value.finding.kind == Kind.RACE


LOOP = """ld.global.u32 %r10, [%rd1];
L: mov.u32 %r11, %r10;
add.u32 %r12, %r11, %r0;
atom.global.cas.b32 %r10, [%rd1], %r11, %r12;
setp.ne.s32 %p2, %r11, %r10;
@%p2 bra L;
"""

NOTES = {
    "the loop": LOOP,
    "what was there before, from the guess that was right": LOOP + "st.global.u32 [%rd4+64], %r11;",
    "one try": "ld.global.u32 %r10, [%rd1];\nadd.u32 %r12, %r10, 1;\n"
    "atom.global.cas.b32 %r13, [%rd1], %r10, %r12;\nst.global.u32 [%rd4+64], %r13;",
    "a new value that takes a guard": LOOP.replace(
        "add.u32 %r12, %r11, %r0;", "add.u32 %r12, %r11, %r0;\nsetp.gt.u32 %p5, %r12, 9;\n@%p5 mov.u32 %r12, 9;"
    ),
    "a generic address": "add.u64 %rd11, %rd1, 0;\n" + LOOP.replace(".global", "").replace("[%rd1]", "[%rd11]"),
}

RACES = {
    "the guess is stored": LOOP.replace("L:", "st.global.u32 [%rd4+64], %r10;\nL:"),
    "what is computed from it is stored": LOOP.replace("atom", "st.global.u32 [%rd4+64], %r12;\natom"),
    "a guess that was wrong is stored": LOOP.replace("@%p2", "st.global.u32 [%rd4+64], %r11;\n@%p2"),
    "it decides a branch": LOOP.replace("L:", "setp.eq.u32 %p5, %r10, 7;\n@%p5 bra END;\nL:") + "END:",
    "it is an address": LOOP.replace("add.u32 %r12", "cvt.u64.u32 %rd11, %r11;\nadd.u64 %rd11, %rd0, %rd11;\n"
                                     "ld.global.u32 %r14, [%rd11];\nadd.u32 %r12"),
    "it goes to another lane": LOOP.replace("L:", "shfl.sync.idx.b32 %r10, %r10, 0, 31, -1;\nL:"),
    "something else is compared with": LOOP.replace("[%rd1], %r11, %r12", "[%rd1], %r0, %r12"),
    "a copy that is changed is compared with": LOOP.replace("atom", "add.u32 %r11, %r11, 0;\natom"),
    "the swap is on another word": LOOP.replace("cas.b32 %r10, [%rd1]", "cas.b32 %r10, [%rd1+4]")
    + "red.global.add.u32 [%rd1], 1;",
    "the address changes between": LOOP.replace("L:", "add.u64 %rd1, %rd1, 0;\nL:"),
    "the new value comes from an older guess": "ld.global.u32 %r10, [%rd1];\nadd.u32 %r12, %r10, 1;\n"
    "ld.global.u32 %r11, [%rd1];\natom.global.cas.b32 %r13, [%rd1], %r11, %r12;",
    "the new value is kept from the first round": LOOP.replace("L: mov.u32 %r11, %r10;\nadd.u32 %r12, %r11, %r0;",
                                                                "add.u32 %r12, %r10, %r0;\nL: mov.u32 %r11, %r10;"),
    "nothing checks it": "ld.global.u32 %r10, [%rd1];\nadd.u32 %r10, %r10, 1;\nred.global.add.u32 [%rd1], 1;\n"
    "atom.global.cas.b32 %r13, [%rd1], 5, 6;\nmov.u32 %r11, %r13;",
    "another thread stores plainly": LOOP.replace("L:", "@%p0 st.global.u32 [%rd1], 0;\nL:"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_a_guess_is_noted(name: str) -> None:
    result, _ = run(NOTES[name])
    assert is_noted(result) and result.notes


@pytest.mark.parametrize("name", RACES)
def test_a_guess_used_otherwise_is_a_race(name: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(RACES[name])
    assert caught.value.finding.kind == Kind.RACE, str(caught.value.finding)


def test_a_note_does_not_keep_results_back() -> None:
    y = np.zeros(1024, np.uint32)
    result = emulate(kernel(LOOP), "kernel", 1, 64, [words(), y])
    assert y[0] == np.arange(64).sum() and len(result.notes) == 1


def test_a_load_that_something_orders_is_no_note() -> None:
    result, _ = run("@%p0 bra FIRST;\nbra END;\nFIRST: setp.ne.u32 %p6, %r0, 0;\n@%p6 bra END;\n" + LOOP + "END:")
    assert result.notes == []
