"""Stores of one constant by many threads, and of one value by lanes of a warp: notes, since the place holds the same
whoever came last. All else is a race.
"""

from __future__ import annotations

import pytest
from handwritten import run

from dsl.runtime.emulator import EmulatorError, Kind

SET = "st.shared.u32 [%r2], 5;"
READ = "bar.sync 0;\nld.shared.u32 %r10, [%r2];\nst.global.u32 [%rd4], %r10;"
NOTES = {
    "all threads": f"{SET}\n{READ}",
    "two constants at once": f"st.shared.v2.u32 [%r2], {{5, 6}};\n{READ}",
    "a register that holds a constant": f"mov.u32 %r11, 5;\nst.shared.u32 [%r2], %r11;\n{READ}",
    "one lane of each warp": f"@%p0 {SET}\n{READ}",
    "lanes of a warp that have one value": f"vote.sync.ballot.b32 %r11, %p1, -1;\npopc.b32 %r11, %r11;\n"
    f"sub.u32 %r11, %r11, 27;\n@%p1 st.shared.u32 [%r2], %r11;\n{READ}",
    "pairs of values": "mov.u32 %r11, %ntid.x;\nsub.u32 %r11, %r11, 59;\n"
    f"@%p1 st.shared.v2.u32 [%r2], {{%r11, %r11}};\n{READ}",
}
RACES = {
    "another store": f"{SET}\nst.shared.u32 [%r2], 5;\n{READ}",
    "another value": f"mov.u32 %r11, 5;\nadd.u32 %r11, %r11, %r6;\nst.shared.u32 [%r2], %r11;\n{READ}",
    "a value that two warps have": f"mov.u32 %r11, %ntid.x;\nst.shared.u32 [%r2], %r11;\n{READ}",
    "one of the lanes has another value": f"shr.u32 %r11, %r6, 4;\n@%p1 st.shared.u32 [%r2], %r11;\n{READ}",
    "a value beside the constant": f"st.shared.v2.u32 [%r2], {{5, %r0}};\n{READ}",
    "a read that nothing orders": f"{SET}\nld.shared.u32 %r10, [%r2];\nst.global.u32 [%rd4], %r10;",
    "a copy to the same place": f"@%p0 cp.async.ca.shared.global [%r2], [%rd0], 4;\n{SET}\ncp.async.wait_all;\n{READ}",
}


# Register 11 is 4 or 5 in all 32 lanes of the first warp, which store it at one place.
CLEARED = "@%p2 st.shared.u32 [%r2], 4;\nbar.sync 0;\nld.shared.u32 %r10, [%r2];\nbar.sync 0;\n"
UPDATES = {"add.u32 %r11, %r10, 1": True, "max.u32 %r11, %r10, 5": False, "or.b32 %r11, %r10, 1": False}


@pytest.mark.parametrize("update", UPDATES)
def test_equal_lanes_that_add_to_what_they_loaded_lose_counts(update: str) -> None:
    body = f"setp.eq.u32 %p2, %r0, 0;\n{CLEARED}{update};\n@%p1 st.shared.u32 [%r2], %r11;\n{READ}"
    if UPDATES[update]:
        with pytest.raises(EmulatorError) as caught:
            run(body)
        assert caught.value.finding.kind == Kind.RACE and "both write the same" not in caught.value.finding.message
    else:
        result, y = run(body)
        assert [note.kind for note in result.notes] == [Kind.RACE] and (y[:64] == 5).all()


@pytest.mark.parametrize("name", NOTES)
def test_what_is_noted(name: str) -> None:
    result, y = run(NOTES[name])
    (note,) = result.notes
    assert note.kind == Kind.RACE and "both write the same" in note.message
    assert (y[:64] == 5).all()


@pytest.mark.parametrize("name", RACES)
def test_others_there_are_found(name: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(RACES[name])
    assert caught.value.finding.kind in (Kind.RACE, Kind.IN_FLIGHT), str(caught.value.finding)


def test_a_race_beside_the_same_constants_is_found() -> None:
    """Behind one store some of the words are written by another thread, others by the same store."""
    body = "@%p1 st.shared.u32 [%r5], %r0;\nshr.u32 %r10, %r6, 1;\nshl.b32 %r10, %r10, 3;\nadd.u32 %r10, %r2, %r10;\n"
    with pytest.raises(EmulatorError) as caught:
        run(f"{body}add.u32 %r10, %r10, 64;\nst.shared.u32 [%r10], 5;")
    assert "the same" not in caught.value.finding.message
