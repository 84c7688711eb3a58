"""`dsl fuzz`: random options are right, and one that is not is made smaller and can be repeated."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lab_kernel import PLACE, TURN, experiment, written

from dsl.command import cli
from dsl.examples.overrides import resolve
from dsl.lab.experiment import Conditions, Experiment, Wanted
from dsl.lab.fuzz import fuzz
from dsl.text.program import load

SAMPLES = Path(__file__).parents[2] / "samples"
UNCHECKED = """
example unchecked:
    n = 32
    x = randn(f32[n, n])
    y = empty(f32[n, n])
    turn(y, x)
"""


def dsl(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, [str(a) for a in arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    result.exit_code = result.return_value
    return result


@pytest.mark.long
@pytest.mark.parametrize(
    ("sample", "values"), [("softmax", ["rows=8"]), ("reduction", ["n=4096"]), ("int8_conv", []), ("matmul", [])]
)
def test_random_options_of_samples_are_right(sample: str, values: list[str]) -> None:
    example = {"reduction": ["--example", "v3"], "matmul": ["--example", "narrow"]}.get(sample, [])
    result = dsl(
        "fuzz", SAMPLES / f"{sample}.tile", *values, "--device", "emulator", "--count", "3", *example, "--json"
    )
    told = json.loads(result.stdout)
    assert result.exit_code == 0 and not told["failures"] and sum(told["verdicts"].values()) == 3
    assert told["verdicts"]["right"] >= 2 and len(told["kinds"]) > 2


def test_a_wrong_option_is_made_smaller_and_can_be_repeated(tmp_path: Path) -> None:
    """Where options that may be wrong are drawn, too."""
    path = written(tmp_path)
    made = experiment(path)
    for _, choice in made.made:
        choice.unsafe = ()
    found = fuzz([made], 0, 12, 0.25, lambda _: None)
    assert found.failures and found.verdicts["right"] and found.verdicts["race"] == len(found.failures)
    for failure in found.failures:
        assert len(failure.choose) == 1 < len(failure.drawn)
        assert failure.choose.items() <= {"barrier.b.load": "none", "pass.insert_barriers": "off"}.items()
    again = dsl("run", path, "--device", "emulator", *shlex.split(found.failures[0].options))
    assert again.exit_code == 3 and "race" in again.stderr
    assert not made.trials and not made.by_code


def test_barriers_by_hand_order_what_the_chosen_threads_read() -> None:
    """Found at number 112 of reduction.tile: all threads read a scalar that one of them stores, behind no barrier."""
    program = load(SAMPLES / "reduction.tile")
    example = next(each for each in program.examples if each.name == "v4")
    made = Experiment(program, example, resolve(program, example, []), PLACE, 0, Conditions(wanted=Wanted("none")))
    for key, option in (("scalar.s.load", "all"), ("pass.narrow_scalars", "off")):
        assert dict(made.made)[key].unsafe == (option,) and made.trial({key: option}).verdict == "race"


def test_examples_that_check_nothing_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, TURN + UNCHECKED)
    result = dsl("fuzz", path, "--device", "emulator", "--count", "3")
    assert result.exit_code == 0 and "left out: example unchecked: no 'expect' reads what" in result.stdout
    assert "3 assignments: 3 right" in result.stdout
    result = dsl("fuzz", path, "--device", "emulator", "--example", "unchecked")
    assert result.exit_code == 2 and "no 'expect' reads what 'turn' writes" in result.stderr


def test_a_number_is_one_assignment(tmp_path: Path) -> None:
    """Numbers follow the seed: two from 5 on are 5 and 6."""
    path = written(tmp_path)

    def kinds(seed: int, count: int) -> Counter[str]:
        way = ["--seed", str(seed), "--count", str(count), "--json"]
        return Counter(json.loads(dsl("fuzz", path, "--device", "emulator", *way).stdout)["kinds"])

    assert kinds(5, 2) == kinds(5, 1) + kinds(6, 1) != kinds(6, 2)


def test_swizzles_of_boxes_are_there_without_the_pass() -> None:
    """Found by `dsl fuzz`: without the pass a tile had another place than the product's descriptors say. The swizzle is
    in the type of the tile since then, from where the tile is made."""
    found = dsl("run", str(SAMPLES / "matmul_w4.tile"), "--device", "emulator", "--choose", "pass.swizzle_shared=off")
    assert "passed: max error" in found.output  # without swizzles, the contract `conflicts == 0` does not hold
    found = dsl(
        "why", str(SAMPLES / "matmul.tile"), "--device", "emulator", "--all", "--choice", "pass", "--arch", "sm_80"
    )
    assert "pass.swizzle_shared" in found.output


def test_a_launch_that_is_wrong_as_chosen_is_told_as_such(tmp_path: Path) -> None:
    """No assignment is blamed for it, nor made smaller."""
    path = written(tmp_path, TURN.replace("expect y ~= ", "expect y ~= 1.0 + "))
    result = dsl("fuzz", path, "--device", "emulator", "--count", "3")
    assert result.exit_code == 1 and "as chosen: wrong: " in result.stdout and "number" not in result.stdout
    assert "0 assignments" in result.stdout
