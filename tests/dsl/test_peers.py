"""`dsl bench --vs`: functions of Python in the place of a launch: called, judged, timed, or told why not."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dsl.command import cli
from dsl.command.bench import show_rows
from dsl.studies import bench
from dsl.text.program import parse_program

KERNEL = """\
kernel scale(y: T[n], x: T[n], by: f32; T in f32|bf16, BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    store(y[i : i + BLOCK], (by * load(x[i : i + BLOCK]).to(f32)).to(T))

kernel add(y: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    store(y[i : i + BLOCK], load(y[i : i + BLOCK]) + load(x[i : i + BLOCK]))

example:
    x = randn(f32[300])
    y = empty(f32[300])
    scale(y, x, 2.0)
    expect y ~= 2 * x within 0
    moves bytes(x) + bytes(y)

example narrow:
    x = randn(bf16[300])
    y = empty(bf16[300])
    scale(y, x, 2.0)
    expect y ~= 2 * x within 0

example sums:
    x = randn(f32[300])
    y = randn(f32[300])
    wanted = x + y
    add(y, x)
    expect y ~= wanted within 1e-6
"""
PEERS = """\
def returned(x, by): return (by * x).astype(x.dtype)
def written(y, x, scale=2): y[:] = x * y.dtype.type(scale)
def by_place(*arrays): return arrays[0] + arrays[0]
def told_by_name(x): return {"y": x + x}
def strided(x): return (x + x).repeat(2)[::2]
def in_place(y, x): y += x
def other(first, second): return first + second
def wrong(x): return 3 * x
def larger(x): return x.repeat(2)
def wider(x): return x.astype("f8")
def several(x): return x, x
def silent(x): pass
def stranger(x): return {"z": x}
def failing(x): raise ValueError("not today\\nnor tomorrow")
def spoiling(x): x *= 2; return x
constant = 5
"""


@pytest.fixture
def files(tmp_path: Path) -> SimpleNamespace:
    (tmp_path / "scale.tile").write_text(KERNEL)
    (tmp_path / "peers.py").write_text(PEERS)
    return SimpleNamespace(kernel=str(tmp_path / "scale.tile"), peers=str(tmp_path / "peers.py"))


@pytest.fixture(autouse=True)
def _no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the kernels, which takes most of the time and is `test_bench`'s."""
    monkeypatch.setattr("dsl.studies.bench.assembled", lambda *given, **options: None)


def run(files: SimpleNamespace, *words: str) -> Result:
    words = tuple(word.replace("P::", f"{files.peers}::") for word in words)
    result = CliRunner().invoke(cli, ["bench", "--device", "emulator", files.kernel, *words], standalone_mode=False)
    assert result.exception is None, result.exception
    result.exit_code = result.return_value
    return result


def rows_of(files: SimpleNamespace, *words: str) -> list[dict[str, Any]]:
    return [row for row in json.loads(run(files, "--json", "-", *words).stdout)["rows"] if "peer" in row]


RIGHT = [("scale", "returned"), ("scale", "written"), ("scale", "by_place"), ("scale", "told_by_name")]
RIGHT += [("scale", "strided"), ("add", "in_place"), ("add", "other")]


def test_right_peers_of_every_manner_pass(files: SimpleNamespace) -> None:
    """By name, by place, returning and writing; of bf16, too. `other` gets y before x, as the launch has them."""
    rows = rows_of(files, *(word for of, name in RIGHT for word in ("--vs", f"{of}=P::{name}")))
    found = {(row["example"], row["peer"]): row["passed"] for row in rows}
    names = [name for of, name in RIGHT if of == "scale"]
    wanted = {(example, f"peers.py::{name}") for example in (None, "narrow") for name in names}
    wanted |= {("sums", "peers.py::in_place"), ("sums", "peers.py::other")}
    assert found.keys() == wanted and all(found.values())


def test_the_row_of_a_peer_says_that_nothing_was_measured(files: SimpleNamespace) -> None:
    result = run(files, "--kernel", "scale", "--vs", "narrow=P::returned")
    (told,) = [line for line in result.stdout.splitlines() if "peers.py::returned" in line]
    assert result.exit_code == 0 and "right, not timed" in told
    assert "peers are only checked: times need a GPU, and the emulator cannot count them" in result.stdout
    (row,) = rows_of(files, "--vs", "narrow=P::returned")
    assert row["times_us"] is None and row["figures"] == {} and row["example"] == "narrow"


FAULTS = {
    "larger": "it returns y as f32[600]; the launch's is f32[300]",
    "wider": "it returns y as f64[300]",
    "several": "it returns 2 arrays; the launch writes y",
    "silent": "it neither takes nor returns y",
    "stranger": "it returns z; the launch writes y",
    "spoiling": "it changes x, which the launch only reads",
    "failing": "ValueError: not today (peers.py, line 14)",
}


def test_a_peer_that_nothing_judges_is_not_right(files: SimpleNamespace) -> None:
    """No `expect` reads what the example writes: the peer may do nothing."""
    Path(files.kernel).write_text(KERNEL.replace("    expect y ~= 2 * x within 0\n", ""))
    assert "not judged" in run(files, "--vs", "scale=P::returned").output


def test_what_a_peer_does_wrong_is_told_and_the_others_go_on(files: SimpleNamespace) -> None:
    peers = [*(f"scale=P::{name}" for name in FAULTS), "add=P::other"]
    result = run(files, "--kernel", "add", "--kernel", "scale", *(word for peer in peers for word in ("--vs", peer)))
    (row,) = [line for line in result.stdout.splitlines() if "peers.py::other" in line]
    assert result.exit_code == 1 and "right, not timed" in row
    for name, says in FAULTS.items():
        assert f"peers.py::{name}: {says}" in result.stdout


def test_a_peer_that_computes_something_else_is_wrong(files: SimpleNamespace) -> None:
    result = run(files, "--kernel", "scale", "--vs", "P::wrong")
    assert result.exit_code == 1 and "WRONG" in result.stdout


@pytest.mark.parametrize(
    ("peer", "says"),
    [
        ("P::nothing", "known: returned, written"),
        ("P::constant", "has no function 'constant'"),
        ("missing.py::f", "there is no file missing.py"),
        ("no_such_module::f", "cannot be imported: ModuleNotFoundError"),
        ("peers.py", "FILE.py::FUNCTION"),
        ("torch:soft max", "torch:softmax(dim=-1)"),
        ("torch:softmax(x)", "torch:softmax(dim=-1)"),
        ("scales=P::returned", "did you mean 'scale'?"),
        ("torch:softmax(dim=-1)", "pip install torch"),
    ],
)
def test_names_that_lead_to_no_peer(
    files: SimpleNamespace, peer: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    result = run(files, "--vs", peer)
    assert result.exit_code == 2 and says in result.stderr and result.stdout == ""


def test_a_function_of_torch_gets_tensors_on_the_host_too(
    files: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a module in torch's place whose tensors are numpy's arrays: what is called with what."""
    called: list[tuple[Any, ...]] = []

    def mul(array: Any, *, other: float) -> Any:
        called.append((type(array), other))
        return np.asarray(array * other)

    class FromNumpy(np.ndarray):
        pass

    torch = SimpleNamespace(mul=mul, from_numpy=lambda array: array.view(FromNumpy))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.nn", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch.nn.functional", SimpleNamespace())
    (row,) = rows_of(files, "--kernel", "add", "--vs", "torch:mul(other=2)")
    assert row["failed"].startswith("TypeError: ")  # two arrays by place
    monkeypatch.setattr(torch, "mul", lambda y, x, *, other: mul(x, other=other))
    (row,) = rows_of(files, "--kernel", "add", "--vs", "torch:mul(other=2)")
    assert row["passed"] is False and called == [(FromNumpy, 2)]


def test_peers_take_turns_with_the_kernels(
    files: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a clock in place of the GPU's: a peer's call is one of the launches of a round."""
    seen: list[int] = []

    def measure_rounds(launches: Sequence[Any], rounds: int, *, order: Random, device: int) -> list[list[float]]:
        seen.append(len(launches))
        for launch in launches:
            launch()
        return [[float(at + 1)] * rounds for at in range(len(launches))]

    monkeypatch.setattr("dsl.runtime.cuda.timing.measure_rounds", measure_rounds)
    monkeypatch.setattr(bench.Bench, "count", lambda made: made.measure())
    rows = bench.bench(
        parse_program(KERNEL), "emulator", "test", examples=["narrow"], peers=[f"{files.peers}::returned"]
    )
    assert seen == [2] and [row.report.times for row in rows if row.report] == [[1.0] * 3, [2.0] * 3]
    for row in rows[:1]:
        row.counted = [1]
    show_rows("scale.tile", rows)
    told = capsys.readouterr().out
    assert "2.00" in told and "between its call and its return" in told


@pytest.mark.gpu
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_tensors_of_torch_on_a_gpu(files: SimpleNamespace) -> None:
    """Its twins: the tests above. bf16 comes as torch's."""
    Path(files.peers).write_text("def doubled(x): return x * 2\ndef added(y, x): y += x\n")
    peers = [f"scale={files.peers}::doubled", f"add={files.peers}::added", "sums=torch:add"]
    rows = bench.bench(parse_program(KERNEL), "cuda:0", "test", peers=peers)
    found = [row for row in rows if row.peer]
    assert [row.peer for row in found] == ["peers.py::doubled"] * 2 + ["peers.py::added", "torch:add"]
    assert all(row.report is not None and row.report.passed and row.report.times for row in found)
    Path(files.peers).write_text("def spoiling(x): x *= 2; return x\n")
    rows = bench.bench(parse_program(KERNEL), "cuda:0", "test", peers=[f"scale={files.peers}::spoiling"])
    assert {row.failed for row in rows if row.peer} == {"it changes x, which the launch only reads"}
