"""Converts the C format and the packed arguments of a `vprintf` to text (CUDA C++ guide, formatted output)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

SPECIFIER = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|j|t)?([diouxXeEfFgGaAcsp%])")


def c_string(data: Any, start: int) -> str:
    """Returns the zero-terminated text at the offset `start` of a byte array. Raises IndexError if `start` is out of
    range."""
    if not 0 <= start < len(data):
        raise IndexError(start)
    end = start
    while end < len(data) and data[end]:
        end += 1
    return bytes(data[start:end]).decode("utf-8", "replace")


class PrintArguments:
    """Reads the packed arguments of a `vprintf`. They are stored one after another, each aligned to its size. Floats
    are stored as doubles."""

    def __init__(self, data: Any, start: int):
        self.data, self.at = data, start
        self.start = start

    def take(self, form: str, size: int) -> Any:
        self.at = self.start + -(-(self.at - self.start) // size) * size
        (value,) = struct.unpack_from(form, bytes(self.data[self.at : self.at + size]))
        self.at += size
        return value


def formatted(text: str, data: Any, start: int, text_at: Callable[[int], str]) -> str:
    """Returns `text` with its specifiers, such as %d, replaced by the arguments. `text_at` returns the string at an
    address, for %s."""
    arguments = PrintArguments(data, start)

    def replace(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        if width == "*":
            width = str(arguments.take("<i", 4))
        if precision == "*":
            precision = str(arguments.take("<i", 4))
        shape = "%" + flags + (width or "") + ("." + precision if precision is not None else "")
        if kind in "eEfFgGaA":
            # Python's %a means something else than C's, so %e is used instead.
            return (shape + kind.replace("a", "e").replace("A", "E")) % arguments.take("<d", 8)
        if kind == "s":
            return (shape + "s") % text_at(arguments.take("<Q", 8))
        if kind == "p":
            return f"0x{arguments.take('<Q', 8):x}"
        if kind == "c":
            return (shape + "c") % chr(arguments.take("<I", 4) & 0xFF)
        wide = length in {"l", "ll", "z", "j", "t"}
        signed = kind in "di"
        value = arguments.take(("<q" if wide else "<i") if signed else ("<Q" if wide else "<I"), 8 if wide else 4)
        return (shape + ("d" if kind in "diu" else kind)) % value

    return SPECIFIER.sub(replace, text)
