"""What tests do so that one GPU suffices for all workers: JAX takes what it uses, large tests run one at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.gpu_memory import alone

ROOT = Path(__file__).parents[1]
SCRIPT = """
import sys, time
from pathlib import Path
from tests.gpu_memory import alone

with alone(Path(sys.argv[1])), open(sys.argv[2], "a", buffering=1) as log:
    log.write("begin\\n")
    time.sleep(0.3)
    log.write("end\\n")
"""


def test_jax_is_told_to_take_no_memory_ahead() -> None:
    """Before any test imports it, and for the processes that tests start."""
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


def test_large_tests_of_several_workers_run_one_at_a_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", SCRIPT, tmp_path / "lock", log]
    workers = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0]
    assert log.read_text().split() == ["begin", "end"] * 3


@pytest.mark.usefixtures("own_garbage")
def test_the_memory_goes_back_though_the_test_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    cuda = SimpleNamespace(is_initialized=lambda: True, empty_cache=lambda: done.append("emptied"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    with pytest.raises(ZeroDivisionError), alone(tmp_path / "lock"):
        _ = 1 / 0
    assert done == ["emptied"]


def test_the_largest_test_says_what_it_needs() -> None:
    from tests.samples.test_softmax_shapes import SEED_ROWS, test_the_sizes_of_the_seed

    marks = {mark.name: mark for mark in test_the_sizes_of_the_seed.pytestmark}
    (columns,) = (m.args[1] for m in test_the_sizes_of_the_seed.pytestmark if m.args and m.args[0] == "columns")
    elements = SEED_ROWS * max(columns)
    assert marks["gpu_memory"].args[0] * 1e9 >= elements * (4 + 4 + 1)
