"""Assignments of options to choices: groups of one kind and subject, plain options, halving, and reducing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dsl.lowering.ir.choices import Choice, keys_of, kinds, unmet
from dsl.lowering.ir.location import TileError, closest

Assignment = Mapping[str, str]
"""Options by key; the compiler takes all others itself."""
NOTHING = ("off", "none", "whole", "plain", "single", "exact", "two", "kept", "given", "apart", "ascending", "0", "1")
"""Options that do nothing, over all kinds: the plain ones."""


@dataclass(frozen=True, slots=True)
class ChoiceGroup:
    """Choices that change together: those of one kind and subject, or a single one. `key` names them."""

    key: str
    members: tuple[tuple[str, Choice], ...]

    @property
    def kind(self) -> str:
        return self.key.partition(".")[0]

    @property
    def label(self) -> str:
        return self.key + (f" ×{len(self.members)}" if len(self.members) > 1 else "")

    @property
    def options(self) -> list[str]:
        """The options that some member did not take."""
        return list(dict.fromkeys(o for _, choice in self.members for o in choice.options if o != choice.taken))

    @property
    def taken(self) -> str:
        """The options that the members took, as text."""
        return " | ".join(dict.fromkeys(choice.taken for _, choice in self.members))

    def is_unsafe(self, option: str) -> bool:
        """Whether a member has this option marked unsafe."""
        return any(option in choice.unsafe for _, choice in self.members)

    def assignment(self, option: str) -> dict[str, str]:
        """The assignment that takes an option in all members that have it. A member that a narrower key pins gets a key
        of its own, since the narrower key would win."""
        pinned = [(n, c) for n, c in self.members if c.is_pinned and not c.is_property and option in c.options]
        return {self.key: option} | {f"{choice.stem}[{choice.number}]": option for _, choice in pinned}

    def plain(self) -> dict[str, str]:
        """The assignment of each member's plain option, where the compiler took another one."""
        differing = {name: plain for name, c in self.members if (plain := plain_option(c)) != c.taken}
        alike = {plain_option(choice) for _, choice in self.members}
        # One key for the group if all members agree: shorter to read and to repeat.
        return self.assignment(alike.pop()) if len(alike) == 1 and differing else differing


def plain_option(choice: Choice) -> str:
    """The option of somebody who knows nothing: a safe option that does nothing, by its name; else the one of the
    greatest cost; if costs are unknown, the last one."""
    safe = [option for option in choice.options if option not in choice.unsafe]
    for word in NOTHING:
        if word in safe:
            return word
    # Costs that are computed on demand: only without an option that does nothing.
    costs = choice.costs
    if all(option in costs for option in safe):
        # Reversed: among equal costs the last one, as below.
        return max(reversed(safe), key=lambda option: costs[option])
    return safe[-1]


def groups(
    made: Sequence[tuple[str, Choice]], wanted_kinds: Sequence[str] = (), keys: Sequence[str] = (), each: bool = False
) -> list[ChoiceGroup]:
    """The choices with several options, in the order in which they are made: grouped by kind and subject, or with
    `each` one by one. Only of these kinds and keys, if any are given."""
    found: dict[str, list[tuple[str, Choice]]] = {}
    for name, choice in made:
        asked = not wanted_kinds or choice.kind in wanted_kinds
        if asked and (not keys or {*keys} & {*keys_of(name, choice)}) and len(choice.options) > 1:
            # A key with a number names one choice of a group.
            single = each or bool({*keys} & {name} - {choice.stem})
            found.setdefault(name if single else choice.stem, []).append((name, choice))
    return [ChoiceGroup(key, tuple(members)) for key, members in found.items()]


def check_asked(made: Sequence[tuple[str, Choice]], wanted_kinds: Sequence[str], keys: Sequence[str]) -> None:
    """TileError for a kind or a key that no choice has."""
    known = kinds(name for name, _ in made)
    for kind in wanted_kinds:
        if kind not in known:
            raise TileError(
                "choice", None, f"no choice has the kind '{kind}'", closest(kind, known) or ", ".join(known)
            )
    for key in keys:
        if all(key not in keys_of(name, choice) for name, choice in made):
            raise unmet(key, "", dict(made))


# ---- halving and reducing ----


@dataclass(frozen=True, slots=True)
class Boundary:
    """The answer changes between `low` and `high`: neighbours, unless places between them could not be decided."""

    low: int
    high: int
    asked: int


def halve(count: int, holds: Callable[[int], bool | None], first: bool) -> Boundary:
    """A place where an answer changes among 0 … `count`: at 0 it is `first`, at `count` the other one. It is the only
    place if the answer changes once. `holds` returns None where it cannot decide; then the places beside are tried."""
    low, high, asked = 0, count, 0
    undecided: set[int] = set()
    while open_places := [at for at in range(low + 1, high) if at not in undecided]:
        # The nearest to the middle: an undecided place must not end the search.
        middle = min(open_places, key=lambda at: abs(2 * at - low - high))
        answer, asked = holds(middle), asked + 1
        if answer is None:
            undecided.add(middle)
        elif answer == first:
            low = middle
        else:
            high = middle
    return Boundary(low, high, asked)


def reduced(assignment: Assignment, still: Callable[[Assignment], bool]) -> dict[str, str]:
    """ddmin: a part of an assignment for which `still` holds, as for the whole, but for no part of it that lacks one
    more key (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002)."""
    keys, parts = list(assignment), 2
    while len(keys) > 1:
        size = -(-len(keys) // parts)
        pieces = [keys[at : at + size] for at in range(0, len(keys), size)]
        # Of two pieces each is the other's rest.
        rests = [[key for key in keys if key not in piece] for piece in pieces] if len(pieces) > 2 else []
        smaller = next((c for c in [*pieces, *rests] if still({key: assignment[key] for key in c})), None)
        if smaller is not None:
            # After a rest the pieces keep their size; after a piece the search starts again with halves.
            parts = 2 if smaller in pieces else max(len(pieces) - 1, 2)
            keys = smaller
        elif size == 1:
            break
        else:
            parts = min(2 * len(pieces), len(keys))
    return {key: assignment[key] for key in keys}
