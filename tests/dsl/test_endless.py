"""Launches without an end on the emulator: what they wait for, and who could change it; and waits that do end."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import dsl
from dsl.runtime.errors import FindingError
from tests.work import at_most

SECONDS = 20
WAITS = """
kernel k(y: s32[n], flags: s32[n]):
    grid n
    b = block(0)
    if b == 1:
        while {condition}:
            b = block(0)
    y[b] = b
    if b == 7:
        atomic_add(flags[0], 1, order=release)
"""


def fault(text: str, blocks: int = 4, **options: float) -> tuple[str, int | None]:
    kernel = dsl.parse(text, "k.tile", device="emulator").compile("k")
    with nullcontext() if options else at_most(calls=4_000_000), pytest.raises(FindingError) as caught:
        kernel.run(np.zeros(blocks, np.int32), np.zeros(blocks, np.int32), **options)
    return str(caught.value), caught.value.line


@pytest.mark.long
@pytest.mark.parametrize(
    "condition",
    [
        "atomic_or(flags[0], 0, order=acquire) == 0",
        "atomic_or(flags[0], 0, order=relaxed) == 0",
        "atomic_cas(flags[0], 1, 2, order=acquire) != 1",
        "atomic_add(flags[0], 0, order=acquire) == 0",
    ],
)
def test_a_wait_that_nothing_can_end_is_found_at_once_with_its_word(condition: str) -> None:
    message, line = fault(WAITS.format(condition=condition))
    assert "deadlock" in message and "nothing changes any more" in message
    assert line == 6
    assert "k.tile:6 reads bytes 0 to 3 of flags, which hold 0" in message
    assert "flags is also changed at k.tile:10" in message
    assert "128 threads are still there, 384 have ended" in message


COUNTS = """
kernel k(y: s32[n], flags: s32[n]):
    grid n
    b = block(0)
    turns = 0
    while atomic_or(flags[0], 0, order=acquire) == 0:
        turns = turns + 1
    y[b] = turns
"""


@pytest.mark.parametrize("options", [{"budget": 3_000_000}, {"time_limit": 0.5}])
def test_a_limit_names_what_a_loop_that_counts_its_turns_waits_for(options: dict[str, float]) -> None:
    message, line = fault(COUNTS, **options)
    assert ("instruction budget" if "budget" in options else "time limit") in message
    assert line == 6
    assert "k.tile:6 reads bytes 0 to 3 of flags, which hold 0; " in message
    assert "nothing else in the kernel changes flags" in message


ALONE = """
kernel k(y: s32[n], x: s32[n]):
    grid n
    b = n
    while b > 0:
        b = maximum(b, 1)
    y[0] = b
"""


def test_a_loop_that_reads_nothing_waits_for_nothing_and_is_found_at_once() -> None:
    message, line = fault(ALONE)
    assert "deadlock" in message and "nothing changes any more" in message
    assert line == 5 and "no loop that runs reads what another thread may write" in message


def test_a_loop_that_counts_on_has_its_limit() -> None:
    message, line = fault(ALONE.replace("maximum(b, 1)", "maximum(b, 1) + 2"), time_limit=0.3)
    assert "time limit" in message and line == 5


MEETS = """
kernel k(y: s32[n], flags: s32[n]):
    grid n
    b = block(0)
    atomic_add(flags[0], 1, order=release)
    turns = 0
    while atomic_or(flags[0], 0, order=acquire) < n:
        turns = 0
    y[b] = b
"""


def test_blocks_that_wait_for_all_of_a_grid_of_many_waves_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The barrier in each turn of the loop must not hide that the wave only waits: later blocks have to start."""
    monkeypatch.setattr("dsl.runtime.emulator.wave.BACK_EDGES", 2)  # 64 take seconds
    kernel = dsl.parse(MEETS, "k.tile", device="emulator").compile("k")
    y, flags = np.zeros(700, np.int32), np.zeros(700, np.int32)
    kernel.run(y, flags, time_limit=SECONDS)
    assert (y == np.arange(700)).all()


BACK_OFF = """
kernel k(y: s32[n], flags: s32[n]):
    grid n
    b = block(0)
    if b == 0:
        i = 0
        while i < 1500:
            i = i + 1
        atomic_add(flags[0], 1, order=release)
    else:
        while atomic_or(flags[0], 0, order=acquire) == 0:
            b = block(0)
    y[b] = b
"""


def test_a_long_loop_before_the_flag_is_no_deadlock() -> None:
    kernel = dsl.parse(BACK_OFF, "k.tile", device="emulator").compile("k")
    y, flags = np.zeros(4, np.int32), np.zeros(4, np.int32)
    kernel.run(y, flags, time_limit=SECONDS)
    assert (y == np.arange(4)).all()
