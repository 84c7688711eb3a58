"""Matches the choices of two kernels by key. Lists the choices whose options differ, and the choices that only one
kernel has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.choices import RULE, Choice

KEY = re.compile(r"(.*?)(?:\[(\d+)\])?$")
Numbered = tuple[str, int]
"""The name of a choice: its stem and its number. A stem without a number means number 0: `vector.x.load` is
`vector.x.load[0]`."""


class Taken(Struct, frozen=True):
    """The option taken for a choice, and what decided it: the compiler's rule, a line of the schedule, or the command
    line."""

    option: str
    by: str = RULE


class ChoiceDifference(Struct, frozen=True):
    """Choices of one kind and subject that differ in the same way.

    `first` or `second` is None if that side does not have the choices.
    """

    keys: tuple[str, ...]
    first: Taken | None
    second: Taken | None

    @property
    def label(self) -> str:
        """A name such as `swizzle.s ×3`, in the form that `dsl ablate` uses for groups."""
        return self.keys[0] if len(self.keys) == 1 else f"{self.keys[0].partition('[')[0]} ×{len(self.keys)}"


def option_of(taken: Taken | None, without: Any = "not made") -> Any:
    """The option, or `without` if the choice was not made."""
    return without if taken is None else taken.option


def taken_by(choices: Iterable[Choice]) -> dict[Numbered, Taken]:
    """Maps each choice, as (stem, number), to the option taken."""
    return {(each.stem, each.number): Taken(each.taken, each.by) for each in choices}


def taken_in(rows: Iterable[Mapping[str, Any]]) -> dict[Numbered, Taken]:
    """Maps each choice to the option taken, from a kernel's rows of `dsl why --all --json`."""
    found: dict[Numbered, Taken] = {}
    for row in rows:
        for key in row["keys"]:
            stem, number = KEY.fullmatch(key).groups()  # type: ignore[union-attr]
            found[stem, int(number or 0)] = Taken(row["taken"], row.get("by", RULE))
    return found


def differing(first: Mapping[Numbered, Taken], second: Mapping[Numbered, Taken]) -> list[ChoiceDifference]:
    """The choices whose options differ, in the compiler's order. Choices of a stem that differ alike share an entry."""
    counts: dict[str, int] = {}
    # A number is shown only if a side has several choices with this stem.
    for stem, number in [*first, *second]:
        counts[stem] = max(counts.get(stem, 0), number + 1)
    alike: dict[tuple[str, Taken | None, Taken | None], list[str]] = {}
    for stem, number in dict.fromkeys([*first, *second]):
        pair = first.get((stem, number)), second.get((stem, number))
        # If the options are equal, it does not matter what decided them.
        if option_of(pair[0]) != option_of(pair[1]):
            key = f"{stem}[{number}]" if counts[stem] > 1 else stem
            alike.setdefault((stem, *pair), []).append(key)
    return [ChoiceDifference(tuple(keys), first, second) for (_, first, second), keys in alike.items()]
