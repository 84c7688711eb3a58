"""Every sample's examples on the emulator at boundary shapes and for all types, and on a GPU where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsl.examples.overrides import assigned_names
from dsl.text.tree import Contract
from tests.run_examples import check, loaded, types_of
from tests.whole import some

SAMPLES = Path(__file__).parents[2] / "samples"
SHAPES = {
    "add.tile": ["n=0", "n=1", "n=255", "n=256", "n=1031", "n=4096"],
    "attention.tile": [
        "batch=0", "s=0 t=20", "s=1 t=1 d=8", "s=17 t=0", "s=33 t=65 d=40",
        "s=128 t=64 d=128 heads=3 kv_heads=1 batch=1",
        "s=129 t=127 d=77 heads=1 kv_heads=1 batch=1", "total=1 keys=1", "total=261 keys=70 d=128",
    ],
    "attention_backward.tile": [
        "batch=0", "s=0 t=20", "s=1 t=1 d=8", "s=17 t=0", "s=33 t=65 d=40",
        "s=66 t=31 d=128 heads=3 kv_heads=1 batch=1",
        "s=65 t=66 d=77 heads=1 kv_heads=1 batch=1",
    ],
    "conv1d.tile": ["n=0", "n=1", "n=2", "n=127", "n=128", "n=129", "n=1031"],
    "cross_entropy.tile": [
        "rows=0 cols=8", "rows=3 cols=1", "rows=5 cols=31", "rows=1 cols=33", "rows=2 cols=1025", "rows=2 cols=16392",
        "rows=1 cols=40007",
    ],
    "decode.tile": [
        "t=0 batch=1", "t=1 s=3 heads=3 kv_heads=3", "t=129 s=9 d=72", "p=16 most=9 d=128",
        "batch=0", "window=1", "window=599 s=1 d=40",
    ],
    "gelu.tile": ["n=1", "n=511", "n=1024", "n=1031"],
    "int8_conv.tile": [
        "images=0", "images=1 c=32 h=1 k=32 r=1", "images=3 c=96 h=7 k=96 r=3", "images=1 c=32 h=9 k=64 r=5",
        "images=2 c=64 h=8 k=32 r=7",
    ],
    "layer_norm.tile": [
        "rows=0 cols=8", "rows=3 cols=1", "rows=5 cols=31", "rows=4 cols=64", "rows=300 cols=33", "rows=9 cols=1000",
        "rows=2 cols=1025", "rows=1 cols=4099", "rows=2 cols=8200", "rows=34 cols=8201", "rows=1 cols=16392",
        "rows=8001 cols=24",
    ],
    "matmul.tile": ["m=0", "k=0", "m=1 n=1 k=1", "m=16 n=64 k=64", "m=17 n=63 k=65", "m=129 n=66 k=24"],
    "matmul_grouped.tile": ["m=0", "k=0", "m=1 g=1", "m=130 n=264 k=136 g=3", "m=40 n=8 k=8 g=9"],
    "matmul_scaled.tile": ["m=0", "k=0", "m=1 n=128 k=128", "m=65 n=256 k=256"],
    "matmul_w4.tile": ["m=0", "n=0", "k=0", "m=1 n=64 k=128", "m=65 n=128 k=256"],
    "matmul_steps.tile": ["m=1 n=1 k=1", "m=16 n=64 k=64", "m=17 n=63 k=65"],
    "reduce.tile": [
        "n=1", "n=31", "n=4099", "n=8192", "rows=0 cols=3", "rows=3 cols=1", "rows=5 cols=31", "rows=9 cols=1024",
        "rows=2 cols=1025", "rows=1 cols=40007", "n=65 cols=1",
        "n=1025 cols=33", "outer=1 n=1 inner=1", "outer=2 n=1500 inner=3",
    ],
    "reduction.tile": ["n=0", "n=1", "n=31", "n=255", "n=256", "n=257", "n=511", "n=512", "n=513", "n=5003"],
    "rmsnorm.tile": [
        "rows=3 cols=1", "rows=5 cols=31", "rows=4 cols=64", "rows=9 cols=1000", "rows=2 cols=1024",
        "rows=2 cols=1025", "rows=1 cols=4099", "rows=2 cols=16392",
    ],
    "softmax.tile": [
        "rows=0 cols=8", "rows=3 cols=0", "rows=3 cols=1", "rows=5 cols=31", "rows=4 cols=32", "rows=1 cols=33",
        "rows=9 cols=1000",
        "rows=2 cols=1025", "rows=1 cols=4099", "rows=2 cols=16392", "rows=1 cols=40007", "rows=2 cols=65544",
    ],
    "softmax_backward.tile": [
        "rows=0 cols=8", "rows=3 cols=0", "rows=3 cols=1", "rows=5 cols=31", "rows=4 cols=32", "rows=1 cols=33",
        "rows=9 cols=1000",
        "rows=2 cols=1025", "rows=1 cols=4099", "rows=2 cols=16392", "rows=1 cols=40007", "rows=1 cols=65544",
    ],
    "softmax_fused.tile": [
        "rows=0 cols=8", "rows=3 cols=0", "rows=3 cols=31", "rows=5 cols=1000", "rows=2 cols=1025", "rows=1 cols=8199",
        "rows=2 cols=16389", "rows=1 cols=100001",
    ],
}  # fmt: skip
"""Boundary extents: nothing, one, a power of two, one beside it, a prime, and both sides of each dispatch's limits."""
SMALL = {"rows": 8, "n": 3000, "m": 40}


