"""An output that a call leaves out: its type by a default or by name, its extents as the kernel declares them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.examples.shapes import UNKNOWN, examine
from dsl.text.program import parse_program
from dsl.values.facts import ArrayFacts

sys.path.insert(0, str(Path(__file__).resolve().parent))
from declared_kernels import RULES

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(scope="module")
def rules() -> dsl.Module:
    return dsl.parse(RULES, device="emulator")


def test_declared_extents_and_default_types_decide_outputs(rules: dsl.Module) -> None:
    x = np.arange(34, dtype=np.float32)
    assert (rules.shorter(x) == x[:32]).all()
    assert rules.blocks(x, 1).shape == (2,) and rules.blocks(x, 2).shape == (1,)
    assert rules.blocks(x, 1, B=16).shape == (3,)
    assert rules.wider(x).dtype == np.float32 and rules.wider(x.astype(np.int8)).dtype == np.int32
    assert rules.wider(x, O="f16").dtype == np.float16 and rules.any_type(x, O="f16").dtype == np.float16
    assert rules.single(x.astype(np.float16)).dtype == np.float32
    assert rules.compile("wider", T="f32").header.params[0].dtype == "f32"  # it was the first type


def test_a_declared_extent_is_checked(rules: dsl.Module) -> None:
    x, y = np.zeros(34, np.float32), np.zeros(33, np.float32)
    with pytest.raises(dsl.LaunchError, match=r"requires n = m - 2 \(m = 34, n = 33\)"):
        rules.shorter(y, x)
    with pytest.raises(dsl.TileError, match="an optional tensor declares no extents"):
        parse_program("kernel k(x: f32[n], y: f32[m = n]?):\n    grid 1\n    x[0 : 1] = 0.0\n")


def rules_of(parameters: str) -> dsl.Module:
    return dsl.parse(f"kernel k({parameters}):\n    grid 1\n    y[0 : 1] = 0.0\n", device="emulator")


def test_an_output_that_does_not_follow_is_an_error(rules: dsl.Module) -> None:
    x = np.zeros(32, np.float32)
    with pytest.raises(dsl.TileError, match="the type of the output 'y' does not follow") as caught:
        rules.any_type(x)
    assert "O=" in (caught.value.hint or "")
    with pytest.raises(dsl.TileError, match="'O' is one of f16, f32; not bf16"):
        rules.any_type(x, O="bf16")
    with pytest.raises(dsl.TileError, match="'y' does not follow"):
        rules_of("y: f32[n = q], x: f32[m]").k(x)
    with pytest.raises(dsl.TileError, match="'n' is a count; it would be -1"):
        rules_of("y: f32[n = m - 33], x: f32[m]").k(x)
    with pytest.raises(dsl.TileError, match=r"'n' is a count; it would be 16\.0"):
        rules_of("y: f32[n = 0.5 * m], x: f32[m]").k(x)
    with pytest.raises(dsl.TileError, match="'y' does not follow"):
        rules_of("y: f32[n = k, k = n], x: f32[m]").k(x)
    with pytest.raises(dsl.TileError, match="'n' has no extent"):
        rules_of("y: f32[n = m // (m - 32)], x: f32[m]").k(x)
    with pytest.raises(dsl.TileError, match="the default of a type parameter is a type"):
        rules_of("y: O[m], x: f32[m]; O in f16|f32 = 3").k(x)


def test_all_functions_of_the_samples_can_leave_out_their_outputs() -> None:
    """15 of 43 had no rule for the type or the shape of an output, so that c = m.matmul(a, b) was an error."""
    asked = {}
    for path in sorted(SAMPLES.glob("*.tile")):
        module = dsl.load(path, device="emulator")
        for example in module.program.examples:
            for launch in examine(module.program, example).launches:
                called = module[launch.line.name].called
                given = {p: value for p, value in launch.arguments.items() if value is not UNKNOWN}
                if not {*called.tensors} <= {p for p in called.params if p in given}:
                    continue
                left = [p for p in called.leading if p not in called.accesses[1]]
                facts = {p: None if p in left else value for p, value in given.items()}
                types = {n: v for n, v in launch.rest.items() if isinstance(v, str | bool | int | float)}
                if (own := called.array(left[0])) is not None and own.dtype == "O":
                    types["O"] = given[left[0]].dtype  # an example may ask for another type than the default
                found = {each.name: (each.shape, each.dtype) for each in called.outputs(facts, types)}
                wanted = {p: (given[p].shape, given[p].dtype) for p in left if isinstance(given[p], ArrayFacts)}
                assert found == wanted, (path.stem, launch.line.name)
                asked[path.stem, launch.line.name] = len(found)
    assert len(asked) > 35 and min(asked.values()) > 0


def test_an_extent_that_compares_types_takes_no_code() -> None:
    """The device checked asserts that read a type: 21 lines of PTX in a convolution."""
    m = rules_of("y: T[n = m * where(T == f16, 2, 1)], x: T[m]; T in f16|f32")
    for dtype, count in (("f16", 64), ("f32", 32)):
        header = m.compile("k", T=dtype).header
        assert "n = m * where(T == f16, 2, 1)" in [each.text for each in header.requires]
        assert [each.kind for each in header.arguments if each.kind == "record"] == []
        assert m.k.called.outputs({"y": None, "x": ArrayFacts((32,), dtype)})[0].shape == (count,)
