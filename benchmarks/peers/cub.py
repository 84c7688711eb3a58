"""CUB's device-wide sum. nvcc compiles it from cub_sum.cu, and ctypes calls it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from harness import LeftOut

SOURCE = Path(__file__).with_name("cub_sum.cu")


@cache
def library() -> ctypes.CDLL:
    """The compiled library for GPU 0. Raises LeftOut if nvcc is missing or fails."""
    import torch

    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise LeftOut("nvcc is not installed")
    major, minor = torch.cuda.get_device_capability()
    with tempfile.TemporaryDirectory(prefix="cub-") as folder:
        target = Path(folder, "cub_sum.so")
        options = ["-O3", f"-arch=sm_{major}{minor}", "-shared", "-Xcompiler", "-fPIC"]
        done = subprocess.run([nvcc, *options, "-o", target, SOURCE], capture_output=True, text=True)
        if done.returncode:
            raise LeftOut(f"nvcc: {done.stderr.strip().splitlines()[0]}")
        return ctypes.CDLL(str(target))


def summing(dtype: str, out: int, x: int, count: int) -> Callable[[], None]:
    """A launch on the default stream. It adds up, in f32, the `count` elements at the address `x`.

    The elements have type f16 or f32.
    """
    import torch

    function: Any = getattr(library(), f"sum_{dtype}")
    size, arguments = ctypes.c_size_t(), (ctypes.c_void_p(x), ctypes.c_void_p(out), ctypes.c_longlong(count), None)

    def call(temporary: ctypes.c_void_p | None) -> None:
        status = function(temporary, ctypes.byref(size), *arguments)
        if status:
            raise LeftOut(f"CUB: CUDA's error {status}")

    call(None)
    space = torch.empty(size.value, dtype=torch.uint8, device="cuda")
    address = ctypes.c_void_p(space.data_ptr())

    def launch(owned: Any = space) -> None:
        call(address)

    return launch
