"""The table of the language's functions: a row for each, with its meaning in each domain.

`row(…)` of a group (`rows`) adds a row, in a file of `dsl/values/functions/`; the operations of
`dsl/lowering/ops/elementwise/` become rows there. `usage` alone states the number of arguments, their names and words:
calls are checked by it, and hints and docs/functions.md show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dsl.lowering.ir.location import closest

Meaning = Callable[..., Any]
PLACES = {"tiles": "kernels", "numbers": "schedules", "trees": "launches", "arrays": "examples and dispatch"}
"""The places of a file where the values of a domain stand, for messages."""


@dataclass(frozen=True, slots=True)
class Form:
    """The arguments of a function, as in `name(a, [b], [axis=], …, mode=one|two, [block|warp])`. Arguments in brackets
    are optional; `…` stands for more of the kind before it; `a=` is given by name, `[a=]` by name or by place; words
    behind `=`, between bars or in quotes are literal."""

    name: str
    least: int
    most: int | None
    places: tuple[str, ...]
    keywords: tuple[str, ...]
    words: dict[str | int, tuple[str, ...]]

    def misfit(self, given: int, keywords: Iterable[str]) -> tuple[str, str | None] | None:
        """The error and a hint for a call with `given` arguments by place and `keywords` by name; None if it is right.

        >>> form("wait(groups)").misfit(0, [])
        ('wait takes 1 argument; got 0', None)
        >>> form("load(part, mask=, other=)").misfit(1, ["maks"])
        ("load has no argument 'maks'", "did you mean 'mask'?")
        """
        if given < self.least or (self.most is not None and given > self.most):
            least, most = self.least, self.most
            count = f"{least} or more" if most is None else f"{least}" if least == most else f"{least} to {most}"
            return f"{self.name} takes {count} argument{'s' * (count != '1')}; got {given}", None
        for key in keywords:
            if key not in self.keywords:
                hint = closest(key, self.keywords) or (f"known: {', '.join(self.keywords)}" if self.keywords else None)
                return f"{self.name} has no argument '{key}'", hint
            if key in self.places[:given]:
                return f"'{key}' is given twice", None
        return None


def form(usage: str) -> Form:
    """The form that a usage states.

    >>> form("barrier([block|warp])").words
    {0: ('block', 'warp')}
    """
    name, _, inside = usage.removesuffix(")").partition("(")
    least, is_open = 0, False
    places: list[str] = []
    keywords: list[str] = []
    words: dict[str | int, tuple[str, ...]] = {}
    for part in filter(None, inside.split(", ")):
        if part == "…":
            is_open = True
            continue
        label, equals, said = part.strip("[]").partition("=")
        if equals:
            keywords.append(label)
            if said:
                words[label] = tuple(said.split("|"))
        if part.startswith("[") or not equals:
            if "|" in label or label.startswith("'"):
                words[len(places)] = tuple(label.strip("'").split("|"))
            places.append(label)
            least += not part.startswith("[")
    return Form(name, least, None if is_open else len(places), tuple(places), tuple(keywords), words)


@dataclass(frozen=True, eq=False)
class Builtin:
    """A function of the language.

    usage, means, types, error: for documents; the usage also for the checks of calls. Meanings, by domain: `numbers`
    for Python numbers alone, the same everywhere; `trees` for the header's expressions, which a launch evaluates;
    `arrays` for numpy arrays, in float64 and 64-bit integers; `shapes` for facts about arrays before a run; `tiles` for
    bindings of kernels; `always` for every domain. A meaning takes the domain (a Walk), the place of the call and the
    arguments; `numbers` and `trees` take the arguments alone. of_numbers: the usage with numbers alone, if it differs.
    unread: the meaning takes the call itself, and its arguments are not evaluated. memory: the arguments that name
    memory; a part of a tensor is not read there. shared: the arguments that may name shared memory; a part of a tensor
    is read there.
    """

    usage: str
    means: str = ""
    types: str = ""
    error: str = ""
    numbers: Meaning | None = None
    trees: Meaning | None = None
    arrays: Meaning | None = None
    shapes: Meaning | None = None
    tiles: Meaning | None = None
    always: Meaning | None = None
    unread: bool = False
    memory: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    of_numbers: str = ""
    group: str = field(default="", kw_only=True)

    @cached_property
    def form(self) -> Form:
        return form(self.usage)

    @cached_property
    def form_of_numbers(self) -> Form:
        return form(self.of_numbers) if self.of_numbers else self.form

    @property
    def name(self) -> str:
        return self.usage.partition("(")[0]

    @property
    def is_method(self) -> bool:
        """Whether it is a method, as `x.to(T)`: the value before the dot is not an argument of the usage."""
        return self.usage.startswith(".")

    @property
    def short(self) -> str:
        """The usage without the words of its keyword arguments."""
        return re.sub(r"=[\w|]+", "=", self.usage)

    def meaning(self, domain: str) -> Meaning | None:
        """The meaning for values of a domain, or None. Numbers alone have `numbers`."""
        return (None if domain == "numbers" else getattr(self, domain)) or self.always

    def stands_in(self, domain: str) -> bool:
        return self.meaning(domain) is not None or (domain != "trees" and self.numbers is not None)


ROWS: dict[str, Builtin] = {}
FAMILIES: dict[str, Callable[[str], Builtin | None]] = {}
"""Functions named after instructions: the prefix of the names → what gives the function of a whole name, or None."""


def rows(group: str) -> Callable[..., Builtin]:
    """Returns the `row(usage, means, types, error, **meanings)` that adds functions to a group."""

    def row(usage: str, means: str = "", types: str = "", error: str = "", /, **meanings: Any) -> Builtin:
        made = Builtin(usage, means, types, error, **meanings, group=group)
        # A second row would replace the first in silence.
        assert made.name not in ROWS, made.name
        ROWS[made.name] = made
        return made

    return row


def find(name: str) -> Builtin | None:
    """The function of this whole name."""
    found = ROWS.get(name)
    if found is None:
        for prefix, member in FAMILIES.items():
            if name.startswith(prefix):
                return member(name)
    return found


def named(domain: str) -> list[str]:
    """The names of the functions of a domain."""
    return [name for name, each in ROWS.items() if each.stands_in(domain)]
