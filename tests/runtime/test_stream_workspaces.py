"""Workspaces of a launch on a GPU: one set a stream, shared by what is launched there, zeroed once."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cuda import SUCCESS, FakeCuda

from dsl import parse, runtime
from dsl.runtime.cuda import workspaces

TEXT = """
kernel total(y: f32[n], x: f32[n]; BLOCK = 32):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    acc = zeros(f32[BLOCK])
    for p in range(n):
        acc = acc + x[p]
    y[i : i + BLOCK] = acc

schedule s of total:
    warps = 1
    split p: 4
"""


class Cuda(FakeCuda):
    """A driver whose memory is counted: what was allocated, what of it was zeroed."""

    def __enter__(self) -> Cuda:
        super().__enter__()
        driver: Any = self.driver
        self.allocated: list[tuple[int, int]] = []
        self.zeroed: list[tuple[int, int]] = []
        self.modes: list[str] = []
        self.stream = 0  # torch's current one
        sys.modules["torch"]._C._cuda_getCurrentRawStream = lambda device: self.stream  # type: ignore[attr-defined]
        names = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
        driver.CUstreamCaptureMode, driver.CUstream_flags = names, SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
        driver.cuMemAlloc = self.allocate
        driver.cuThreadExchangeStreamCaptureMode = self.exchange
        driver.cuStreamCreate = lambda flags: (SUCCESS, 99)
        driver.cuMemsetD8Async = lambda pointer, value, size, stream: self.zeroed.append((pointer, size)) or (SUCCESS,)
        driver.cuStreamSynchronize = driver.cuStreamDestroy = lambda stream: (SUCCESS,)
        context = self.context = SimpleNamespace(ordinal=0, cu_context=1, launched={}, check=self.check)
        context.current, context.call = self.current, self.call
        return self

    @contextmanager
    def current(self) -> Iterator[None]:
        yield

    def call(self, function: Any, *arguments: Any) -> Any:
        code, *values = function(*arguments)
        assert code is SUCCESS
        return values[0] if values else ()

    def allocate(self, size: int) -> tuple[Any, int]:
        assert self.modes[-1] == "relaxed", "the stream may be being captured"
        pointer = (1 << 44) + sum(each for _, each in self.allocated)
        self.allocated.append((pointer, size))
        return SUCCESS, pointer

    def exchange(self, mode: str) -> tuple[Any, str]:
        before = self.modes[-1] if self.modes else "global"
        self.modes.append(mode)
        return SUCCESS, before

    def split(self) -> runtime.Kernel:
        """`total`, loaded."""
        kernel = runtime.Kernel(parse(TEXT).compile("total", arch="sm_90").ptx, device="cuda")
        loaded: Any = SimpleNamespace(
            header=kernel.header, context=self.context, record=0, timeline=0, says_cluster=True, function="total"
        )
        kernel._loaded[0] = loaded
        return kernel

    def given(self, number: int = -1) -> dict[str, int]:
        """The addresses of workspaces that a launch got."""
        arguments = (ctypes.c_uint64 * 8).from_address(self.driver.launches[number])
        order = [("y", 0), ("x", 1), ("n", 2), ("acc_parts", 3), ("arrived", 4)]
        return {name: ctypes.c_uint64.from_address(arguments[at]).value for name, at in order[3:]}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuda]:
    monkeypatch.setattr(workspaces, "_streams", {})
    with Cuda() as entered:
        yield entered


BLOCKS = 32 * 4
"""Of 1000 elements."""


def test_a_launch_gets_zeroed_counters_and_room_for_all_blocks(cuda: Cuda) -> None:
    kernel = cuda.split()
    kernel(*cuda.pair("torch"))
    (arrived, size), (parts, room) = cuda.allocated
    assert (size, room) == (4 * BLOCKS, 4 * 32 * BLOCKS)
    assert cuda.zeroed == [(arrived, size)] and cuda.given() == {"acc_parts": parts, "arrived": arrived}
    assert cuda.modes == ["relaxed", "global"] * 2


def test_launches_on_one_stream_share_it_and_others_do_not(cuda: Cuda) -> None:
    kernel, other = cuda.split(), cuda.split()
    for number in range(3):
        kernel(*cuda.pair("torch", number), stream=7)
    other(*cuda.pair("torch"), stream=7)
    assert len(cuda.allocated) == 2 and len({tuple(cuda.given(i).values()) for i in range(4)}) == 1
    kernel(*cuda.pair("torch"), stream=8)
    assert len(cuda.allocated) == 4 and cuda.given(-1) != cuda.given(0)
    kernel(*cuda.pair("torch"), stream=7)
    assert cuda.given() == cuda.given(0)


def test_a_larger_grid_gets_more_and_what_was_given_stays(cuda: Cuda) -> None:
    kernel = cuda.split()
    small, large = cuda.pair("torch", 0, 100), cuda.pair("torch", 0, 5000)
    kernel(*small)
    first = cuda.given()
    kernel(*large)
    assert not set(first.values()) & set(cuda.given().values()) and len(cuda.zeroed) == 2
    kernel(*small)
    assert cuda.given() == first
    kernel(*cuda.pair("torch", 0, 4000))
    assert len(cuda.allocated) == 4


def test_a_bound_launch_takes_the_stream_of_each_call(cuda: Cuda) -> None:
    bound = cuda.split().bind(*cuda.pair("torch"))
    bound()
    cuda.stream = 5
    bound()
    assert cuda.given(0) != cuda.given(1) and len(cuda.driver.launches) == 2


def test_the_stream_of_each_thread_is_another_one(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = cuda.split()
    for thread in (1, 2):
        monkeypatch.setattr(workspaces.threading, "get_ident", lambda thread=thread: thread)
        kernel(*cuda.pair("torch"), stream=workspaces.PER_THREAD)
    assert cuda.given(0) != cuda.given(1)


def test_memory_is_the_driver_s_to_free_when_the_interpreter_ends() -> None:
    """Modules are half gone then: processes that tuned on several GPUs printed a page of ignored errors."""
    from dsl.runtime.cuda.memory import Allocation

    made = object.__new__(Allocation)
    made.pointer, made.context = 8, None  # type: ignore[assignment]
    made.__del__(lambda: True)
    with pytest.raises(AttributeError):
        made.__del__(lambda: False)
    made.pointer = 0
