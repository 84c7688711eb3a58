"""The table of the language's functions. Each function has one row, which contains its implementation in each domain
(kernels, schedules, launches, examples). An implementation is called a meaning.

The files of `dsl/values/functions/` add the rows. They also add a row for each operation of
`dsl/lowering/ops/elementwise/`. A row's `usage` states the number of arguments, their names and their literal words.
Calls are checked against `usage`, and hints and docs/functions.md show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.location import closest

Meaning = Callable[..., Any]
PLACES = {"tiles": "kernels", "numbers": "schedules", "trees": "launches", "arrays": "examples and dispatch"}
"""For each domain, the constructs of a file that it evaluates, in words for error messages."""


class Form(Struct, frozen=True):
    """The arguments of a function, as in `name(a, [b], [axis=], …, mode=one|two, [block|warp])`.

    An argument in brackets is optional. `…` allows more arguments like the one before it. `a=` is optional and passed
    by name. `[a=]` is passed by name or by position. Words after `=`, between bars or in quotes are literal."""

    name: str
    least: int
    most: int | None
    places: tuple[str, ...]
    keywords: tuple[str, ...]
    words: dict[str | int, tuple[str, ...]]

    def misfit(self, given: int, keywords: Iterable[str]) -> tuple[str, str | None] | None:
        """Returns (error, hint) for a wrong call with `given` positional arguments and the keyword arguments
        `keywords`. Returns None if the call is valid.

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
    """Parses a usage to a Form.

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


class Builtin(Struct, frozen=True, eq=False, dict=True):
    """A function of the language.

    The documentation shows `usage`, `means`, `types` and `error`. Calls are also checked against `usage`. `of_numbers`
    is the usage for calls with numbers only, if it differs.

    Each domain has its own implementation, called a meaning. `numbers` takes only Python numbers, and is the same in
    every domain. `trees` builds the header's expressions, which a launch evaluates. `arrays` takes numpy arrays and
    computes in float64 and 64-bit integers. `shapes` takes facts about arrays before a run. `tiles` takes bindings of
    kernels. `always` is used in every domain without a meaning of its own. A meaning takes the domain (a Walk), the
    location of the call and the call's arguments. `numbers` and `trees` take only the call's arguments.

    With `unread`, the meaning takes the call expression instead, and the arguments are not evaluated. `memory` lists
    the positions of arguments that name memory. If such an argument is a part of a tensor, it is not loaded. `shared`
    lists the positions of arguments that may name shared memory. If such an argument is a part of a tensor, it is
    loaded.
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
    group: str = ""

    @cached_property
    def form(self) -> Form:
        return form(self.usage)

    @cached_property
    def form_of_numbers(self) -> Form:
        return form(self.of_numbers) if self.of_numbers else self.form

    @cached_property
    def name(self) -> str:
        return self.usage.partition("(")[0]

    @property
    def is_method(self) -> bool:
        """Whether the function is a method, as in `x.to(T)`. The usage does not count the value before the dot as an
        argument."""
        return self.usage.startswith(".")

    @property
    def short(self) -> str:
        """The usage without the literal words of its keyword arguments."""
        return re.sub(r"=[\w|]+", "=", self.usage)

    def meaning(self, domain: str) -> Meaning | None:
        """Returns the function's implementation in `domain`, or None. The field `numbers` is not returned, since
        callers use it directly."""
        return (None if domain == "numbers" else getattr(self, domain)) or self.always

    def stands_in(self, domain: str) -> bool:
        return self.meaning(domain) is not None or (domain != "trees" and self.numbers is not None)


ROWS: dict[str, Builtin] = {}
FAMILIES: dict[str, Callable[[str], Builtin | None]] = {}
"""Families of functions that are named after instructions. The key is the prefix of their names. The value is called
with a full name and returns the function, or None."""


def rows(group: str) -> Callable[..., Builtin]:
    """Returns the function `row(usage, means, types, error, **meanings)`, which adds one function to `group`."""

    def row(usage: str, means: str = "", types: str = "", error: str = "", /, **meanings: Any) -> Builtin:
        made = Builtin(usage, means, types, error, **meanings, group=group)
        # A second row of the same name would silently replace the first.
        assert made.name not in ROWS, made.name
        ROWS[made.name] = made
        return made

    return row


def find(name: str) -> Builtin | None:
    """Returns the function with the full name `name`, or None."""
    found = ROWS.get(name)
    if found is None:
        for prefix, member in FAMILIES.items():
            if name.startswith(prefix):
                return member(name)
    return found


def named(domain: str) -> list[str]:
    """Returns the names of all functions that have an implementation in `domain`."""
    return [name for name, each in ROWS.items() if each.stands_in(domain)]
