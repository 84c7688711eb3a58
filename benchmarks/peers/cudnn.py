"""cuDNN through its C library: a handle, descriptors, the legacy softmax (cudnn_ops.h), and convolutions of bytes
(cudnn_cnn.h)."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness import LeftOut

NCHW, NHWC = 0, 1
DATA_TYPES = {"f32": 0, "f16": 2, "s8": 3, "s32": 4, "bf16": 9}
CROSS_CORRELATION, IMPLICIT_PRECOMP_GEMM, TENSOR_OP_MATH, RELU, KEEPS_NO_NAN = 1, 1, 1, 1, 0
ACCURATE, LOG = 1, 2
MODES = {"instance": 0, "channel": 1}
"""Modes of the softmax: over C, H and W, or over C alone. For rows of C values, both modes compute the same results,
with different kernels."""


@cache
def library() -> ctypes.CDLL:
    """libcudnn from NVIDIA's wheel or the system. Raises LeftOut without it."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [str(path) for folder in folders for path in sorted(Path(folder, "cudnn", "lib").glob("libcudnn.so.*"))]
    name = found[0] if found else ctypes.util.find_library("cudnn")
    if name is None:
        raise LeftOut("libcudnn is not installed")
    loaded = ctypes.CDLL(name)
    loaded.cudnnGetErrorString.restype = ctypes.c_char_p
    loaded.cudnnGetVersion.restype = ctypes.c_size_t
    return loaded


def call(function: str, *arguments: Any) -> None:
    """Calls a function of cuDNN. Raises LeftOut with cuDNN's own message if cuDNN refuses."""
    status = getattr(library(), function)(*arguments)
    if status:
        raise LeftOut(f"{function}: {library().cudnnGetErrorString(status).decode()}")


@cache
def handle() -> ctypes.c_void_p:
    """The handle of the process, on the default stream."""
    made = ctypes.c_void_p()
    call("cudnnCreate", ctypes.byref(made))
    return made


def matrix(rows: int, cols: int, dtype: str) -> ctypes.c_void_p:
    """A descriptor of `rows` images, which have `cols` channels and one pixel."""
    made = ctypes.c_void_p()
    call("cudnnCreateTensorDescriptor", ctypes.byref(made))
    call("cudnnSetTensor4dDescriptor", made, NCHW, DATA_TYPES[dtype], rows, cols, 1, 1)
    return made


def softmax(
    mode: str, log: bool, backward: bool, rows: int, cols: int, dtype: str, pointers: Sequence[int]
) -> Callable[[], None]:
    """A launch of softmax along rows. `pointers` are (y, x), or (dx, y, dy) in the backward pass.

    The function launches once, to find out whether cuDNN supports the softmax.
    """
    described = matrix(rows, cols, dtype)
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    output, *inputs = [ctypes.c_void_p(pointer) for pointer in pointers]
    function = library().cudnnSoftmaxBackward if backward else library().cudnnSoftmaxForward
    operands = [part for pointer in inputs for part in (described, pointer)]
    algorithm = LOG if log else ACCURATE
    arguments = (handle(), algorithm, MODES[mode], ctypes.byref(one), *operands, ctypes.byref(zero), described, output)
    call(function.__name__, *arguments)
    return lambda: function(*arguments)


def descriptor(kind: str, *arguments: Any) -> ctypes.c_void_p:
    """Calls cudnnCreate{kind}Descriptor, then the cudnnSet… function that `arguments[0]` names."""
    made = ctypes.c_void_p()
    call(f"cudnnCreate{kind}Descriptor", ctypes.byref(made))
    call(arguments[0], made, *arguments[1:])
    return made


def convolution_s8(
    x: Sequence[int], f: Sequence[int], y: Sequence[int], stride: int, pad: int, alpha: float, arrays: Sequence[Any]
) -> Callable[[], None]:
    """A launch of y = relu(alpha * conv(x, f) + bias) on torch's current stream. x, y and f hold bytes in NHWC order.

    `x` and `y` are (n, c, h, w), and `f` is (k, c, r, s). `arrays` are the torch tensors y, x, f and bias (f32). The
    function launches once, to find out whether cuDNN supports the convolution.
    """
    import torch

    s8 = DATA_TYPES["s8"]
    image = [descriptor("Tensor", "cudnnSetTensor4dDescriptor", NHWC, s8, *extents) for extents in (x, y)]
    filters = descriptor("Filter", "cudnnSetFilter4dDescriptor", s8, NHWC, *f)
    bias = descriptor("Tensor", "cudnnSetTensor4dDescriptor", NHWC, DATA_TYPES["f32"], 1, f[0], 1, 1)
    geometry = (pad, pad, stride, stride, 1, 1, CROSS_CORRELATION, DATA_TYPES["s32"])
    convolution = descriptor("Convolution", "cudnnSetConvolution2dDescriptor", *geometry)
    call("cudnnSetConvolutionMathType", convolution, TENSOR_OP_MATH)
    act = descriptor("Activation", "cudnnSetActivationDescriptor", RELU, KEEPS_NO_NAN, ctypes.c_double(0.0))
    size = ctypes.c_size_t()
    operands = (image[0], filters, convolution, image[1], IMPLICIT_PRECOMP_GEMM)
    call("cudnnGetConvolutionForwardWorkspaceSize", handle(), *operands, ctypes.byref(size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device="cuda")
    out, source, weights, offsets = (ctypes.c_void_p(array.data_ptr()) for array in arrays)
    scale, nothing = ctypes.c_float(alpha), ctypes.c_float(0.0)
    arguments = (
        handle(), ctypes.byref(scale), image[0], source, filters, weights, convolution, IMPLICIT_PRECOMP_GEMM,
        ctypes.c_void_p(workspace.data_ptr()), size, ctypes.byref(nothing), image[1], out, bias, offsets, act,
        image[1], out,
    )  # fmt: skip
    call("cudnnConvolutionBiasActivationForward", *arguments)
    function, set_stream = library().cudnnConvolutionBiasActivationForward, library().cudnnSetStream

    def launch(_kept: Any = (workspace, *arrays)) -> None:
        set_stream(handle(), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        function(*arguments)

    return launch
