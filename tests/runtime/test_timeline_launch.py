"""What a launch on a GPU gives warps to record in, by a driver that launches nothing: its memory is the host's."""

from __future__ import annotations

import ctypes
from typing import Any

import hand_written
import pytest
from fake_cuda import FakeCuda

from dsl import runtime
from dsl.runtime.cuda.module import LoadedKernel
from dsl.runtime.header import Argument, HeaderMark
from dsl.runtime.timeline import HEAD, RECORD, WarpRecord

IDLE = 1 << 44
"""Where a launch records that does not ask for it."""
MARKS = (HeaderMark("life", "life of a warp", 0), HeaderMark("loops", "loop p", 6))


def marked() -> str:
    """`copy` with one more parameter."""
    about = hand_written.header()
    arguments = (*about.arguments[:3], Argument("timeline"))
    text = hand_written.copy(arguments=arguments, timeline=MARKS)
    return text.replace(".param .u32 copy_2", ".param .u32 copy_2, .param .u64 copy_3")


class Recording(FakeCuda):
    """Memory is the host's, and each launch writes the record of block 1, warp 2, where it is given room."""

    def __enter__(self) -> Recording:
        super().__enter__()
        self.keep_memory()
        self.given: list[int] = []
        driver: Any = self.driver
        launch = driver.cuLaunchKernel
        driver.cuLaunchKernel = lambda *arguments: (self.record(arguments[-2]), launch(*arguments))[1]
        return self

    def record(self, buffer: int) -> None:
        place = ctypes.c_uint64.from_address((ctypes.c_uint64 * 4).from_address(buffer)[3]).value
        self.given.append(place)
        if place == IDLE:
            return
        blocks, events = HEAD.unpack(ctypes.string_at(place, HEAD.size))
        assert (blocks, events) == (8, 2)
        at = place + HEAD.size + (1 * 4 + 2) * (RECORD.size + 8 * events)
        written = RECORD.pack(7, 1000, 0xFFFFFFF0, 2000, 0x100000900, RECORD.size + 8 * 3)
        words = (3 - 1, 0xFFFFFFFA, 3, 10)  # the loop begins, and ends when the lower half of the clock is at 10
        ctypes.memmove(at, written + b"".join(word.to_bytes(4, "little") for word in words), RECORD.size + 16)

    def loaded(self) -> runtime.Kernel:
        kernel = self.kernel(marked())
        made: Any = kernel._loaded[0]
        made.context.poison, made.context.synchronize = None, lambda: None
        kernel._loaded[0] = LoadedKernel(made.context, made.header, made.function, 0, True, 132, IDLE)
        return kernel


def test_a_launch_records_where_it_is_asked_to() -> None:
    with Recording() as cuda:
        kernel = cuda.loaded()
        y, x = cuda.pair("torch")
        kernel(y, x)
        result = kernel.run(y, x, timeline=(2, None))
        kernel(y, x)
        bound = kernel.bind(y, x, timeline=(2, None))
        bound()
        bound()
        del bound  # and its memory, while there is a driver
    events = [(1, True, 0xFFFFFFFA), (1, False, 0x10000000A)]
    assert result.timeline == [WarpRecord(1, 2, 7, (1000, 0xFFFFFFF0), (2000, 0x100000900), events, dropped=1)]
    assert (cuda.given[0], cuda.given[2]) == (IDLE, IDLE) and cuda.given[1] in cuda.memory
    assert cuda.given[3] == cuda.given[4] in cuda.memory


def test_a_kernel_without_marks_has_nothing_to_record() -> None:
    with Recording() as cuda:
        y, x = cuda.pair("torch")
        with pytest.raises(runtime.LaunchError, match="has no marks"):
            cuda.kernel().run(y, x, timeline=(2, None))
