"""A call that is like an earlier one goes to the driver without being planned; any other one is planned."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

import dsl
from dsl import runtime
from dsl.runtime.chips import emulated_facts
from dsl.runtime.cuda import workspaces

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))
from fake_cuda import POINTER, FakeCuda, Tensor

TEXT = """
def twice(v):
    return v + v

kernel add(y: f32[n], x: f32[n], z: f32[n]?, by: f32; B = 128, ACT = twice):
    grid cdiv(n, B)
    i = block(0) * B
    v = x[i : i + B] + by
    if given(z):
        v = v + z[i : i + B]
    y[i : i + B] = ACT(v)

dispatch shifted(x, y, by):                                          # in another order, and nothing for z
    add(y, x, None, by)

kernel total(y: f32[1], x: f32[k]; B = 128):
    grid 1
    s = zeros(f32[B])
    for i in range(0, k, B):
        s = s + x[i : i + B]
    y[0] = sum(s)

schedule parts of total:
    split i: 4

dispatch twofold(y, u, x, by):
    add(y, x, None, by)
    add(u, x, None, by)

dispatch through(y, x, by):
    t = workspace(f32[n])
    add(t, x, None, by)
    add(y, t, None, by)
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module on a driver that launches nothing; `planned` counts the calls that were told their class."""
    with FakeCuda() as cuda:
        context = SimpleNamespace(ordinal=0, cu_context=1, launched={}, check=cuda.check)

        def load(kernel: runtime.Kernel, ordinal: int) -> Any:
            own = {"record": 0, "timeline": 0, "says_cluster": True}
            return SimpleNamespace(header=kernel.header, context=context, function=7, **own)

        def given(own: Any, header: Any, counts: Any) -> dict[str, int]:
            return dict.fromkeys(counts, 256)

        monkeypatch.setattr(runtime.Kernel, "_load", load)
        monkeypatch.setattr(runtime, "device_facts", lambda *what: emulated_facts("sm_90"))
        monkeypatch.setattr(workspaces.StreamWorkspaces, "addresses", given)
        made = dsl.parse(TEXT, device="cuda")
        made.driver, made.planned = cuda.driver, 0
        facts = dsl.calls.api.ModuleFunction.facts

        def counted(self: Any, given: Any) -> Any:
            made.planned += 1
            return facts(self, given)

        with patch.object(dsl.calls.api.ModuleFunction, "facts", counted):
            yield made


def array(number: int, extent: int = 1000, off: int = 0) -> Tensor:
    return Tensor((extent,), POINTER + (number << 20) + off)


def packed(module: Any, code: str) -> tuple[Any, ...]:
    """What the last launch was given."""
    buffer = module.driver.launches[-1]
    at = [ctypes.c_uint64.from_address(buffer + 8 * i).value for i in range(len(code))]
    sizes = [struct.calcsize(c) for c in code]
    return tuple(struct.unpack(c, ctypes.string_at(a, s))[0] for c, a, s in zip(code, at, sizes, strict=True))


def test_arrays_at_other_addresses_and_equal_numbers_are_not_planned(module: Any) -> None:
    for number in (0, 3, 5):
        y, x = array(number), array(number + 1)
        module.shifted(x, y, float("0.5"))
        assert packed(module, "QQf") == (y.pointer, x.pointer, 0.5)
    assert (module.planned, len(module.driver.launches)) == (1, 3)


@pytest.mark.parametrize("by", [1.5, -0.0, 1])
def test_other_numbers_are_planned(module: Any, by: Any) -> None:
    x, y = array(0), array(1)
    for value in (0.0, by, 0.0, by):
        module.shifted(x, y, value)
        found = packed(module, "QQf")[2]
        assert struct.pack("f", found) == struct.pack("f", value)
    assert module.planned == 2


def test_constants_by_name_are_told_apart(module: Any) -> None:
    x, y = array(0), array(1)
    for named in ({}, {"B": 64}, {"B": 64}, {"B": 128}, {}, {"B": 64}):
        module.shifted(x, y, 1.0, **named)
    assert (module.planned, len(module.driver.launches)) == (3, 6)
    with pytest.raises(dsl.TileError, match="nothing"):
        module.shifted(x, y, 1.0, nothing=3)


def test_other_shapes_and_what_is_left_out_are_planned(module: Any) -> None:
    module.add(array(0), array(1), None, 1.0)
    module.add(array(0), array(1), array(2), 1.0)
    module.add(array(0, 500), array(1, 500), None, 1.0)
    assert module.planned == 3
    for extent in (1000, 500, 1000, 500):
        module.add(array(0, extent), array(1, extent), None, 1.0)
    assert (module.planned, len(module.driver.launches)) == (3, 7)


def test_an_address_that_the_variant_does_not_take_is_planned(module: Any) -> None:
    module.shifted(array(0), array(1), 1.0)
    module.shifted(array(0, off=4), array(1), 1.0)
    assert (module.planned, len(module.driver.launches)) == (2, 2)
    with pytest.raises(dsl.LaunchError, match="share memory"):
        module.shifted(array(1, off=16), array(1), 1.0)


def test_workspaces_of_a_launch_are_there(module: Any) -> None:
    for number in (0, 3):
        module.total(Tensor((1,), POINTER + (number << 20)), array(number + 1, 4096))
    assert (module.planned, len(module.driver.launches)) == (1, 2)


def test_several_launches_go_all_or_none(module: Any) -> None:
    """If the second one is refused, the first one has not been made."""
    module.asked.options.update({"overlap.start": "behind", "overlap.next": "end"})  # the fake has no attributes
    for number in (0, 3):
        module.twofold(array(number), array(number + 1), array(number + 2), 1.0)
    assert (module.planned, len(module.driver.launches)) == (1, 4)
    module.twofold(array(0), array(1, off=4), array(2), 1.0)
    assert (module.planned, len(module.driver.launches)) == (2, 6)


def test_workspaces_between_launches_are_there(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dsl.calls.plan, "allocate_workspace", lambda workspace, given: array(9))
    module.asked.options.update({"overlap.start": "behind", "overlap.next": "end"})
    for number in (0, 3, 6):
        y, x = array(number), array(number + 1)
        module.through(y, x, 1.0)
        assert packed(module, "QQf")[:2] == (y.pointer, array(9).pointer)
    assert (module.planned, len(module.driver.launches)) == (1, 6)


def test_launches_that_may_overlap_are_not_planned(module: Any) -> None:
    """The first launch of a call is launched as any other. The second one may start before it has ended."""
    configured: list[int] = []

    def launch(*arguments: int) -> int:
        configured.append(arguments[2])
        return 0

    def config(*shape: Any) -> Any:
        return SimpleNamespace(hStream=None, getPtr=lambda: 0)

    with (
        patch("dsl.runtime.cuda.driver.launch_configured", lambda: launch),
        patch("dsl.runtime.cuda_launch.launch_config", config),
        patch.object(dsl.calls.plan, "allocate_workspace", lambda workspace, given: array(9)),
    ):
        for number in (0, 3, 6):
            y, x = array(number), array(number + 1)
            module.through(y, x, 1.0)
            assert packed(module, "QQf")[:2] == (array(9).pointer, x.pointer)
    assert (module.planned, len(module.driver.launches), len(configured)) == (1, 3, 3)
