"""The choices of two kernels joined by key: the option of each, who took it, and choices of one side only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dsl.lowering.ir.choices import RULE, Choice

KEY = re.compile(r"(.*?)(?:\[(\d+)\])?$")
Numbered = tuple[str, int]
"""A choice by stem and number: `vector.x.load` equals `vector.x.load[0]` of a kernel that has several."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The option that a choice took, and who took it: the compiler's rule, a line of the schedule, or the command."""

    option: str
    by: str = RULE


@dataclass(frozen=True, slots=True)
class ChoiceDifference:
    """Choices of one kind and subject with the same difference. first, second: None if the side does not make them."""

    keys: tuple[str, ...]
    first: Taken | None
    second: Taken | None

    @property
    def label(self) -> str:
        """The name as of a group of `dsl ablate`."""
        return self.keys[0] if len(self.keys) == 1 else f"{self.keys[0].partition('[')[0]} ×{len(self.keys)}"


def option_of(taken: Taken | None, without: Any = "not made") -> Any:
    """The option; `without` for a choice that is not made."""
    return without if taken is None else taken.option


def taken_by(choices: Iterable[Choice]) -> dict[Numbered, Taken]:
    """The options that choices took."""
    return {(each.stem, each.number): Taken(each.taken, each.by) for each in choices}


def taken_in(rows: Iterable[Mapping[str, Any]]) -> dict[Numbered, Taken]:
    """The same from a kernel's rows in the data of `dsl why --all --json`."""
    found: dict[Numbered, Taken] = {}
    for row in rows:
        for key in row["keys"]:
            stem, number = KEY.fullmatch(key).groups()  # type: ignore[union-attr]
            found[stem, int(number or 0)] = Taken(row["taken"], row.get("by", RULE))
    return found


def differing(first: Mapping[Numbered, Taken], second: Mapping[Numbered, Taken]) -> list[ChoiceDifference]:
    """The choices whose options differ, in the order in which they are made; equal differences share an entry."""
    counts: dict[str, int] = {}
    # A number is shown only if one side has several choices of the stem.
    for stem, number in [*first, *second]:
        counts[stem] = max(counts.get(stem, 0), number + 1)
    alike: dict[tuple[str, Taken | None, Taken | None], list[str]] = {}
    for stem, number in dict.fromkeys([*first, *second]):
        pair = first.get((stem, number)), second.get((stem, number))
        # Who took an equal option does not matter.
        if option_of(pair[0]) != option_of(pair[1]):
            key = f"{stem}[{number}]" if counts[stem] > 1 else stem
            alike.setdefault((stem, *pair), []).append(key)
    return [ChoiceDifference(tuple(keys), first, second) for (_, first, second), keys in alike.items()]
