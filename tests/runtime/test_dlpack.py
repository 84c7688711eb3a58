"""Arrays that other frameworks take by DLPack: types, strides, ownership, streams."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest

from dsl import runtime
from dsl.runtime import LaunchError, describe
from dsl.runtime.arrays import Array
from dsl.runtime.capsules import DlpackExport, capsule_of
from dsl.runtime.cuda import driver
from dsl.runtime.cuda.memory import DeviceArray
from dsl.runtime.dtypes import DTYPES, numpy_dtype

has_flags = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="numpy exports no flags by DLPack before 2.1"
)


class Owner:
    """What owns memory."""


class Reexported(DlpackExport):
    """An export of a type whose module says nothing about its framework."""


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_export_says_what_the_array_is(dtype: str) -> None:
    whole = np.zeros((4, 6), numpy_dtype(dtype))
    for x in (whole, whole[::2, 4:1:-1], whole[:0], whole[:1, :1].reshape(())):
        array = describe(x)
        found = describe(Reexported(array, x))
        assert found.dtype == array.dtype and found.shape == array.shape and found.device is None
        if x.size:
            assert (found.pointer, found.strides) == (array.pointer, array.strides)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "int64", "uint16"])
def test_torch_takes_an_export_and_keeps_its_memory(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x, owner = np.arange(24).reshape(4, 6).astype(getattr(ml_dtypes, dtype, dtype)), Owner()
    owner.x, watch = x, weakref.ref(owner)  # type: ignore[attr-defined]
    taken = torch.from_dlpack(DlpackExport(describe(x[::2, 1:]), owner))
    del owner
    gc.collect()
    assert watch() is not None and taken.dtype == getattr(torch, dtype) and taken.stride() == (12, 1)
    assert taken.to(torch.float64).tolist() == x[::2, 1:].astype(np.float64).tolist()
    taken.fill_(0)
    assert not x[::2, 1:].astype(np.float64).any()  # the same memory
    del taken
    gc.collect()
    assert watch() is None


def test_a_capsule_that_nobody_takes_keeps_nothing() -> None:
    for version in (None, (1, 0)):
        owner = Owner()
        watch, capsule = weakref.ref(owner), capsule_of(describe(np.zeros(4)), owner, version)
        del owner
        gc.collect()
        assert watch() is not None
        del capsule
        gc.collect()
        assert watch() is None


def test_outputs_of_the_emulator_are_taken() -> None:
    """Also bf16, whose arrays numpy refuses to export."""
    torch = pytest.importorskip("torch")
    x = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    with pytest.raises((BufferError, TypeError)):
        torch.from_dlpack(x)
    assert torch.equal(torch.from_dlpack(runtime.by_dlpack(x)), torch.arange(6).reshape(2, 3).bfloat16())
    assert np.shares_memory(np.from_dlpack(runtime.by_dlpack(x.view(np.int16))), x)
    jax = pytest.importorskip("jax")
    taken = jax.dlpack.from_dlpack(runtime.by_dlpack(x))
    assert taken.dtype == "bfloat16" and (np.asarray(taken) == x).all()


@has_flags
def test_read_only_arrays_stay_read_only() -> None:
    x = np.arange(4, dtype=np.float32)
    x.flags.writeable = False
    assert describe(Reexported(describe(x), x)).readonly
    with pytest.raises(BufferError, match="cannot say that an array is read-only"):
        DlpackExport(describe(x), x).__dlpack__()


def test_exports_that_would_need_a_copy_are_refused() -> None:
    export = runtime.by_dlpack(np.zeros(4))
    for options, said in (({"copy": True}, "without a copy"), ({"dl_device": (2, 0)}, "lies on DLPack device")):
        with pytest.raises(BufferError, match=said):
            export.__dlpack__(**options)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="has no stream"):
        export.__dlpack__(stream=1)
    assert export.__dlpack_device__() == (1, 0)


# ---- device memory, on a driver that records ----


class EventDriver:
    """The functions of the driver for events. `calls` are what it was asked for."""

    CUstream = staticmethod(lambda handle: handle)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> tuple[int, ...]:
            self.calls.append((name, *given))
            return (0, 77) if name == "cuEventCreate" else (0,)

        call.__name__ = name
        return call


def device_array(dtype: str = "bf16") -> DeviceArray:
    """An array on the second GPU, without memory."""
    x = object.__new__(DeviceArray)
    owner: Any = SimpleNamespace(current=nullcontext, call=lambda f, *given: next(iter(f(*given)[1:]), None))
    x.allocation = SimpleNamespace(context=owner)  # type: ignore[assignment]
    x.array = Array("dsl", 1 << 40, (4, 6), (6, 1), dtype, 1)
    return x


@pytest.fixture
def recorded() -> Any:
    made = EventDriver()
    with patch.object(driver, "bindings", lambda: made):
        yield made


@has_flags
@pytest.mark.parametrize("dtype", ["f16", "bf16", "e4m3"])
def test_a_device_array_says_its_device(dtype: str, recorded: EventDriver) -> None:
    x = device_array(dtype)
    assert x.__dlpack_device__() == (2, 1)

    class Taken:
        """As a framework that is not known sees it."""

        __dlpack__, __dlpack_device__ = x.__dlpack__, x.__dlpack_device__

    assert describe(Taken()) == Array("dlpack", 1 << 40, (4, 6), (6, 1), dtype, 1)
    assert not recorded.calls


def test_the_stream_of_the_consumer_waits(recorded: EventDriver) -> None:
    x = device_array()
    for stream in (None, 1, -1):  # the legacy default stream, on which the launches are, and no wait
        x.__dlpack__(stream=stream)
        assert not recorded.calls
    x.__dlpack__(stream=1234, max_version=(1, 0))
    wait = [("cuEventRecord", 77, 0), ("cuStreamWaitEvent", 1234, 77, 0), ("cuEventDestroy", 77)]
    assert recorded.calls == [("cuEventCreate", 2), *wait]
    with pytest.raises(ValueError, match="stream 0 is ambiguous"):
        x.__dlpack__(stream=0)
    with pytest.raises(LaunchError, match="takes an array in host memory"):
        runtime.by_dlpack(x)


@pytest.mark.gpu
@pytest.mark.parametrize("framework", ["torch", "cupy", "jax"])
def test_frameworks_take_device_arrays(framework: str) -> None:
    module = pytest.importorskip(framework)
    take = module.dlpack.from_dlpack if framework == "jax" else module.from_dlpack
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    taken = take(runtime.to_device(x))  # nobody else keeps the array
    gc.collect()
    runtime.to_device(np.full_like(x, -1))  # it would get the memory if it were free
    back = taken.get() if framework == "cupy" else np.asarray(taken.cpu() if framework == "torch" else taken)
    assert (back == x).all()
