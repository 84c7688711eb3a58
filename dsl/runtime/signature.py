"""Parses the declaration of each `.entry` in a PTX text: its parameters and launch requirements (PTX ISA, "Kernel
Function Parameters" and "Performance-Tuning Directives")."""

from __future__ import annotations

import re

from msgspec import Struct

from dsl.runtime.errors import LaunchError

NOT_CODE = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|/\*.*', re.DOTALL)
NUMBER = r"0[xX][0-9a-fA-F]+U?|\d+U?"
ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\(([^)]*)\))?([^{};]*)")
TARGET = re.compile(r"\.target\s+(\w+)")
BODY_END = re.compile(r"\.(?:entry|func)\b")
EXTENTS = rf"\s+({NUMBER})(?:\s*,\s*({NUMBER}))?(?:\s*,\s*({NUMBER}))?"
SPACES = r"\.(?:const|global|local|shared)"
ALIGN = rf"\.align\s+(?:{NUMBER})"
PARAMETER = re.compile(
    rf"\.param\s*(?:\.align\s+(?P<align>{NUMBER})\s*)?\.(?P<type>[a-z]+\d+)\b\s*(?:\.align\s+(?P<behind>{NUMBER})\s*)?"
    rf"(?P<pointer>\.ptr\b(?:\s*(?:{SPACES}|{ALIGN}))*)?\s*"
    rf"(?P<name>[A-Za-z_$%][\w$]*)\s*(?:\[\s*(?P<count>{NUMBER})\s*\])?"
)
"""Pattern of a parameter. The blanks between the words of a parameter are optional, as in `.param.u64.ptr.global.align
16 x`."""


class SignatureParameter(Struct, frozen=True):
    """One `.param`. `type` is the fundamental type of the parameter (`u64`, `b8`, …).

    `bytes` is the size of the parameter. For an array, it is the size of all elements together. `align` is the
    alignment in bytes. `is_pointer` is True if the text declares the parameter as a pointer (`.ptr`), which not all
    compilers do. `start` and `end` are the parameter's position in the text."""

    name: str
    type: str
    bytes: int
    is_array: bool
    align: int
    is_pointer: bool = False
    start: int = 0
    end: int = 0


class EntrySignature(Struct, frozen=True):
    """The declaration of one `.entry`.

    `block` (`.reqntid`) and `cluster` (`.reqnctapercluster`) are extents along x, y and z: threads of a block, and
    blocks of a cluster. `most_registers` is the register limit of a thread (`.maxnreg`). These three are None if the
    text does not state them. `is_explicit_cluster` is True if the text contains `.explicitcluster`. `start` and `end`
    are the position of the entry's name in the text."""

    name: str
    parameters: tuple[SignatureParameter, ...]
    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    most_registers: int | None
    is_explicit_cluster: bool
    start: int
    end: int


def entries(ptx: str) -> dict[str, tuple[SignatureParameter, ...]]:
    """Returns the parameters of each entry in order, by the entry's name. Raises LaunchError `ptx` for a malformed
    parameter."""
    return {name: signature.parameters for name, signature in signatures(ptx).items()}


def signatures(ptx: str) -> dict[str, EntrySignature]:
    """Returns the declaration of each entry, by the entry's name. Raises LaunchError `ptx` for a malformed
    parameter."""
    # The body of the last entry is not searched, because it is most of the text.
    code = _code(ptx[: ptx.find("{", ptx.rfind(".entry")) + 1])
    if not code.endswith("{"):  # there is no body, or the text ends inside a comment
        code = _code(ptx)
    return {match[1]: _signature(match) for match in ENTRY.finditer(code)}


def _code(ptx: str) -> str:
    """Replaces comments and strings by blanks of equal length, so that all positions stay."""
    return NOT_CODE.sub(lambda found: " " * len(found[0]), ptx)


def target_of(ptx: str) -> str | None:
    """Returns the target of a PTX text, such as `sm_90a`, or None if the text has no `.target`."""
    found = TARGET.search(NOT_CODE.sub(" ", ptx))
    return found and found[1]


def addresses_in(ptx: str, signature: EntrySignature) -> set[str]:
    """Returns the names of those parameters that the text declares as pointers, or converts to addresses of global
    memory."""
    body = _body(ptx, signature)
    # A pointer parameter is a generic address, which `cvta.to.global` converts to an address of global memory.
    made = set(re.findall(r"\bcvta\.to\.global\.u64\s+%\w+\s*,\s*(%\w+)", body))
    loads = re.findall(r"\bld\.param\.[ub]64\s+(%\w+)\s*,\s*\[\s*([\w$%]+)\s*\]", body)
    declared = {parameter.name for parameter in signature.parameters if parameter.is_pointer}
    return declared | {name for register, name in loads if register in made}


def waits_with_a_barrier(ptx: str, signature: EntrySignature) -> int:
    """Counts the `barrier.cluster.wait` instructions of an entry to which ptxas adds a barrier for the block.

    ptxas also adds branches around the wait and around this barrier. If the text contains `.explicitcluster`, ptxas
    adds nothing. Otherwise, ptxas 12.8 to 13.5 changes every `barrier.cluster.wait` in this way."""
    return 0 if signature.is_explicit_cluster else len(re.findall(r"\bbarrier\.cluster\.wait\b", _body(ptx, signature)))


def _body(ptx: str, signature: EntrySignature) -> str:
    """Returns the PTX text from the end of an entry's name to the next entry or function. Blanks replace comments and
    strings."""
    code = _code(ptx)
    end = BODY_END.search(code, signature.end)
    return code[signature.end : end.start() if end else len(code)]


def _signature(match: re.Match[str]) -> EntrySignature:
    parameters, at = [], match.start(2)
    for text in (match[2] or "").split(","):
        if text.strip():
            parameters.append(_parameter(text, match[1], at))
        at += len(text) + 1
    most = re.search(rf"\.maxnreg\s+({NUMBER})", match[3])
    return EntrySignature(
        match[1],
        tuple(parameters),
        _extents("reqntid", match[3]),
        _extents("reqnctapercluster", match[3]),
        _number(most[1]) if most else None,
        re.search(r"\.explicitcluster\b", match[3]) is not None,
        *match.span(1),
    )


def _extents(directive: str, text: str) -> tuple[int, int, int] | None:
    """Returns the extents of a directive along x, y and z, or None if the text lacks the directive. Extents that the
    directive leaves out are 1."""
    found = re.search(rf"\.{directive}{EXTENTS}", text)
    return found and (_number(found[1]), _number(found[2] or "1"), _number(found[3] or "1"))


def _number(text: str) -> int:
    """Returns the value of a PTX integer: decimal, hexadecimal, or octal with a leading 0."""
    digits = text.rstrip("U")
    return int(digits, 8 if re.fullmatch("0[0-7]+", digits) else 16 if digits[1:2] in {"x", "X"} else 10)


def _parameter(text: str, entry: str, at: int) -> SignatureParameter:
    match = PARAMETER.fullmatch(text.strip())
    if match is None:
        raise LaunchError("ptx", f"entry {entry}: {' '.join(text.split())!r} is not a parameter")
    width = int(match["type"].lstrip("abcdefghijklmnopqrstuvwxyz")) // 8
    count, start = match["count"], at + len(text) - len(text.lstrip())
    return SignatureParameter(
        match["name"],
        match["type"],
        width * _number(count or "1"),
        count is not None,
        _number(match["align"] or match["behind"] or str(width)),
        match["pointer"] is not None,
        start,
        start + len(text.strip()),
    )
