"""Machine code and PTX of exported kernels, as bytes for C."""

from __future__ import annotations

from msgspec import Struct

from dsl.export.model import ExportedCode
from dsl.runtime.tools import assemble


class KernelImage(Struct, frozen=True):
    """The code of a kernel. `ptx` ends with a zero byte, as the driver expects it. `cubin` is None if none was asked
    for."""

    ptx: bytes
    cubin: bytes | None


def image_of(code: ExportedCode, has_cubin: bool) -> KernelImage:
    """Returns the code of a kernel. Raises MissingToolError if a cubin is wanted and there is no ptxas."""
    header = code.header
    cubin = assemble(code.ptx, header.arch, header.entry, header.maxnreg).cubin if has_cubin else None
    return KernelImage(code.body.encode() + b"\0", cubin)
