"""Makes assignments: dicts from keys of choices to options, such as `{"swizzle.s": "none"}`. An assignment can be
reduced to a minimal part that still has some effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from dsl.lowering.ir.choices import Choice, keys_of, kinds, unmet
from dsl.lowering.ir.location import TileError, closest

Assignment = Mapping[str, str]
"""Maps keys of choices to options. The compiler decides all choices that have no key in an assignment."""
NOTHING = ("off", "none", "whole", "plain", "single", "exact", "two", "kept", "given", "apart", "ascending", "0", "1")
"""The plain options of all kinds of choices. A plain option leaves the code unchanged."""


class ChoiceGroup(Struct, frozen=True):
    """Choices that change together: all choices of one kind and subject, or a single choice. `key` is the group's name,
    such as `swizzle.s`."""

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
        """The options that at least one member did not take."""
        return list(dict.fromkeys(o for _, choice in self.members for o in choice.options if o != choice.taken))

    @property
    def taken(self) -> str:
        """The options that the members have taken, as text."""
        return " | ".join(dict.fromkeys(choice.taken for _, choice in self.members))

    def is_unsafe(self, option: str) -> bool:
        """Whether this option may give wrong results for at least one member."""
        return any(option in choice.unsafe for _, choice in self.members)

    def assignment(self, option: str) -> dict[str, str]:
        """The assignment that gives `option` to all members that have this option.

        A member that the schedule or the command line already sets by a more specific key gets a key of its own.
        Otherwise the more specific key would take precedence.
        """
        pinned = [(n, c) for n, c in self.members if c.is_pinned and not c.is_property and option in c.options]
        return {self.key: option} | {f"{choice.stem}[{choice.number}]": option for _, choice in pinned}

    def plain(self) -> dict[str, str]:
        """The assignment that gives each member its plain option. It is empty if all members have them."""
        differing = {name: plain for name, c in self.members if (plain := plain_option(c)) != c.taken}
        alike = {plain_option(choice) for _, choice in self.members}
        # If all members have the same plain option, one key for the group is shorter to read and to repeat.
        return self.assignment(alike.pop()) if len(alike) == 1 and differing else differing


def plain_option(choice: Choice) -> str:
    """The option that a compiler without any analysis would take.

    This is the first option in `NOTHING` that is safe. If there is none, it is the safe option with the greatest cost,
    or the last safe option if costs are unknown.
    """
    safe = [option for option in choice.options if option not in choice.unsafe]
    for word in NOTHING:
        if word in safe:
            return word
    # Costs are computed on demand, so they are read only if no option is in `NOTHING`.
    costs = choice.costs
    if all(option in costs for option in safe):
        # Reversed, so that the last of several options with equal cost is taken.
        return max(reversed(safe), key=lambda option: costs[option])
    return safe[-1]


def groups(
    made: Sequence[tuple[str, Choice]], wanted_kinds: Sequence[str] = (), keys: Sequence[str] = (), each: bool = False
) -> list[ChoiceGroup]:
    """Groups the choices that have several options by kind and subject, such as `swizzle.s`. The groups are in the
    order in which the compiler makes the choices.

    With `each`, every choice is a group of its own. `wanted_kinds` and `keys` select choices; empty lists select all.
    """
    found: dict[str, list[tuple[str, Choice]]] = {}
    for name, choice in made:
        asked = not wanted_kinds or choice.kind in wanted_kinds
        if asked and (not keys or {*keys} & {*keys_of(name, choice)}) and len(choice.options) > 1:
            # A key with a number names a single choice of its group.
            single = each or bool({*keys} & {name} - {choice.stem})
            found.setdefault(name if single else choice.stem, []).append((name, choice))
    return [ChoiceGroup(key, tuple(members)) for key, members in found.items()]


def check_asked(made: Sequence[tuple[str, Choice]], wanted_kinds: Sequence[str], keys: Sequence[str]) -> None:
    """Raises a TileError for a kind or a key that no choice has."""
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


def halve(count: int, holds: Callable[[int], bool | None], first: bool) -> tuple[int, int]:
    """Finds two places between 0 and `count` between which an answer changes, by binary search. The two places are
    adjacent unless `holds` returned None for all places between them.

    `holds` returns the answer at a place, or None if it cannot tell. The search then tries other places nearby. The
    answer at 0 is `first`, and the answer at `count` is the opposite. If the answer changes several times, one of the
    changes is found.
    """
    low, high = 0, count
    undecided: set[int] = set()
    while open_places := [at for at in range(low + 1, high) if at not in undecided]:
        # Takes the open place nearest to the middle. An undecided place must not end the search.
        middle = min(open_places, key=lambda at: abs(2 * at - low - high))
        answer = holds(middle)
        if answer is None:
            undecided.add(middle)
        elif answer == first:
            low = middle
        else:
            high = middle
    return low, high


def reduced(assignment: Assignment, still: Callable[[Assignment], bool]) -> dict[str, str]:
    """Returns a minimal part of an assignment for which `still` is true. `still` must be true for the whole assignment.

    Minimal means: if any one key is removed, `still` is false. The algorithm is ddmin (Zeller and Hildebrandt,
    Simplifying and Isolating Failure-Inducing Input, 2002).
    """
    keys, parts = list(assignment), 2
    while len(keys) > 1:
        size = -(-len(keys) // parts)
        pieces = [keys[at : at + size] for at in range(0, len(keys), size)]
        # With two pieces, each piece is the complement of the other.
        rests = [[key for key in keys if key not in piece] for piece in pieces] if len(pieces) > 2 else []
        smaller = next((c for c in [*pieces, *rests] if still({key: assignment[key] for key in c})), None)
        if smaller is not None:
            # If a complement was taken, the pieces keep their size. If a piece was taken, the search starts again with
            # halves.
            parts = 2 if smaller in pieces else max(len(pieces) - 1, 2)
            keys = smaller
        elif size == 1:
            break
        else:
            parts = min(2 * len(pieces), len(keys))
    return {key: assignment[key] for key in keys}
