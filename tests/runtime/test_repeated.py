"""A call of the class of the last one launches without another look-up, and refuses what such a call refuses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hand_written
import numpy as np
import pytest
from fake_cuda import ARRAYS, POINTER, FakeCuda, TensorGuards
from msgspec.structs import replace

from dsl.runtime import DeviceError, LaunchError, describe
from dsl.runtime.cuda.memory import HostCopy


@pytest.fixture
def cuda() -> Iterator[FakeCuda]:
    with FakeCuda() as entered:
        yield entered


def pointers(address: int) -> list[int]:
    """The pointers that a launch was given."""
    return [ctypes.c_uint64.from_address(each).value for each in (ctypes.c_uint64 * 2).from_address(address)]


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_a_call_of_the_same_class_is_not_looked_up(cuda: FakeCuda, framework: str, monkeypatch: Any) -> None:
    kernel, (y, x) = cuda.kernel(), cuda.pair(framework)
    kernel(y, x)
    monkeypatch.setattr(kernel, "_look_up", None)
    for number in (0, 1, 2, 0):
        y, x = cuda.pair(framework, number)
        kernel(y, x)
        at = y.data_ptr() if framework == "torch" else y.data.ptr
        assert pointers(cuda.driver.launches[-1]) == [at, at + (1 << 16)]
    assert len(cuda.driver.launches) == 5


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_addresses_are_checked(cuda: FakeCuda, framework: str) -> None:
    kernel = cuda.kernel()
    y, x = cuda.pair(framework)
    kernel(y, x)
    with pytest.raises(LaunchError, match="share memory"):
        kernel(y, y)
    assert len(cuda.driver.launches) == 1


STRIDED = tuple(replace(each, strided=True) for each in hand_written.header().params[:2])


def every_other(framework: str, at: int, extent: int = 8) -> Any:
    """An array of f32 of a stride of two elements."""
    made = ARRAYS[framework]((extent,), at)
    made.stride, made.strides, made._c_contiguous = lambda: (2,), (8,), False
    return made


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_ranges_that_meet_are_looked_into(cuda: FakeCuda, framework: str) -> None:
    """Elements that take turns share nothing: with a class that is new, with one that is known, and bound."""
    kernel, at = cuda.kernel(hand_written.copy(params=STRIDED)), POINTER
    for _ in range(2):
        for move in (0, 0, 1 << 20):
            y, x = every_other(framework, at + move), every_other(framework, at + move + 4)
            kernel(y, x)
            assert pointers(cuda.driver.launches[-1]) == [at + move, at + move + 4]
        with pytest.raises(LaunchError, match="y and x share memory"):
            kernel(every_other(framework, at), every_other(framework, at + 8))
    kernel.bind(y, x)()
    assert len(cuda.driver.launches) == 7
    with pytest.raises(LaunchError, match="y and x share memory"):
        kernel.bind(y, every_other(framework, at + (1 << 20) - 8))


def test_elements_that_are_not_known_to_be_apart_are_refused(cuda: FakeCuda, monkeypatch: Any) -> None:
    kernel = cuda.kernel(hand_written.copy(params=STRIDED))
    monkeypatch.setattr("dsl.runtime.checks.share_memory", lambda a, b, distance: None)
    with pytest.raises(LaunchError, match=r"y and x may share memory.* 10000 trials do not decide") as caught:
        kernel(every_other("torch", POINTER), every_other("torch", POINTER + 4))
    assert caught.value.code == "overlap" and str(caught.value.hint).startswith("pass a copy of x")


def test_arrays_without_gaps_are_judged_by_ranges_alone(cuda: FakeCuda, monkeypatch: Any) -> None:
    """And so are others whose ranges do not meet: nothing else is asked, at no launch."""
    monkeypatch.setattr("dsl.runtime.checks.share_memory", lambda a, b, distance: 1 / 0)
    kernel, (y, x) = cuda.kernel(), cuda.pair("torch")
    kernel(y, x)
    with pytest.raises(LaunchError, match="share memory"):
        kernel(y, cuda.pair("torch")[0])
    strided = cuda.kernel(hand_written.copy(params=STRIDED))
    for _ in range(2):
        strided(every_other("torch", POINTER), every_other("torch", POINTER + 64))


def test_a_copy_on_the_host_gets_its_elements_alone(cuda: FakeCuda) -> None:
    """What lies between those of an output may be another output's: each was copied back over the other."""
    cuda.keep_memory()
    memory = np.zeros((4, 6), np.float32)
    context = cuda.kernel()._loaded[0].context
    views = memory[:, :2], memory[:, 3:][::-1], memory[:0], memory[:, 2]
    copies = [HostCopy(context, describe(view)) for view in views]
    for number, copy in enumerate(copies):
        image = (ctypes.c_float * (copy.size // 4)).from_address(copy.allocation.pointer + copy.offset)
        image[:] = [number + 1.0] * len(image)
    for copy in copies:
        copy.copy_back()
    assert memory.tolist() == [[1, 1, 4, 2, 2, 2]] * 4


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_other_shapes_are_another_class(cuda: FakeCuda, framework: str) -> None:
    kernel = cuda.kernel()
    kernel(*cuda.pair(framework))
    kernel(*cuda.pair(framework, 0, 500))
    kernel(*cuda.pair(framework))
    assert len(kernel._classes) == 2
    y, _ = cuda.pair(framework, 0, 500)
    with pytest.raises(LaunchError):
        kernel(y, cuda.pair(framework)[1])
    assert len(cuda.driver.launches) == 3


def test_arrays_of_another_framework_are_another_class(cuda: FakeCuda) -> None:
    kernel = cuda.kernel()
    for framework in ("torch", "cupy", "torch", "cupy"):
        kernel(*cuda.pair(framework))
    assert len(cuda.driver.launches) == 4 and len(kernel._classes) == 2


def test_an_address_that_is_no_multiple_is_told(cuda: FakeCuda) -> None:
    kernel = cuda.kernel()
    y, x = cuda.pair("torch")
    kernel(y, x)
    x.pointer += 2
    with pytest.raises(LaunchError, match="aligned to 2 bytes"):
        kernel(y, x)
    x.pointer = 0
    with pytest.raises(LaunchError, match="no memory"):
        kernel(y, x)


def test_what_the_driver_refuses_is_told(cuda: FakeCuda) -> None:
    kernel, (y, x) = cuda.kernel(), cuda.pair("torch")
    kernel(y, x)
    cuda.driver.code = "no such context"
    with pytest.raises(DeviceError, match="launching copy: no such context"):
        kernel(y, x)


def test_guards_of_another_state_of_the_thread_are_made_anew(cuda: FakeCuda, monkeypatch: Any) -> None:
    """torch's guards hold for the dispatch keys under which they were made: all calls inside an operator missed."""
    kernel = cuda.kernel()
    kernel(*cuda.pair("torch"))
    monkeypatch.setattr(TensorGuards, "excluded", "ADInplaceOrView")
    kernel(*cuda.pair("torch", 1))
    assert len(kernel._classes) == 1
    monkeypatch.setattr(kernel, "_look_up", None)
    kernel(*cuda.pair("torch", 2))
    assert len(cuda.driver.launches) == 3


def test_a_call_of_the_same_class_is_not_looked_up_beside_other_devices(cuda: FakeCuda, monkeypatch: Any) -> None:
    """And it launches in the context of its own device, whichever is current."""
    now, entered = [1], list[int]()
    monkeypatch.setattr("dsl.runtime.cuda.driver.device_count", lambda: 2)
    monkeypatch.setattr(cuda.driver, "cuCtxGetCurrent", lambda: (0, now[-1]))

    @contextmanager
    def current() -> Iterator[None]:
        entered.append(now[-1])
        now.append(1)
        yield
        now.pop()

    kernel = cuda.kernel()
    kernel._loaded[0].context.current = current
    kernel(*cuda.pair("torch"))
    monkeypatch.setattr(kernel, "_look_up", None)
    kernel(*cuda.pair("torch", 1))
    now.append(2)
    kernel(*cuda.pair("torch", 2))
    assert (len(cuda.driver.launches), entered) == (3, [2])
