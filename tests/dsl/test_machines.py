"""`dsl tune --devices`: several workers find what one finds, and what kills a worker is left behind."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tuned_kernel import Timer, best, constants, dsl, outcome, ties

from dsl.command import tune as command
from dsl.lab import compiling, machines, worker
from dsl.lab.machines import Machine, Machines, OwnProcess, device_names
from dsl.lab.place import TuningPlace
from dsl.lab.runner import Runner
from dsl.lab.trial import Trial
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError


class ThisProcess(Executor):
    """A worker process that is this one. deadly: whether a batch kills it; slowness: of its device."""

    def __init__(self, slowness: float = 1.0):
        self.slowness, self.renewed, self.is_poisoned, self.batches = slowness, 0, False, []
        self.timer: Timer | None = None
        self.deadly: Callable[[list[Any]], bool] = lambda steps: False

    def executor(self) -> Executor:
        return self

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.timer is not None:
            self.timer.slowness = self.slowness
        if function is worker.answer:
            arguments = pickle.loads(pickle.dumps(arguments))
            batch = arguments[2]
            self.batches.append(batch)
            tried = [*batch.entrants, *([batch.reference] if batch.reference else [])]
            if self.deadly([each.trial.steps[0]["constants"] for each in tried]):
                future.set_exception(BrokenExecutor("dead"))
                return future
        assert not self.is_poisoned
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        self.is_poisoned, worker._is_poisoned = worker._is_poisoned, False
        return future

    def renew(self) -> None:
        self.renewed += 1
        self.is_poisoned = False
        worker._stations.clear()

    def close(self, now: bool) -> None:
        worker._stations.clear()
        worker._cases.clear()

    def is_dead(self, error: BaseException) -> bool:
        return isinstance(error, BrokenExecutor)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[ThisProcess]:
    """Two workers of `--devices`, the second of a device that is a third slower."""
    made = [ThisProcess(), ThisProcess(1.33)]
    monkeypatch.setattr(
        machines,
        "own_processes",
        lambda devices: Machines(list(map(Machine, made, devices))),  # type: ignore[arg-type]
    )
    return made


def on(path: Path, *arguments: Any) -> Any:
    """The first outcome of two workers."""
    return outcome(path, *arguments, devices=("--devices", "emulator,emulator"))


@pytest.fixture
def timed(two: list[ThisProcess], timer: Timer) -> Timer:
    """The devices have times, and differ by more than the points do."""
    timer.mean = lambda constants: 10 + abs(constants["BLOCK"] - 256) / 256
    for each in two:
        each.timer = timer
    return timer


def logged(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_two_workers_count_what_one_counts(scale: Path, two: list[ThisProcess]) -> None:
    one = outcome(scale, "--fresh")
    found = on(scale, "--fresh")
    assert found["points"] == one["points"]
    tried = [len(each.entrants) for process in two for each in process.batches]
    assert sum(tried) == 24 and all(process.batches for process in two) and max(tried) == 6
    assert on(scale)["from_log"] == 24 and sum(len(p.batches) for p in two) == len(tried)


@pytest.mark.parametrize("name", ["random", "one", "halving"])
def test_searches_wait_for_what_workers_have_under_way(
    scale: Path,
    two: list[ThisProcess],
    name: str,
) -> None:
    found = on(scale, "--search", name, "--budget", 11, "--fresh")
    assert 5 <= len(found["points"]) <= 11 and best(found)


def test_results_of_a_slower_device_are_compared_by_the_reference(
    scale: Path,
    two: list[ThisProcess],
    timed: Timer,
    tmp_path: Path,
) -> None:
    """Unscaled, every point of the slower device loses to every point of the other one."""
    one = outcome(scale, "--fresh")
    log = tmp_path / "log.jsonl"
    found = on(scale, "--log", log)
    assert best(found) == best(one) == (("BLOCK", 256), ("IDLE", 0), ("vector.x.load", "1"), ("warps", 2))
    assert ties(found) == ties(one) and len(ties(one)) == 4
    contests = {row["contest"] for row in logged(log)[-4:]}
    assert len(contests) == 1  # the finalists met
    slow = {row["reference_us"] > 12 for row in logged(log) if row["times_us"]}
    assert slow == {True, False} and all(row["where"] for row in logged(log) if row["times_us"])
    assert on(scale, "--log", log)["from_log"] == 24


def test_what_kills_a_worker_fails_and_all_else_is_tried(scale: Path, two: list[ThisProcess], timed: Timer) -> None:
    for process in two:
        process.deadly = lambda constants: any(each["warps"] == 4 and each["BLOCK"] == 64 for each in constants)
    found = on(scale)
    deadly = [p for p in found["points"] if dict(constants(p))["warps"] == 4 and dict(constants(p))["BLOCK"] == 64]
    assert len(deadly) == 4 and {point["status"] for point in deadly} == {"failed"}
    assert {point["reason"] for point in deadly} == {"poisoned: the process that tried it died"}
    assert {p["status"] for p in found["points"] if p not in deadly} <= {"measured", "compile"}
    assert best(found) == (("BLOCK", 256), ("IDLE", 0), ("vector.x.load", "1"), ("warps", 2))
    assert 0 < sum(process.renewed for process in two) < 24


def test_a_reference_that_kills_workers_takes_no_other_point_with_it(
    scale: Path,
    two: list[ThisProcess],
    timed: Timer,
) -> None:
    default = {"BLOCK": 32, "IDLE": 0, "vector.x.load": "1", "warps": 1}
    for process in two:
        process.deadly = lambda constants: default in constants
    found = on(scale)
    assert [constants(p) for p in found["points"] if p["status"] == "failed"] == [tuple(default.items())]
    assert sum(point["status"] == "measured" for point in found["points"]) == 17


def test_a_poisoned_device_leaves_its_points_to_others(
    scale: Path,
    two: list[ThisProcess],
    timed: Timer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempt = Runner.attempt

    def poisoning(self: Runner, trial: Trial, plan: Any, made: Any, run: bool = True) -> Any:
        if trial.steps[0]["constants"] == {"BLOCK": 128, "IDLE": 0, "vector.x.load": "1", "warps": 1}:
            trial.status, trial.reason = "failed", "poisoned: an illegal address"
            raise DeviceError("poisoned", "an illegal address")
        return attempt(self, trial, plan, made, run)

    monkeypatch.setattr(Runner, "attempt", poisoning)
    found = on(scale)
    (failed,) = [point for point in found["points"] if point["status"] == "failed"]
    assert dict(constants(failed))["BLOCK"] == 128 and failed["reason"] == "poisoned: an illegal address"
    assert sum(point["status"] == "measured" for point in found["points"]) == 17
    assert [process.renewed for process in two] in ([1, 0], [0, 1])


def test_a_fault_within_a_contest_is_narrowed_down_to_its_point(
    scale: Path, two: list[ThisProcess], timed: Timer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = TuningPlace.rounds

    def poisoning(self: TuningPlace, launches: list[Any], *arguments: Any) -> Any:
        if any(each.bound.plan.steps[0].request.constants["BLOCK"] == 512 for each in launches):
            raise DeviceError("poisoned", "an illegal address")
        return rounds(self, launches, *arguments)

    monkeypatch.setattr(TuningPlace, "rounds", poisoning)
    found = on(scale)
    failed = [point for point in found["points"] if point["status"] == "failed"]
    assert {dict(constants(point))["BLOCK"] for point in failed} == {512} and len(failed) == 4
    assert {point["reason"] for point in failed} == {"poisoned: an illegal address"}
    assert sum(point["status"] == "measured" for point in found["points"]) == 14


def test_a_file_that_changes_meanwhile_is_told(scale: Path, two: list[ThisProcess]) -> None:
    answer = two[0].submit

    def editing(function: Any, /, *arguments: Any, **named: Any) -> Any:
        scale.write_text(scale.read_text() + "# more\n")
        return answer(function, *arguments, **named)

    two[0].submit = editing  # type: ignore[method-assign]
    compiling._programs.clear()
    result = dsl("tune", scale, "--devices", "emulator,emulator")
    assert result.return_value == 2 and "changed meanwhile" in result.stderr


def test_a_process_with_a_poisoned_device_ends_rather_than_try_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gave it a batch, and cannot replace it, gives the batch to another."""

    def ended(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(os, "_exit", ended)
    monkeypatch.setattr(worker, "_is_poisoned", True)
    with pytest.raises(SystemExit, match="3"):
        worker.answer(*[None] * 3)  # type: ignore[arg-type]


def test_an_error_of_ours_is_none_of_a_points(
    scale: Path, two: list[ThisProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Runner, *arguments: Any, **named: Any) -> Any:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(Runner, "attempt", broken)
    assert dsl("tune", scale, "--devices", "emulator,emulator").return_value == 70


def test_no_worker_begins_a_point_after_the_time(scale: Path, two: list[ThisProcess]) -> None:
    found = on(scale, "--seconds", 0, "--fresh")
    assert found["left_out"] == 24 and not any(process.batches for process in two)


# ---- real processes ----


def test_workers_are_processes_that_are_replaced_and_end_at_once() -> None:
    first = OwnProcess()
    made = Machine(first, "emulator")
    try:
        with Machines([made]) as both:
            assert both.place.device == "emulator" and made.place.name.startswith("emulated")
            number = first.number.result()
            assert number != os.getpid()
            died = first.executor().submit(os._exit, 3)
            error = died.exception(timeout=60)
            assert error is not None and first.is_dead(error) and not first.is_dead(ZeroDivisionError())
            first.renew()
            number = first.number.result(timeout=60)
            first.executor().submit(time.sleep, 600)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    for _ in range(100):
        if not is_alive(number):
            break
        time.sleep(0.1)
    assert not is_alive(number)


def is_alive(number: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        os.kill(number, 0)
        return "\nState:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_worker_ends_with_its_parent(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = tmp_path / "parent.py"
    script.write_text(
        "import os, signal\n"
        "from dsl.lab.machines import OwnProcess\n"
        "if __name__ == '__main__':\n"
        "    print(OwnProcess().number.result(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = str(Path(command.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": root}, stdout=subprocess.PIPE, timeout=60
    )
    number = int(done.stdout)
    for _ in range(100):
        if not is_alive(number):
            break
        time.sleep(0.1)
    assert not is_alive(number)


# ---- what is said ----


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--devices", "emulator,"), "a name is empty"),
        (("--devices", "cuda:0,cuda:0"), "cuda:0 is there twice"),
        (("--devices", "emulator", "--emulator"), "stands in place of --device"),
        (("--devices", "gpu"), "is no device"),
        (("--address", "tcp://x:1"), "--address is of a cluster"),
    ],
)
def test_wrong_arguments_are_errors(scale: Path, arguments: tuple[str, ...], says: str) -> None:
    result = dsl("tune", scale, *arguments)
    assert result.return_value == 2 and says in result.stderr


