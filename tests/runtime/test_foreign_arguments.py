"""Texts without a header on a driver: what it gets of each argument, read as it would. Results on a GPU: test_count.

The driver here launches nothing; what is made of a class of calls with a header is `test_repeated`'s.
"""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dsl.runtime.cuda.context
import dsl.runtime.cuda.module
import dsl.runtime.transfer
from dsl.runtime import LaunchError
from dsl.runtime.cuda import driver
from dsl.runtime.foreign import ForeignKernel, MapOf

TEXT = """.version 9.0
.target sm_90a
.visible .entry mixed(.param .u64 .ptr .global a,
 .param .f32 s, .param .u16 n, .param .align 8 .b8 r[12], .param .u64 b)
.reqntid 64, 2
{ ret; }
"""
POINTER = 1 << 40


class LaunchingDriver:
    """Reads the arguments of a launch when it is made, from where the addresses lead. sizes: bytes of each."""

    CUlaunchAttribute = CUlaunchAttributeValue = CUlaunchConfig = staticmethod(
        lambda: SimpleNamespace(clusterDim=SimpleNamespace(), numAttrs=0)
    )
    CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION="cluster")

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.launched: list[tuple[Any, list[bytes]]] = []

    def cuLaunchKernelEx(self, config: Any, function: Any, addresses: int, extra: int) -> tuple[Any]:
        table = (ctypes.c_void_p * len(self.sizes)).from_address(addresses)
        read = [ctypes.string_at(at, size) for at, size in zip(table, self.sizes, strict=True) if at is not None]
        self.launched.append((config, read))
        return (0,)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> LaunchingDriver:
    made = LaunchingDriver([8, 4, 2, 12, 8])
    context = SimpleNamespace(current=nullcontext, call=lambda function, *given: function(*given), launched={})
    copies = iter(range(10))
    monkeypatch.setattr(driver, "bindings", lambda: made)
    monkeypatch.setattr(dsl.runtime.cuda.context, "context", lambda ordinal: context)
    monkeypatch.setattr(dsl.runtime.cuda.module, "load_function", lambda *given: "mixed")
    to_device = lambda array, ordinal: SimpleNamespace(array=SimpleNamespace(pointer=POINTER + next(copies)))  # noqa: E731
    monkeypatch.setattr(dsl.runtime.transfer, "to_device", to_device)
    return made


def test_the_driver_gets_each_argument_as_its_bytes(fake: LaunchingDriver) -> None:
    kernel, x = ForeignKernel(TEXT), np.zeros(5, np.float32)
    record = np.arange(12, dtype=np.uint8)
    shape = kernel.shape((3, 1, 1), None, (3, 1, 1), (512, 0))
    launch = kernel.load(shape, [x, 2.5, -1, record, x], ["x", "s", "n", "r", "x"], 0)
    launch()
    launch()
    (config, read), (_, again) = fake.launched
    address = POINTER.to_bytes(8, "little")  # one copy of an array that is given twice
    assert read == again == [address, np.float32(2.5).tobytes(), b"\xff\xff", record.tobytes(), address]
    assert (config.gridDimX, config.blockDimX, config.blockDimY, config.sharedMemBytes) == (3, 64, 2, 512)
    assert [attribute.id for attribute in config.attrs] == ["cluster"]
    assert launch.threads == 128 and launch.cluster == 3


def test_what_is_wrong_with_an_argument() -> None:
    kernel = ForeignKernel(TEXT)
    a, s, n, r, b = kernel.parameters
    x = np.zeros(3, np.float32)
    assert [kernel.fault(*pair) for pair in ((a, x), (a, 0), (s, 1), (n, 65535), (n, -32768), (r, x), (b, 7))] == [
        None
    ] * 7
    assert "pointer" in str(kernel.fault(a, 1))
    assert "no 1e+39" in str(kernel.fault(s, 1e39))
    assert "no 65536" in str(kernel.fault(n, 65536)) and "as 3" in str(kernel.fault(n, 3.0))
    assert "12 bytes by value" in str(kernel.fault(r, 1)) and "this array has 16" in str(
        kernel.fault(r, np.zeros(16, "u1"))
    )
    assert "no pointer" in str(kernel.fault(n, x)) and "takes a number" in str(kernel.fault(n, "x"))
    assert "no tensor map" in str(kernel.fault(a, MapOf(x, (3,))))


def test_entries_and_shapes_that_there_are_not() -> None:
    with pytest.raises(LaunchError, match="the PTX has mixed"):
        ForeignKernel(TEXT, "other")
    with pytest.raises(LaunchError, match=r"requires a block of \(64, 2, 1\)"):
        ForeignKernel(TEXT).shape((1, 1, 1), (128, 1, 1))
    with pytest.raises(LaunchError, match="does not say how many threads"):
        ForeignKernel(TEXT.replace(".reqntid 64, 2", "")).shape((1, 1, 1))