def examples() -> list[tuple[str, int]]:
    return [(path.name, i) for path in sorted(SAMPLES.glob("*.tile")) for i in range(len(loaded(path).examples))]


@pytest.mark.long
@pytest.mark.parametrize(("name", "index"), examples())
def test_examples_pass_for_all_types(name: str, index: int) -> None:
    """Of the first types as it is written, with what it says of its code; of the others with fewer rows."""
    program = loaded(SAMPLES / name)
    example = program.examples[index]
    small = [f"{dim}={extent}" for dim, extent in SMALL.items() if dim in assigned_names(example)]
    first, *others = types_of(program, example)
    check(program, example, first, "emulator", contracts=True)
    for types in others:
        check(program, example, [*types, *small], "emulator")


@pytest.mark.long
@pytest.mark.parametrize(("name", "shape"), some([(name, shape) for name in SHAPES for shape in SHAPES[name]], 2))
def test_boundary_shapes(name: str, shape: str) -> None:
    program, names = loaded(SAMPLES / name), {word.partition("=")[0] for word in shape.split()}
    examples = [example for example in program.examples if names <= set(assigned_names(example))]
    assert examples
    for example in examples:
        check(program, example, shape.split(), "emulator")


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "index"), examples())
def test_examples_pass_on_a_gpu(name: str, index: int) -> None:
    program = loaded(SAMPLES / name)
    for types in types_of(program, program.examples[index]):
        check(program, program.examples[index], types, "cuda:0", contracts=True)


@pytest.mark.parametrize("shape", ["m=130 n=96 k=40", "m=1 n=3 k=0", "m=65 n=17 k=3 T=f16", "m=300 n=129 k=33"])
def test_the_example_with_a_cost_of_its_own(shape: str) -> None:
    program = loaded(SAMPLES.parent / "docs" / "examples" / "distances.tile")
    check(program, program.examples[0], shape.split(), "emulator")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("shape", ["s=150 window=40", "s=300 t=300 d=128 window=130", "s=64 t=200 d=72 window=1"])
def test_a_kernel_of_its_own_takes_the_schedules_of_attention(shape: str, arch: str) -> None:
    program = loaded(SAMPLES.parent / "docs" / "examples" / "window_attention.tile")
    check(program, program.examples[0], shape.split(), "emulator", arch=arch)


def test_every_sample_says_what_its_code_costs() -> None:
    for path in SAMPLES.glob("*.tile"):
        lines = [line for example in loaded(path).examples for line in example.lines]
        assert any(isinstance(line, Contract) for line in lines), path.name


def test_every_sample_has_boundary_shapes() -> None:
    assert {path.name for path in SAMPLES.glob("*.tile")} <= SHAPES.keys()
