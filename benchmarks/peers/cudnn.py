"""cuDNN through its C library: a handle, tensor descriptors and the legacy softmax (cudnn_ops.h)."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness import LeftOut

NCHW = 0
DATA_TYPES = {"f32": 0, "f16": 2, "bf16": 9}
ACCURATE, LOG = 1, 2
MODES = {"instance": 0, "channel": 1}
"""Over C, H and W, or over C: the same computation for rows of C values, by other kernels."""


@cache
def library() -> ctypes.CDLL:
    """libcudnn, of NVIDIA's wheel or of the system. Raises LeftOut without it."""
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
    """Raises LeftOut with cuDNN's own word for what it refuses."""
    status = getattr(library(), function)(*arguments)
    if status:
        raise LeftOut(f"{function}: {library().cudnnGetErrorString(status).decode()}")


@cache
def handle() -> ctypes.c_void_p:
    """One for the process, on the default stream."""
    made = ctypes.c_void_p()
    call("cudnnCreate", ctypes.byref(made))
    return made


def matrix(rows: int, cols: int, dtype: str) -> ctypes.c_void_p:
    """A descriptor of rows images with cols channels of one pixel."""
    made = ctypes.c_void_p()
    call("cudnnCreateTensorDescriptor", ctypes.byref(made))
    call("cudnnSetTensor4dDescriptor", made, NCHW, DATA_TYPES[dtype], rows, cols, 1, 1)
    return made


def softmax(
    mode: str, log: bool, backward: bool, rows: int, cols: int, dtype: str, pointers: Sequence[int]
) -> Callable[[], None]:
    """A launch of softmax along rows; pointers (y, x), backward (dx, y, dy). Launched once, to hear whether it can."""
    described = matrix(rows, cols, dtype)
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    output, *inputs = [ctypes.c_void_p(pointer) for pointer in pointers]
    function = library().cudnnSoftmaxBackward if backward else library().cudnnSoftmaxForward
    operands = [part for pointer in inputs for part in (described, pointer)]
    algorithm = LOG if log else ACCURATE
    arguments = (handle(), algorithm, MODES[mode], ctypes.byref(one), *operands, ctypes.byref(zero), described, output)
    call(function.__name__, *arguments)
    return lambda: function(*arguments)
