"""The kernels written by hand that benchmarks compare ours with: right in all types, at small and odd extents."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsl.text.program import load
from tests.run_examples import check, types_of

BY_HAND = Path(__file__).parents[2] / "benchmarks" / "peers" / "by_hand"
SHAPES = ("m=1 n=1 k=1", "m=17 n=63 k=65", "m=130 n=70 k=33")
EXAMPLES = [(path.name, i) for path in sorted(BY_HAND.glob("*.tile")) for i in range(len(load(path).examples))]


@pytest.mark.parametrize(("name", "index"), EXAMPLES)
def test_kernels_by_hand_are_right(name: str, index: int) -> None:
    program = load(BY_HAND / name)
    example = program.examples[index]
    for types in types_of(program, example):
        check(program, example, [*types, "m=40"], "emulator")
    for shape in SHAPES:
        check(program, example, shape.split(), "emulator")
