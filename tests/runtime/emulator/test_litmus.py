"""Litmus tests of the memory model (litmus/): the emulator reports the races, and nothing else.

What the model forbids is not seen in its runs; `benchmarks/litmus.py` looks for it on a GPU.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "litmus"))

import suite

from dsl.runtime.emulator import EmulatorError, emulate
from tests.whole import some

TESTS = suite.suite()
seeds = pytest.mark.parametrize("seed", some([0, 5], 2))
every_test = pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)


def outcome(test: suite.Litmus, seed: int) -> np.ndarray:
    setting = suite.setting(test, 6, 3, 1, np.random.default_rng(seed), together=False)
    arrays = [setting.memory, setting.table, setting.places, setting.outs]
    emulate(suite.kernel(test), "litmus", setting.blocks, setting.threads, [*arrays, *setting.scalars], seed=seed)
    return setting.outs


@pytest.mark.long
@seeds
@every_test
def test_the_verdict(test: suite.Litmus, seed: int) -> None:
    if test.verdict == "race":
        with pytest.raises(EmulatorError) as caught:
            outcome(test, seed)
        assert caught.value.finding.kind == test.finding, caught.value
        return
    outs = outcome(test, seed)
    assert suite.rounds(outs) == len(outs) // suite.OUTS
    assert suite.count(test, test.forbidden, outs) == 0


def test_names_and_conditions() -> None:
    assert len({test.name for test in TESTS}) == len(TESTS) >= 40
    for test in TESTS:
        assert test.verdict in ("ordered", "race")
        assert not (test.verdict == "race" and test.forbidden)


# The driver of the GPU's runs, and its twin on the emulator


sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["message passing: release and acquire", "barrier: bar.sync", "lock: tickets"])
def test_the_driver(name: str, device: str) -> None:
    import litmus

    test = next(test for test in TESTS if test.name == name)
    row = litmus.run(test, 20 if device == "emulator" else 2000, device)
    assert row["rounds"] >= 20 and row["lost"] == 0 and row["forbidden"] == 0


@pytest.mark.gpu
@pytest.mark.parametrize("test", [test for test in TESTS if test.gpu and test.forbidden], ids=lambda test: test.name)
def test_what_is_forbidden_is_not_seen_on_a_gpu(test: suite.Litmus) -> None:
    import litmus

    row = litmus.run(test, 20_000, "cuda")
    assert row["forbidden"] == 0 and row["rounds"] >= 20_000


def test_ptxas_takes_the_kernels() -> None:
    """One of each kind of instruction; the driver's compiler sees all of them."""
    from dsl.runtime.errors import DeviceError
    from dsl.runtime.tools import find

    try:
        ptxas = find("ptxas")
    except DeviceError:
        pytest.skip("ptxas is not installed")
    chosen = {test.name.partition(":")[0]: test for test in TESTS}
    for test in chosen.values():
        command = [ptxas, "-arch=sm_90", "-o", "/dev/null", "-"]
        done = subprocess.run(command, input=suite.kernel(test), capture_output=True, text=True)
        assert done.returncode == 0, (test.name, done.stderr)
