"""Defines the notation for the legal forms of instructions, and matches opcodes with forms.

A form is one line, modelled on the syntax boxes of the PTX ISA:

```text
add{.[rn rz rm rp]}{.ftz}{.sat}.T[f32]  : =T T T          : sm_20 1.0
```

In the opcode, `{…}` is optional, `[a b]` is one of several words, and `T[a b]` names the chosen word T. A line that
begins with `add|sub` defines one form for `add` and one for `sub`. The operands follow the first colon. The required
target and PTX version follow the second colon. `sm_89 8.1 | sm_90 7.8` means either of two targets, each with its
version. `sm_90a` means only this target. `sm_100f` means any target that has a letter and at least this number. An
operand is

    T  u32     a register or constant of this type (T is a letter that names a word of the opcode)
    =T         a destination;  =_T may be `_`;  =T|pred has a second destination, =T|pred? may have it
    ~T         the register may be wider than the type (PTX ISA 9.4.1)
    T*4  T*V   a vector of that many registers, or one register if the opcode has no word for the letter V. If the
               word is the shape of an MMA, such as m64n16k16, the registers are a thread's accumulators
    &T         a source of `mov`: also a special register (as in %T) or a symbol (as in +T)
    <T         a vector of two or four parts that make up a T
    !          a predicate, perhaps negated
    @ @shared  an address in the opcode's space, or in the space after @
    @tensor*D  the address of a tensor map, and as many coordinates as the word D of the opcode states
    offsets*D  a vector of offsets in pixels, one for each spatial axis of a tensor of D dimensions
    #  #4,-8   an integer constant, or one of the listed constants
    -T*4       each register of the vector is a T, and none is `_`
    i32  i64   an integer or bits of this width
    label, table  names in the function;  barrier, threads, size, bulk, mask, byte, special and so on: see `operands.py`
    *T         a register only;  ^T  also a part of a register, =^T only a part
    ?…         an optional operand;  P?T is present if the opcode has P
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct, field

OPERAND = re.compile(
    r"(?P<optional>\?)?(?:(?P<when>[A-Z]+)\?)?(?P<target>=_?)?(?P<mark>[-+~%&<*^]*)"
    r"(?P<type>@[a-z]*|!|#[-\d,.]*|_|[A-Za-z]\w*)(?:\*(?P<count>\w+))?(?P<second>\|pred\??)?$"
)


class OperandSlot(Struct, frozen=True):
    """One operand of a form."""

    type: str
    is_target: bool = False
    discards: bool = False
    mark: str = ""
    count: str = ""
    second: str = ""
    optional: bool = False
    when: str = ""

    def __str__(self) -> str:
        return self.type


class OpcodePart(Struct, frozen=True):
    """A part of an opcode pattern. It is either one of `words`, or an optional sequence of the parts `inner`."""

    words: frozenset[str] = frozenset()
    inner: tuple[OpcodePart, ...] = ()

    @property
    def optional(self) -> bool:
        return bool(self.inner)


class FormNeed(NamedTuple):
    """A required target and the first PTX version that has the form or the modifier on this target. An empty target
    means any target."""

    target: str
    version: tuple[int, int]


class LegalForm(Struct, frozen=True, dict=True):
    """A form of one instruction. A line of the table that begins with `add|sub` gives two forms."""

    pattern: str
    slots: tuple[OperandSlot, ...]
    needs: tuple[FormNeed, ...] = ()

    @property
    def target(self) -> str:
        """The first target that has the form, or "" if all targets have it."""
        return self.needs[0].target if self.needs else ""

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(expression(self.pattern))

    @cached_property
    def parts(self) -> tuple[OpcodePart, ...]:
        return parts_of(self.pattern)

    @property
    def root(self) -> str:
        return re.split(r"[.{]", self.pattern)[0]


def parts_of(pattern: str) -> tuple[OpcodePart, ...]:
    """Splits an opcode pattern into its parts."""
    found = []
    for group, choices, word in re.findall(r"\{([^}]*)\}|[A-Z]?\[([^\]]*)\]|([\w:]+)", pattern):
        found.append(OpcodePart(inner=parts_of(group)) if group else OpcodePart(frozenset((choices or word).split())))
    return tuple(found)


def expression(pattern: str) -> str:
    """Converts an opcode pattern to a regular expression."""
    text = pattern.replace(".", r"\.").replace("{", "(?:").replace("}", ")?")

    def words(match: re.Match[str]) -> str:
        name, choices = match.groups()
        return f"(?{f'P<{name}>' if name else ':'}{'|'.join(choices.split())})"

    return re.sub(r"([A-Z]?)\[([^\]]*)\]", words, text)


def slot(text: str) -> OperandSlot:
    match = OPERAND.match(text)
    if match is None:
        raise ValueError(f"unknown operand {text!r} in the table of forms")
    target = match["target"] or ""
    return OperandSlot(
        match["type"],
        bool(target),
        target == "=_",
        match["mark"],
        match["count"] or "",
        (match["second"] or "")[1:],
        bool(match["optional"]),
        match["when"] or "",
    )


def need(text: str) -> FormNeed:
    """Reads a text like `sm_90 7.8`. The target or the version may be missing."""
    words = text.split()
    target = next((word for word in words if word.startswith("sm_")), "")
    major, minor = next((word for word in words if word[0].isdigit()), "1.0").split(".")
    return FormNeed(target, (int(major), int(minor)))


class FormTable(Struct):
    """The legal forms, by the first word of the opcode."""

    forms: dict[str, list[LegalForm]] = field(default_factory=dict)

    def add(self, text: str, macros: dict[str, str]) -> None:
        for line in text.strip().splitlines():
            line = line.strip()
            if not line or line.startswith("--"):
                continue
            while "$" in line:
                line = re.sub(r"\$([A-Z0-9]+)", lambda name: macros[name[1]], line)
            pattern, operands, needs = [*(part.strip() for part in re.split(r"\s:(?=\s|$)", line)), "", ""][:3]
            slots = tuple(slot(each) for each in operands.split())
            needed = tuple(need(each) for each in needs.split("|") if each)
            roots = re.split(r"[.{]", pattern)[0]
            for root in roots.split("|"):
                self.forms.setdefault(root, []).append(LegalForm(root + pattern.removeprefix(roots), slots, needed))


def vector_size(word: str, kind: str) -> int:
    """Returns the number of registers of a vector operand. `word` is a number such as `4`, `v4` or `x4`, or the shape
    of a wgmma such as m64n16k16, whose accumulators 128 threads share."""
    if word[0] == "m":
        rows, columns = (int(extent) for extent in word[1:].split("k")[0].split("n"))
        return rows * columns // 128 // (2 if kind == "f16x2" else 1)
    return int(word.lstrip("vx"))


def number_of(target: str) -> int:
    """Returns the number in the name of a target, for example 90 for sm_90a."""
    digits = "".join(filter(str.isdigit, target))
    return int(digits) if digits else 0


def runs_on(needed: str, target: str) -> bool:
    """Checks whether code for the target `needed` runs on `target`. Code for sm_90a runs only on sm_90a. Other code
    runs on targets with the same or a higher number. Code for an `f` target also needs a target with a letter."""
    if needed.endswith("a"):
        return needed == target
    has_letter = target[-1:].isalpha() or not needed.endswith("f")
    return has_letter and number_of(target) >= number_of(needed)
