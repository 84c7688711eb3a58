"""What the language writes down as a word is what operations take as an attribute of that name."""

from __future__ import annotations

import pytest

from dsl.kernels.compile import lower
from dsl.kernels.variant import Request
from dsl.lowering.ops.kinds import ATTRIBUTES
from dsl.schedules.properties import PROPERTIES, Word
from dsl.text.program import parse_program
from dsl.values.functions.memory import EVICTIONS

KERNEL = """
kernel k(y: f32[n], x: f32[n]):
    grid cdiv(n, 128)
    i = block(0) * 128
    v = load(x[i : i + 128], {load})
    store(y[i : i + 128], v, {store})

schedule s of k:
    warps = 1
"""


@pytest.mark.parametrize(
    ("load", "store"),
    [
        *((f'evict="{word}"', f'evict="{word}"') for word in EVICTIONS.split("|")),
        *((f'cache="{word}"', 'cache="global"') for word in ("all", "streaming", "last_use", "volatile")),
        *(('cache="global"', f'cache="{word}"') for word in ("write_back", "streaming", "write_through", "volatile")),
    ],
)
def test_what_accesses_say_passes_every_check(load: str, store: str) -> None:
    text = KERNEL.format(load=load, store=store).replace('"', "")
    lower(parse_program(text), Request("k", "s", {"n": 1024}), check=True)


@pytest.mark.parametrize("name", ["evict", "cache"])
def test_what_schedules_say_of_tensors_is_a_word_of_accesses(name: str) -> None:
    takes = PROPERTIES[name].takes
    assert isinstance(takes, Word) and all(ATTRIBUTES[name][0](word) for word in takes.words)
