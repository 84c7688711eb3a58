"""Random programs of accesses, fences and barriers: the emulator and `order_reference.py` find the same first race.

`DSL_ORDER_PROGRAMS` sets how many programs are tried.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from handwritten import kernel
from order_reference import CTA, GPU, Machine, Step

from dsl.runtime.emulator import EmulatorError, Kind, emulate
from dsl.runtime.emulator.delays import Delays

PROGRAMS = int(os.environ.get("DSL_ORDER_PROGRAMS", "150"))
CHUNKS = 5
WORDS = 3


def chosen(source: random.Random, count: int) -> tuple[int, ...]:
    """One thread, a few, a warp, or all."""
    how = source.random()
    if how < 0.55:
        return (source.randrange(count),)
    if how < 0.85:
        return tuple(sorted(source.sample(range(count), source.randint(2, 4))))
    if how < 0.95:
        first = 32 * source.randrange(count // 32)
        return tuple(range(first, first + 32))
    return tuple(range(count))


def random_step(source: random.Random, count: int) -> Step:
    kind = source.choices(["ld", "st", "atom", "red", "fence", "bar", "warp"], [5, 4, 6, 3, 5, 3, 2])[0]
    if kind in ("bar", "warp"):
        return Step(kind, threads=tuple(range(count)))
    threads = chosen(source, count)
    scope = source.choices([GPU, CTA], [4, 1])[0]
    if kind == "fence":
        return Step(kind, scope=scope, threads=threads)
    orders = {
        "ld": ["weak", "weak", "relaxed", "acquire"],
        "st": ["weak", "weak", "relaxed", "release"],
        "atom": ["relaxed", "acquire", "release", "acq_rel"],
        "red": ["relaxed", "release"],
    }[kind]
    order = source.choice(orders)
    word = 0 if order == "weak" and source.random() < 0.7 else source.randrange(1, WORDS)
    words = tuple(word for _ in threads)
    if kind == "st" and order == "weak" and len(threads) > 1:
        threads, words = threads[:1], words[:1]
    return Step(kind, order, scope, threads, words)


def program_of(seed: int) -> tuple[list[Step], int, int]:
    source = random.Random(seed)
    blocks, threads = source.choice([(1, 64), (2, 32), (2, 64), (3, 32)])
    steps = [random_step(source, blocks * threads) for _ in range(source.randint(4, 16))]
    return steps, blocks, threads


def text_of(steps: list[Step], count: int) -> str:
    """One line for each step; the table in x says which threads take part."""
    lines = []
    for number, step in enumerate(steps):
        if step.kind == "bar":
            lines.append("bar.sync 0;")
            continue
        if step.kind == "warp":
            lines.append("bar.warp.sync -1;")
            continue
        asked = f"ld.global.nc.u32 %r10, [%rd5+{4 * count * number}]; setp.ne.u32 %p2, %r10, 0; @%p2 "
        order = "" if step.order == "weak" else f".{step.order}.{step.scope}"
        at = f"[%rd1+{4 * step.words[0]}]" if step.words else ""
        lines.append(
            asked
            + {
                "ld": f"ld{order}.global.u32 %r11, {at};",
                "st": f"st{order}.global.u32 {at}, 1;",
                "atom": f"atom{order}.global.add.u32 %r11, {at}, 1; xor.b32 %r12, %r11, 1;",
                "red": f"red{order}.global.add.u32 {at}, 1;",
                "fence": f"fence.acq_rel.{step.scope};",
            }[step.kind]
        )
    return "\n".join(lines)


def table_of(steps: list[Step], count: int) -> np.ndarray:
    table = np.zeros((len(steps), count), np.uint32)
    for number, step in enumerate(steps):
        table[number, list(step.threads)] = 1
    return table.reshape(-1)


def first_race(steps: list[Step], blocks: int, threads: int) -> int | None:
    count = blocks * threads
    try:
        arrays = [table_of(steps, count), np.zeros(64, np.uint32)]
        emulate(kernel(text_of(steps, count)), "kernel", blocks, threads, arrays)
    except EmulatorError as error:
        finding = error.finding
        assert finding.kind == Kind.RACE and finding.line is not None, finding
        return finding.line - 1
    return None


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_first_race_is_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delays, "late", lambda *_: None)  # else a load may acquire less than in the reference's run
    for seed in range(chunk, PROGRAMS, CHUNKS):
        steps, blocks, threads = program_of(seed)
        expected = Machine(blocks, threads).racy(steps)
        found = first_race(steps, blocks, threads)
        assert found == expected, (seed, blocks, threads, steps)


def test_programs_are_of_both_kinds() -> None:
    races = [Machine(blocks, threads).racy(steps) for steps, blocks, threads in map(program_of, range(40))]
    assert 5 < sum(each is None for each in races) < 35
