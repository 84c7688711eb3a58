"""The kernels written by hand that benchmarks compare ours with: right in all types, at small and odd extents."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsl.examples.overrides import assigned_names
from tests.run_examples import check, loaded, types_of
from tests.whole import some

BY_HAND = Path(__file__).parents[2] / "benchmarks" / "peers" / "by_hand"
SMALL = ("m=17 n=63 k=33", "rows=8", "n=3000")
"""The first one whose names an example has, for all types."""
SHAPES = ("rows=5 cols=31", "rows=2 cols=5003", "n=4099")
IMAGES = ("images=1 c=32 h=1 k=32 r=1", "images=3 c=96 h=7 k=96 r=3", "images=1 c=32 h=9 k=64 r=5")
"""Of convolutions, whose own shape is large."""
EXAMPLES = [(path.name, i) for path in sorted(BY_HAND.glob("*.tile")) for i in range(len(loaded(path).examples))]


@pytest.mark.long
@pytest.mark.parametrize(("name", "index"), some(EXAMPLES, 6))
def test_kernels_by_hand_are_right(name: str, index: int) -> None:
    program = loaded(BY_HAND / name)
    example = program.examples[index]
    known = set(assigned_names(example))

    def suits(shape: str) -> bool:
        return {word.partition("=")[0] for word in shape.split()} <= known

    small = next((shape.split() for shape in SMALL if suits(shape)), [])
    for types in types_of(program, example) if "images" not in known else ():
        check(program, example, [*types, *small], "emulator")
    for shape in filter(suits, (*SHAPES, *IMAGES)):
        check(program, example, shape.split(), "emulator")
