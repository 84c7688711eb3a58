"""What every sample's examples launch means the same before the passes, after each, and as PTX."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsl.examples.overrides import assigned_names
from dsl.lowering.passes import PASSES
from dsl.studies.verify import verify_example
from tests.run_examples import loaded

SAMPLES = Path(__file__).parents[2] / "samples"
SMALL = {"rows": 2, "n": 300, "m": 40}
EXAMPLES = [(path.name, i) for path in sorted(SAMPLES.glob("*.tile")) for i in range(len(loaded(path).examples))]


@pytest.mark.long
@pytest.mark.parametrize(("name", "index"), EXAMPLES)
def test_every_stage_of_a_sample_agrees(name: str, index: int) -> None:
    program = loaded(SAMPLES / name)
    example = program.examples[index]
    small = [f"{dim}={extent}" for dim, extent in SMALL.items() if dim in assigned_names(example)]
    found = verify_example(program, example, small, most=2, boundaries=())
    assert found.kernels and not found.refused
    for kernel in found.kernels:
        assert kernel.divergence is None and kernel.undecided is None, str(kernel.divergence)
        assert kernel.levels == len(PASSES) and kernel.values > 0
