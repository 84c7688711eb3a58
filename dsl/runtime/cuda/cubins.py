"""Machine code that the driver has made of PTX, in the compile cache. The driver assembles a large kernel in 0.4 s, and
loads its machine code in a millisecond."""

from __future__ import annotations

import ctypes
import re
from typing import Any

from dsl.runtime.cuda import driver
from dsl.runtime.store import key_of, store

LOG_BYTES = 1 << 14
TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)([af])\b", re.M)
"""Matches the target of PTX that runs on one architecture, or on one family of architectures."""


class NotAssembled(Exception):
    """Raised if the driver makes no machine code of a PTX text. The message says why."""


def load_kept(ptx: str, maxnreg: int | None, arch: str) -> Any | None:
    """Loads PTX in the current context as machine code: that of the compile cache, or else what the driver makes of the
    PTX, which is then kept. Returns the driver's module, or None if the cache is off. Raises NotAssembled. Then the
    caller loads the PTX itself."""
    kept = store()
    if kept is None:
        return None
    key = key_of(ptx, arch, str(maxnreg), driver.version())
    if (cubin := kept.get("cubin", key)) is not None:
        code, module = _load(cubin)
        if code == 0:
            return module
        kept.drop("cubin", key)
    cubin = assembled(ptx, maxnreg)
    code, module = _load(cubin)
    if code != 0:
        raise NotAssembled(f"the driver does not load it: error {int(code)}")
    kept.put("cubin", key, cubin)  # only code that the driver has loaded
    return module


def _load(cubin: bytes) -> tuple[Any, Any]:
    code, module = driver.bindings().cuModuleLoadDataEx(cubin, 0, [], [])
    return code, module


def assembled(ptx: str, maxnreg: int | None) -> bytes:
    """Returns the machine code that the driver makes of PTX. Raises NotAssembled."""
    cuda = driver.bindings()
    option = cuda.CUjit_option
    log = bytearray(LOG_BYTES)  # the driver writes a C string of unknown length
    options = {option.CU_JIT_ERROR_LOG_BUFFER: log, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: LOG_BYTES}
    if maxnreg is not None:
        options[option.CU_JIT_MAX_REGISTERS] = maxnreg
    # By default the driver assembles for the device, which for sm_90a is sm_90.
    if (match := TARGET.search(ptx)) is not None:
        name = f"CU_TARGET_COMPUTE_{match[1]}{match[2].upper()}"
        if (target := getattr(cuda.CUjit_target, name, None)) is None:
            raise NotAssembled(f"cuda-bindings has no {name}")
        options[option.CU_JIT_TARGET] = target

    def check(code: Any) -> None:
        if code != 0:
            raise NotAssembled(" ".join(log.rstrip(b"\0").decode(errors="replace").split()) or f"error {int(code)}")

    code, state = cuda.cuLinkCreate(len(options), list(options), list(options.values()))
    check(code)
    try:
        image = ptx.encode() + b"\0"
        kind = cuda.CUjitInputType.CU_JIT_INPUT_PTX
        check(cuda.cuLinkAddData(state, kind, image, len(image), b"kernel.ptx", 0, [], [])[0])
        code, address, size = cuda.cuLinkComplete(state)
        check(code)
        return ctypes.string_at(int(address), int(size))  # a copy, because the state owns the machine code
    finally:
        cuda.cuLinkDestroy(state)
