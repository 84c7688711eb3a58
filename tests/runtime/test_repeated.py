"""A call of the class of the last one launches without another look-up, and refuses what such a call refuses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from fake_cuda import FakeCuda

from runtime import DeviceError, LaunchError


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
