"""The notation of the legal forms of instructions, and how an opcode is matched with them.

A form is one line, modelled on the syntax boxes of the PTX ISA:

```text
add{.[rn rz rm rp]}{.ftz}{.sat}.T[f32]  : =T T T          : sm_20 1.0
```

In the opcode `{…}` is optional, `[a b]` is one of several words, `T[a b]` gives the word a name. The operands stand
after the first colon. After the second stands what the form needs: the target, then the PTX version.
`sm_89 8.1 | sm_90 7.8` means either of two. `sm_90a` is this target alone, `sm_100f` any target with a letter from this
number on. An operand is

    T  u32     a register or constant of a type (a name from the opcode, or a type)
    =T         a destination;  =_T may be `_`;  =T|pred has a second one, =T|pred? may have it
    ~T         the register may be wider than the type (PTX ISA 9.4.1)
    T*4  T*V   a vector of so many registers (V a name from the opcode; without a word, one register; with the shape
               m64n16k16 of an MMA, a thread's accumulators)
    &T         what `mov` takes: also a special register (as in %T), a symbol (as in +T)
    <T         a vector of two or four parts that make up one T
    !          a predicate, perhaps negated
    @ @shared  an address, in the opcode's space or in this one
    @tensor*D  the address of a tensor's map, and as many coordinates as the word D of the opcode has dimensions
    offsets*D  a vector of elements between pixels along the spatial axes, of a tensor of D dimensions
    #  #4,-8   an integer constant, or one of these
    -T*4       each register by itself is a T, and none is `_`
    i32  i64   an integer or bits of this width
    label, table  names of the function;  barrier, threads, size, bulk, mask, byte, special and so on: see `operands.py`
    *T         a register only;  ^T  also a part of one, =^T only a part
    ?…         optional, with all that follow;  P?T is there if the opcode has P
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

OPERAND = re.compile(
    r"(?P<optional>\?)?(?:(?P<when>[A-Z]+)\?)?(?P<target>=_?)?(?P<mark>[-+~%&<*^]*)"
    r"(?P<type>@[a-z]*|!|#[-\d,.]*|_|[A-Za-z]\w*)(?:\*(?P<count>\w+))?(?P<second>\|pred\??)?$"
)


@dataclass(frozen=True)
class OperandSlot:
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


@dataclass(frozen=True)
class OpcodePart:
    """A part of an opcode: one of some words, or, if it is optional, parts that may be missing together."""

    words: frozenset[str] = frozenset()
    inner: tuple[OpcodePart, ...] = ()

    @property
    def optional(self) -> bool:
        return bool(self.inner)


class FormNeed(NamedTuple):
    """A target (empty: any), and the first version of PTX that has the form or the word there."""

    target: str
    version: tuple[int, int]


@dataclass(frozen=True)
class LegalForm:
    """One line of the table."""

    text: str
    pattern: str
    slots: tuple[OperandSlot, ...]
    needs: tuple[FormNeed, ...] = ()

    @property
    def target(self) -> str:
        """The first target that has the form; empty if all do."""
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
    """The parts of an opcode pattern, in order."""
    found = []
    for group, choices, word in re.findall(r"\{([^}]*)\}|[A-Z]?\[([^\]]*)\]|([\w:]+)", pattern):
        found.append(OpcodePart(inner=parts_of(group)) if group else OpcodePart(frozenset((choices or word).split())))
    return tuple(found)


def expression(pattern: str) -> str:
    """The regular expression of an opcode pattern."""
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
    """Reads `sm_90 7.8`, of which either may be missing."""
    words = text.split()
    target = next((word for word in words if word.startswith("sm_")), "")
    major, minor = next((word for word in words if word[0].isdigit()), "1.0").split(".")
    return FormNeed(target, (int(major), int(minor)))


@dataclass
class FormTable:
    """All forms, by the first word of the opcode."""

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
            form = LegalForm(line, pattern, slots, tuple(need(each) for each in needs.split("|") if each))
            self.forms.setdefault(form.root, []).append(form)


def vector_size(word: str, kind: str) -> int:
    """Registers of a vector. `word` is a number, v4, or the shape of an MMA of four warps, 128 threads."""
    if word[0] == "m":
        rows, columns = (int(extent) for extent in word[1:].split("k")[0].split("n"))
        return rows * columns // 128 // (2 if kind == "f16x2" else 1)
    return int(word.removeprefix("v"))


def number_of(target: str) -> int:
    """The number of a target: 90 of sm_90a."""
    digits = "".join(filter(str.isdigit, target))
    return int(digits) if digits else 0


def runs_on(needed: str, target: str) -> bool:
    """Whether code for a target runs on another. A target with a letter has what its number has. Code for an `a` runs
    on that target alone, code for an `f` also on later ones with a letter."""
    if needed.endswith("a"):
        return needed == target
    has_letter = target[-1:].isalpha() or not needed.endswith("f")
    return has_letter and number_of(target) >= number_of(needed)