def test_devices_of_several_kinds_or_compilers_are_refused(
    two: list[ThisProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, made_with = worker.described("emulator")
    other = replace(place, name="emulated H100")
    pair = list(map(Machine, two, ["emulator", "emulator"]))  # type: ignore[arg-type]
    pair[1].first = Future()
    pair[1].first.set_result((other, made_with))
    with pytest.raises(TileError, match=r"several kinds: emulated H100 .*, emulated H200"), Machines(pair):
        pass
    pair[1].first = Future()
    pair[1].first.set_exception(BrokenExecutor())
    with pytest.raises(TileError, match="the process for emulator died"), Machines(pair):
        pass
    pair[1].first = Future()
    pair[1].first.set_result((other, made_with | {"numpy": "1.0"}))
    with pytest.raises(TileError, match="differs in its versions: numpy"), Machines(pair):
        pass


@pytest.mark.parametrize(("name", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_without_its_package_an_executor_says_what_to_install(
    scale: Path,
    name: str,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    result = dsl("tune", scale, "--executor", name, "--address", "x")
    assert result.return_value == 2 and f"dsl[{name}]" in result.stderr


def test_names_of_devices() -> None:
    assert device_names("cuda:0,cuda:3") == ["cuda:0", "cuda:3"]
    assert device_names("emulator,emulator") == ["emulator", "emulator"]


# ---- clusters ----


@pytest.mark.skipif(find_spec("distributed") is None, reason="dsl[dask] is not installed")
def test_workers_of_dask_find_what_one_finds(scale: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    one = outcome(scale, "--fresh")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        found = on(scale, "--executor", "dask", "--address", cluster.scheduler_address, "--fresh")
        assert found["points"] == one["points"]
        result = dsl("tune", scale, "--executor", "dask", "--address", cluster.scheduler_address)
        assert result.return_value == 2 and "--resources GPU=1" in result.stderr


@pytest.mark.skipif(find_spec("ray") is None, reason="dsl[ray] is not installed")
def test_actors_of_ray_find_what_one_finds(scale: Path) -> None:
    import ray

    one = outcome(scale, "--fresh")
    try:
        found = on(scale, "--executor", "ray", "--fresh")
        assert found["points"] == one["points"]
    finally:
        ray.shutdown()


# ---- on GPUs ----


@pytest.mark.gpu
def test_on_gpus_all_contests_have_the_reference(scale: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    found = outcome(scale, "n=4000000", "--log", log, devices=("--devices", "all"))
    measured = [point for point in found["points"] if point["status"] == "measured"]
    assert len(measured) == 18 and all(point["reference_us"] > 0 for point in measured)
    assert {point["where"].split()[-1][:5] for point in measured} == {"cuda:"} and best(found) in ties(found)
    outcome(scale, "n=40000", "--log", log, "--counters", devices=("--devices", "all"))
    rows = [row for row in logged(log) if row["times_us"] and row["values"] == {"n": 40000}]
    assert rows and all(row["counters"] for row in rows)
