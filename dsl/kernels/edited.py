"""Reads kernels from a file with tile IR (after any pass), LLVM IR or PTX. A user may have edited the file by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from dsl.lowering.ir.location import TileError

if TYPE_CHECKING:
    from dsl.runtime.header import Header


class Edited(Struct, frozen=True):
    """The PTX of a file that a user may have edited. `headers` maps the name of each kernel in the `.tile` file to the
    kernel's header."""

    name: str
    ptx: str
    headers: Mapping[str, Header]

    @property
    def digest(self) -> str:
        """The first 12 hexadecimal digits of the PTX's SHA-256. `dsl tune` logs them, to distinguish trials of
        different texts."""
        return hashlib.sha256(self.ptx.encode()).hexdigest()[:12]

    def not_launched(self, used: str) -> TileError:
        """Returns the error for a file whose kernels are never launched. `used` ends its message: it states which
        kernels are launched instead."""
        return TileError("ptx", None, f"'{self.name}' has the kernels {', '.join(self.headers)}; {used}")


def edited_from(file: str, choose: Mapping[str, str]) -> Edited:
    """Compiles the kernels of a file to PTX. Raises TileError or LaunchError."""
    ptx = ptx_from(file, choose)
    return Edited(file, ptx, headers_of(ptx))


def headers_of(ptx: str) -> dict[str, Header]:
    """Maps the name of each kernel in the `.tile` file to its header in a PTX text. Raises LaunchError if the PTX has
    no header."""
    from dsl.runtime.errors import LaunchError
    from dsl.runtime.header import read

    headers = read(ptx)
    if not headers:
        raise LaunchError("ptx", "the PTX has no //dsl header", "take one that dsl compile wrote, and edit its body")
    return {header.kernel: header for header in headers.values()}


def ptx_from(file: str, choose: Mapping[str, str]) -> str:
    """Returns the PTX of a file. Tile IR is compiled with the options in `choose`, and LLVM IR without them. PTX is
    returned unchanged."""
    from dsl.lowering.text.level import is_ir
    from dsl.text.files import MAX_TEXT, read_text

    text = read_text(Path(file), MAX_TEXT)
    if is_ir(text):
        from dsl.kernels.compile import finish
        from dsl.lowering.text.reader import read

        return finish(read(text, file), choices=choose).ptx
    # LLVM IR that this compiler wrote begins with its header as a comment.
    if text.startswith(";"):
        from dsl.kernels.compile import ptx_of_llvm

        return ptx_of_llvm(text, file)
    return text
