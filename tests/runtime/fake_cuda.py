"""A driver that launches nothing, and arrays as torch and CuPy have them: what a call costs, and does, without a GPU.

Numbers of a fake array are read by Python where the real ones answer in C, so times are only to be compared with others
taken here.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import hand_written

from dsl import runtime
from dsl.runtime.cuda import driver
from dsl.runtime.frameworks import torch as torch_arrays

SUCCESS = object()
POINTER = 1 << 40
WORD = 0xFFFFFFFF
"""The second word of an encoded map."""


class Words:
    """An enumeration of the driver: each word is its own name, without what all begin with."""

    def __getattr__(self, name: str) -> str:
        return name.removeprefix("CU_TENSOR_MAP_")


class Driver:
    """What `dsl.runtime.cuda.driver.bindings()` gives. launches: the buffers' addresses; code: what a launch answers;
    encoded: the arguments of each encoding of a tensor map, whose words are the address and then `WORD`; with_windows:
    those of maps for im2col; replaced: the addresses that took the place of others."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=SUCCESS)
    cuuint32_t = cuuint64_t = int
    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = Words()
    CUtensorMapL2promotion = CUtensorMapFloatOOBfill = Words()

    def __init__(self) -> None:
        self.launches: list[int] = []
        self.code: Any = SUCCESS
        self.keeps = True
        self.encoded: list[tuple[Any, ...]] = []
        self.with_windows: list[tuple[Any, ...]] = []
        self.replaced: list[int] = []
        self.version = 13000

    def CUstream(self, handle: int) -> int:
        return handle

    def cuCtxGetCurrent(self) -> tuple[Any, int]:
        return SUCCESS, 1

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tuple[Any, Any]:
        self.encoded.append(arguments)
        return SUCCESS, SimpleNamespace(opaque=[arguments[2], WORD, *(0,) * 14])

    def cuTensorMapEncodeIm2col(self, *arguments: Any) -> tuple[Any, Any]:
        self.with_windows.append(arguments)
        return self.cuTensorMapEncodeTiled(*arguments)

    def cuTensorMapReplaceAddress(self, made: Any, pointer: int) -> tuple[Any]:
        self.replaced.append(pointer)
        made.opaque[0] = pointer
        return (SUCCESS,)

    def cuDriverGetVersion(self) -> tuple[Any, int]:
        return SUCCESS, self.version

    def cuLaunchKernel(self, *arguments: Any) -> tuple[Any]:
        if self.keeps:
            self.launches.append(arguments[-2])
        return (self.code,)


class Tensor:
    """As torch's."""

    __module__ = "torch"
    dtype, device, layout = "torch.float32", SimpleNamespace(type="cuda", index=0), "torch.strided"

    def __init__(self, shape: tuple[int, ...], pointer: int) -> None:
        self.shape, self.pointer = shape, pointer

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return (1,)

    def get_device(self) -> int:
        return 0

    def is_neg(self) -> bool:
        return False

    requires_grad = False
    version = 0


class TensorGuards:
    """As torch's, of types and shapes alone, and of the dispatch keys that the thread excludes."""

    excluded = ""

    def __init__(self, *tensors: Tensor, **sizes: Any) -> None:
        self.known = [*map(self.guarded, tensors)]

    @staticmethod
    def guarded(tensor: Tensor) -> tuple[Any, ...]:
        return type(tensor), tensor.shape, tensor.requires_grad, TensorGuards.excluded

    def check(self, *tensors: Tensor) -> bool:
        return [*map(self.guarded, tensors)] == self.known


class Gradients:
    """Whether torch records."""

    on = True

    @staticmethod
    def count_up(tensors: list[Tensor]) -> None:
        for tensor in tensors:
            tensor.version += 1


class Dtype:
    """As numpy's."""

    name = "float32"


class ndarray:
    """As CuPy's."""

    __module__ = "cupy"
    dtype = Dtype()
    _c_contiguous = True

    def __init__(self, shape: tuple[int, ...], pointer: int) -> None:
        self.shape, self.strides = shape, (4,)
        self.data = SimpleNamespace(ptr=pointer, device_id=0)


ARRAYS = {"torch": Tensor, "cupy": ndarray}


def torch_module() -> Any:
    guards = SimpleNamespace(guards=SimpleNamespace(TensorGuards=TensorGuards))
    own = {"_dynamo": guards, "_cuda_getCurrentRawStream": lambda device: 0, "_increment_version": Gradients.count_up}
    return SimpleNamespace(
        Tensor=Tensor,
        _C=SimpleNamespace(**own),
        is_grad_enabled=lambda: Gradients.on,
        zeros=lambda extent: Tensor((extent,), POINTER),
    )


def cupy_module() -> Any:
    stream = SimpleNamespace(ptr=0)
    return SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda device: stream))


class FakeCuda(ExitStack):
    """While it is entered, kernels of `kernel()` launch on the fake driver."""

    def __enter__(self) -> FakeCuda:
        self.driver = Driver()
        modules = {"torch": torch_module(), "cupy": cupy_module()}
        self.enter_context(patch.dict(sys.modules, modules))
        self.enter_context(patch.object(driver, "bindings", lambda: self.driver))
        self.enter_context(patch.object(driver, "device_count", lambda: 1))
        self.enter_context(patch.object(torch_arrays, "guards_work", lambda: True))
        self.enter_context(patch.object(torch_arrays, "version_counter", lambda: Gradients.count_up))
        self.enter_context(patch("dsl.runtime.cuda.workspaces._streams", {}))  # a real device has its own, later
        self.enter_context(patch("dsl.runtime.launch.device_facts", lambda *what: SimpleNamespace(sms=132)))
        return self

    def kernel(self, text: str | None = None) -> runtime.Kernel:
        """Loaded: that of `text`, else a copy of f32."""
        kernel = runtime.Kernel(text or hand_written.copy(), device="cuda")
        context = SimpleNamespace(ordinal=0, cu_context=1, launched={}, check=self.check, poison=None)
        context.current, context.call = nullcontext, lambda function, *given: next(iter(function(*given)[1:]), None)
        loaded: Any = SimpleNamespace(
            header=kernel.header, context=context, record=0, timeline=0, says_cluster=True, function="copy"
        )
        kernel._loaded[0] = loaded
        return kernel

    def keep_memory(self) -> None:
        """From now on the driver has memory, which is the host's."""
        self.memory: dict[int, Any] = {}
        fake: Any = self.driver
        fake.cuMemAlloc, fake.cuMemFree = self.allocate, lambda pointer: (SUCCESS,)
        fake.cuMemcpyHtoD = fake.cuMemcpyDtoH = self.copy

    def allocate(self, size: int) -> tuple[Any, int]:
        memory = ctypes.create_string_buffer(b"\xa5" * size, size)  # what was there before
        self.memory[ctypes.addressof(memory)] = memory
        return SUCCESS, ctypes.addressof(memory)

    def copy(self, target: int, source: int, size: int) -> tuple[Any]:
        ctypes.memmove(target, source, size)
        return (SUCCESS,)

    def check(self, code: Any, what: str) -> None:
        raise runtime.DeviceError("launch", f"{what}: {code}")

    def pair(self, framework: str, number: int = 0, extent: int = 1000) -> tuple[Any, Any]:
        """(y, x) of a framework; of another number at other addresses."""
        at = POINTER + number * (1 << 20)
        return ARRAYS[framework]((extent,), at), ARRAYS[framework]((extent,), at + (1 << 16))
