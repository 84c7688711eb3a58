"""A failed `expect` says who wrote the element, as it was in the launch that gave the result."""

from __future__ import annotations

from pathlib import Path

from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.report import Check
from dsl.examples.run import run_example
from dsl.text.program import load
from tests.work import at_most


def checked(tmp_path: Path, text: str) -> list[Check]:
    path = tmp_path / "k.tile"
    path.write_text(text)
    program = load(path)
    settings = LaunchSettings(time_limit=20)
    return run_example(program, program.examples[0], "emulator", "", Overrides(), settings).checks


def line_of(text: str, part: str) -> str:
    return f"k.tile:{text[: text.index(part)].count(chr(10)) + 1} "


TICKETS = """
kernel tickets(y: s32[n], ticket: s32[1]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    b = atomic_add(ticket[0], 1)
    i = b * BLOCK + arange(BLOCK)
    y[i] = i

example:
    n = 256
    y = empty(s32[n])
    ticket = zeros(s32[1])
    tickets(y, ticket)
    expect y == 7
"""


def test_the_writer_of_a_kernel_that_takes_tickets_is_the_one_of_its_first_run(tmp_path: Path) -> None:
    (check,) = checked(tmp_path, TICKETS)
    assert not check.passed
    assert check.writer is not None and line_of(TICKETS, "y[i] = i") in check.writer, check.writer


WAITING = """
kernel chain(y: s32[n], flags: s32[n]):
    grid n
    b = block(0)
    if b > 0:
        while atomic_cas(flags[b - 1], 1, 2, order=acquire) != 1:
            b = block(0)
    y[b] = b
    atomic_add(flags[b], 1, order=release)

example:
    n = 4
    y = empty(s32[n])
    flags = zeros(s32[n])
    chain(y, flags)
    expect y == 9
    expect y[1:3] == 9
"""


def test_a_failed_expect_of_a_chain_of_blocks_does_not_run_it_from_its_end(tmp_path: Path) -> None:
    with at_most(calls=2_000_000):
        checks = checked(tmp_path, WAITING)
    for check in checks:
        assert not check.passed
        assert check.writer is not None and line_of(WAITING, "y[b] = b") in check.writer, check.writer


SEVERAL = """
kernel fill(y: s32[n], first: s32, last: s32, value: s32):
    grid n
    b = block(0)
    if (b >= first) & (b < last):
        y[b] = value

example:
    n = 8
    y = zeros(s32[n])
    z = zeros(s32[n])
    fill(y, 0, 4, 1)
    fill(y, 2, 6, 2)
    fill(z, 0, 8, 3)
    expect y == 5
    expect y[6:8] == 5
    expect z == 3
"""


def test_the_last_of_several_launches_that_wrote_the_element_is_named(tmp_path: Path) -> None:
    first, second, third = checked(tmp_path, SEVERAL)
    assert first.first == [0] and first.writer is not None and line_of(SEVERAL, "y[b] = value") in first.writer
    assert second.writer == "nothing: no store reached it"
    assert third.passed and third.writer is None


ATOMIC_AFTER = """
kernel twice(y: s32[n]):
    grid n
    b = block(0)
    y[b] = 1
    barrier()
    atomic_add(y[b], 1)

example:
    n = 4
    y = zeros(s32[n])
    twice(y)
    expect y == 5
"""


def test_the_later_of_a_store_and_an_atomic_is_the_writer(tmp_path: Path) -> None:
    (check,) = checked(tmp_path, ATOMIC_AFTER)
    assert check.actual == 2
    assert check.writer is not None and line_of(ATOMIC_AFTER, "atomic_add") in check.writer, check.writer
