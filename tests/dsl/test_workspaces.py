"""Workspaces: one with `zero` is zero after each call, and what an earlier call left in another is not read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.runtime import FindingError

ROOT = Path(__file__).resolve().parents[2]

TICKETS = """\
kernel count(y: s32[n], x: s32[n], seen: s32[m]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    old = atomic_add(seen[3], 1)
    y[i : i + BLOCK] = x[i : i + BLOCK] + old

kernel forget(y: s32[n], seen: s32[m]; BLOCK = 128):
    grid 1
    seen[0 : BLOCK] = 0

dispatch kept(y, x):
    seen = workspace(s32[8], zero)
    count(y, x, seen)

dispatch cleared(y, x):
    seen = workspace(s32[8], zero)
    count(y, x, seen)
    forget(y, seen)

example:
    n = 100
    x = randint(s32[n], 0, 10)
    y = empty(s32[n])
    kept(y, x)
"""

SUMS = """\
kernel partial(p: f32[m], x: f32[n]; BLOCK = 64):
    grid {grid}
    i = block(0) * BLOCK
    v = load(x[i : i + BLOCK], mask=i + arange(BLOCK) < n, other=0.0)
    p[block(0)] = sum(v)

kernel total(y: f32[1], p: f32[m]; BLOCK = 64):
    grid 1
    y[0] = sum(load(p[0 : BLOCK], mask=arange(BLOCK) < m, other=0.0))

dispatch add(y, x):
    p = workspace(f32[cdiv(n, 64)])
    partial(p, x)
    total(y, p)
"""


def ones(n: int, dtype: str = "int32") -> Any:
    return np.ones(n, dtype)


def test_a_zeroed_workspace_that_a_call_does_not_leave_zero_is_found() -> None:
    module = dsl.parse(TICKETS, "tickets.tile", device="emulator")
    for _ in range(2):  # the call after a finding starts from zeros again
        with pytest.raises(FindingError) as caught:
            module.kept(ones(100), ones(100))
        text = str(caught.value)
        assert "after the call seen[3] of workspace(s32[8], zero) is 1" in text
        assert "at tickets.tile:4" in text and caught.value.line == 4
    module.cleared(ones(100), ones(100))
    module.cleared(ones(100), ones(100))


def test_the_last_of_several_writers_is_named() -> None:
    """An atomic and, behind it, a store of the same thread: the store's value is there."""
    module = dsl.parse(
        """\
kernel k(y: u32[n], c: u32[2]):
    grid 3
    y[block(0)] = atomic_add(c[0], 1, order=acq_rel)
    if atomic_add(c[1], 1, order=acq_rel) == 2:
        c[0] = 7
        c[1] = 0

dispatch d(y):
    c = workspace(u32[2], zero)
    k(y, c)
""",
        "last.tile",
        device="emulator",
    )
    with pytest.raises(FindingError, match=r"is 7: each call[^\0]*at last\.tile:5"):
        module.d(np.zeros(3, np.uint32))


def test_run_finds_a_workspace_that_is_not_left_zero(tmp_path: Path) -> None:
    path = tmp_path / "tickets.tile"
    path.write_text(TICKETS)
    command = [sys.executable, "-m", "dsl", "run", str(path), "--device", "emulator"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 3 and "seen[3] of workspace(s32[8], zero) is 1" in done.stdout + done.stderr


def test_launches_of_a_call_share_a_workspace() -> None:
    module = dsl.parse(SUMS.format(grid="m"), device="emulator")
    for n in (1000, 77, 1000):
        y = ones(1, "float32")
        module.add(y, ones(n, "float32"))
        assert y[0] == n


def test_what_nobody_has_written_of_a_workspace_is_not_read() -> None:
    module = dsl.parse(SUMS.format(grid="m - 1"), device="emulator")
    with pytest.raises(FindingError, match="uninitialised read: reads global memory that nobody has written"):
        module.add(ones(1, "float32"), ones(1000, "float32"))


def test_what_an_earlier_call_left_in_a_workspace_is_not_read() -> None:
    """The first call writes every element, the second but one of them: the memory is the same."""
    text = SUMS.format(grid="m").replace("    p[block(0)] = sum(v)", "    if x[0] > 0.0:\n        p[block(0)] = sum(v)")
    module = dsl.parse(text, device="emulator")
    module.add(ones(1, "float32"), ones(1000, "float32"))
    with pytest.raises(FindingError, match="uninitialised read"):
        module.add(ones(1, "float32"), -ones(1000, "float32"))


@pytest.mark.parametrize("dtype", ["bf16", "f16", "u8", "f32"])
def test_workspaces_of_every_width(dtype: str) -> None:
    text = SUMS.replace("p: f32[m]", f"p: {dtype}[m]").replace("f32[cdiv", f"{dtype}[cdiv")
    text = text.replace("= sum(v)", f"= sum(v).to({dtype})").replace("sum(load(p[0 : BLOCK], mask=arange(BLOCK) < m, "
        "other=0.0))", "sum(load(p[0 : BLOCK], mask=arange(BLOCK) < m, other=0).to(f32))")  # fmt: skip
    module = dsl.parse(text.format(grid="m"), device="emulator")
    y = ones(1, "float32")
    module.add(y, ones(1000, "float32"))
    assert y[0] == 1000
    with pytest.raises(FindingError, match="uninitialised read"):
        dsl.parse(text.format(grid="m - 1"), device="emulator").add(y, ones(1000, "float32"))


SCAN = """\
kernel lookback(y: s32[n], ticket: u32[1], flag: u32[m], sums: s32[m], x: s32[n]; B = 32):
    grid cdiv(n, B)
    t = atomic_add(ticket[0], 1)
    at = t.to(s32) * B
    v = load(x[at : at + B])
    before = (0).to(s32)
    if t > 0:
        seen = (0).to(u32)
        while seen == 0:
            seen = atomic_add(flag[t - 1], 0, order=acquire)
        before = sums[t - 1]
    sums[t] = before + sum(v, axis=0)
    atomic_exchange(flag[t], 1, order=release)
    y[at : at + B] = cumsum(v, axis=0) + before

schedule one of lookback:
    warps = 1

dispatch scan(y, x):
    ticket, flag = workspace(u32[1], zeroed), workspace(u32[cdiv(n, 32)], zeroed)
    sums = workspace(s32[cdiv(n, 32)])
    lookback(y, ticket, flag, sums, x)

dispatch unset(y, x):
    ticket, flag = workspace(u32[1], zero), workspace(u32[cdiv(n, 32)], zero)
    sums = workspace(s32[cdiv(n, 32)])
    lookback(y, ticket, flag, sums, x)

example:
    n = 100
    x, y = randint(s32[n], -9, 9), empty(s32[n])
    scan(y, x)
    expect y == cumsum(x, axis=0)
"""


def test_a_zeroed_workspace_holds_zeros_at_each_call() -> None:
    """A scan whose blocks take tickets leaves what it counted: it waited for ever at its second call."""
    module = dsl.parse(SCAN, device="emulator")
    x, y = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    for _ in range(3):
        y[:] = 0
        module.scan(y, x)
        assert (y == np.cumsum(x)).all()
    assert (module.scan(x) == np.cumsum(x)).all()


def test_what_leaves_a_workspace_other_than_zero_is_told_the_form_that_is_zeroed() -> None:
    module = dsl.parse(SCAN, device="emulator")
    with pytest.raises(FindingError, match="each call must leave zeros for the next, or") as caught:
        module.unset(np.arange(100, dtype=np.int32))
    assert "workspace(…, zeroed)" in str(caught.value) and "PTX line None" not in str(caught.value)
    with pytest.raises(dsl.TileError, match="zero"):
        wrong = dsl.parse(SCAN.replace("zeroed", "zeros"), device="emulator")
        wrong.scan(np.arange(100, dtype=np.int32))


def test_zeroed_workspaces_are_renewed_where_launches_are_repeated() -> None:
    from dsl.examples.one_kernel import LaunchSettings
    from dsl.examples.overrides import Overrides
    from dsl.examples.run import ExampleRun
    from dsl.text.program import parse_program

    program = parse_program(SCAN)
    run = ExampleRun(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
    assert run.run().passed
    (call,) = run.launcher.calls
    launch = call.repeated()
    for _ in range(2):
        call.given["y"][:] = 0
        launch.renew()  # type: ignore[attr-defined]
        launch()
        assert (call.given["y"] == np.cumsum(call.given["x"])).all()


@pytest.mark.gpu
def test_a_zeroed_workspace_on_a_gpu() -> None:
    """Its twin: the scan on the emulator above."""
    from dsl.runtime import to_device

    module, x = dsl.parse(SCAN, device="cuda"), np.arange(5000, dtype=np.int32)
    for _ in range(3):
        y = to_device(np.zeros(5000, np.int32))
        module.scan(y, to_device(x))
        assert (y.numpy() == np.cumsum(x)).all()


LYING = """\
kernel copied(to: T[m, n; strided], x: T[m, n; strided]; T in f16|f32|u8, ROWS = 32, COLS = 64):
    grid cdiv(m, ROWS), cdiv(n, COLS)
    i, j = block(0) * ROWS, block(1) * COLS
    to[i : i + ROWS, j : j + COLS] = x[i : i + ROWS, j : j + COLS]

kernel doubled(y: T[m, n], x: T[m, n; strided]; T in f16|f32|u8, ROWS = 32, COLS = 64):
    grid cdiv(m, ROWS), cdiv(n, COLS)
    i, j = block(0) * ROWS, block(1) * COLS
    v = x[i : i + ROWS, j : j + COLS]
    y[i : i + ROWS, j : j + COLS] = v + v

dispatch twice(y, x):
    z = workspace_like(x)
    if aligned(x): plainly(y, x)
    else:
        copied(z, x)
        plainly(y, z)

dispatch plainly(y, x):
    if m > 1000: doubled(y, x) with ROWS=64
    else: doubled(y, x)
"""
LIES: dict[str, Any] = {
    "aligned": (lambda t: rising(t, 40, 48), False),
    "odd rows": (lambda t: rising(t, 40, 67), True),
    "odd columns": (lambda t: rising(t, 67, 39).T, True),
    "aligned columns": (lambda t: rising(t, 67, 48).T, False),
    "a view that begins elsewhere": (lambda t: rising(t, 40, 64)[:, 1:49], True),
    "every other element": (lambda t: rising(t, 40, 96)[:, ::2], True),
    "one row": (lambda t: rising(t, 1, 67), True),
    "no row": (lambda t: rising(t, 0, 67), True),
}


def rising(dtype: Any, *shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 100).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8])
@pytest.mark.parametrize("lies", LIES)
def test_a_workspace_lies_as_an_array_with_aligned_rows(lies: str, dtype: Any) -> None:
    """Launches ahead of a call of a dispatch come before each of its branches."""
    view, copies = LIES[lies]
    module, x = dsl.parse(LYING, device="emulator"), view(dtype)
    y = np.zeros(x.shape, dtype)
    module.twice(y, x)
    np.testing.assert_array_equal(y, x + x)
    bound = module.twice.plan_for({"y": y, "x": x}, {})
    assert [step.request.kernel for step in bound.plan.steps] == ["copied"] * copies + ["doubled"]
    for _, workspace, memory in bound.workspaces.values():
        unit = 0 if lies == "odd columns" else 1
        assert memory.shape == x.shape and memory.strides[unit] == x.itemsize
        assert memory.strides[1 - unit] % 16 == 0 and workspace.facts.rows_are_aligned


def test_what_nobody_has_written_between_the_rows_of_a_workspace_does_not_matter() -> None:
    """Beside the last element of a row, in its four bytes, lies what belongs to none."""
    text = LYING.replace("grid cdiv(m, ROWS), cdiv(n, COLS)", "grid cdiv(m - 1, ROWS), cdiv(n, COLS)", 1)
    module = dsl.parse(text, device="emulator")
    for rows in (40, 33):  # the last row is not copied
        x = rising(np.uint8, rows, 67)
        if rows == 40:
            module.twice(x)
        else:
            with pytest.raises(FindingError, match="uninitialised read"):
                module.twice(x)


class Elsewhere(np.ndarray):
    """An array that says to lie on the device 3."""


def test_each_device_has_workspaces_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of one class may have arrays on other devices. Host memory after a GPU's was a launch with both."""
    from dsl.calls import plan as plans

    real = plans.device_of
    monkeypatch.setattr(plans, "device_of", lambda given: 3 if isinstance(given["x"], Elsewhere) else real(given))
    monkeypatch.setattr(plans, "allocate_workspace", lambda workspace, given: (given["x"].__class__, object()))
    x = rising(np.uint8, 40, 67)
    given = {"y": np.zeros(x.shape, np.uint8), "x": x}
    bound = dsl.parse(LYING, device="emulator").twice.plan_for(given, {})
    step, far = bound.plan.steps[0], {**given, "x": x.view(Elsewhere)}
    assert not bound.keeps_memory

    def workspace(of: dict[str, Any]) -> Any:
        (found,) = [each for each in bound.arguments(step, of) if isinstance(each, tuple)]
        return found

    near = workspace(given)
    assert near[0] is np.ndarray and workspace(far)[0] is Elsewhere
    assert workspace(given) is near and workspace(far) is not near and bound.keeps_memory


@pytest.mark.gpu
def test_host_arrays_after_arrays_of_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    module, x = dsl.parse(LYING, device="cuda"), rising(np.float16, 40, 67)
    for like in (torch.from_numpy(x).cuda(), x, torch.from_numpy(x).cuda()):
        y = like * 0
        module.twice(y, like)
        np.testing.assert_array_equal(y if isinstance(y, np.ndarray) else y.cpu().numpy(), x + x)


@pytest.mark.gpu
@pytest.mark.parametrize("framework", ["torch", "cupy", "dsl"])
def test_each_framework_has_such_workspaces(framework: str) -> None:
    from dsl import runtime

    x = rising(np.float16, 67, 40)
    if framework == "torch":
        torch = pytest.importorskip("torch")
        given = torch.from_numpy(x).cuda().T
        out = dsl.parse(LYING).twice(given).cpu().numpy()
    elif framework == "cupy":
        cupy = pytest.importorskip("cupy")
        out = cupy.asnumpy(dsl.parse(LYING).twice(cupy.asarray(x).T))
    else:
        out = dsl.parse(LYING).twice(runtime.to_device(np.asfortranarray(x.T), 0)).numpy()
    np.testing.assert_array_equal(out, 2 * x.T)
