"""Reads the parameter list of each `.entry` of a PTX text (PTX ISA, "Kernel Function Parameters")."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runtime.errors import LaunchError

NOT_CODE = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\(([^)]*)\))?")
PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>[a-z]+\d+)\s+"
    r"(?:\.ptr(?:\s*\.(?:const|global|local|shared))?(?:\s*\.align\s+\d+)?\s+)?"
    r"(?P<name>[A-Za-z_$%][\w$]*)\s*(?:\[\s*(?P<count>\d+)\s*\])?"
)


@dataclass(frozen=True, slots=True)
class SignatureParameter:
    """One `.param`: its fundamental `type` (`u64`, `b8`, …), its size in `bytes`, arrays included, and the bytes that
    it is aligned to."""

    name: str
    type: str
    bytes: int
    is_array: bool
    align: int


def entries(ptx: str) -> dict[str, tuple[SignatureParameter, ...]]:
    """The parameters of each entry, in order. Raises LaunchError `ptx` for a parameter that is no legal PTX."""
    code = NOT_CODE.sub(" ", ptx)
    return {
        match[1]: tuple(_parameter(text, match[1]) for text in (match[2] or "").split(",") if text.strip())
        for match in ENTRY.finditer(code)
    }


def _parameter(text: str, entry: str) -> SignatureParameter:
    match = PARAMETER.fullmatch(text.strip())
    if match is None:
        raise LaunchError("ptx", f"entry {entry}: {' '.join(text.split())!r} is no parameter")
    width = int(match["type"].lstrip("abcdefghijklmnopqrstuvwxyz")) // 8
    count = match["count"]
    return SignatureParameter(
        match["name"], match["type"], width * int(count or 1), count is not None, int(match["align"] or width)
    )
