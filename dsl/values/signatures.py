"""Whether a call of a function fits: how many arguments, which names; and what `...` stands for in it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NoReturn

from dsl.text import tree as ast
from lowering.location import Loc, closest


def misfit(
    name: str, given: int, keywords: Iterable[str], least: int, most: int | None, known: Sequence[str]
) -> tuple[str, str | None] | None:
    """What is wrong with a call of `name`, and a hint; None if nothing is.

    given: positional arguments, of which there are `least` to `most` (None: any number); known: of `keywords`.

    >>> misfit("wait", 0, [], 1, 1, [])
    ('wait takes 1 argument; got 0', None)
    >>> misfit("load", 1, ["maks"], 1, 1, ["mask", "other"])
    ("load has no argument 'maks'", "did you mean 'mask'?")
    """
    if given < least or (most is not None and given > most):
        count = f"{least} or more" if most is None else f"{least}" if least == most else f"{least} to {most}"
        return f"{name} takes {count} argument{'s' * (count != '1')}; got {given}", None
    for key in keywords:
        if key not in known:
            hint = closest(key, known) or (f"known: {', '.join(known)}" if known else None)
            return f"{name} has no argument '{key}'", hint
    return None


def rest_of(
    loc: Loc,
    definition: ast.Def,
    keywords: Container[str],
    find: Callable[[str], Any],
    known: Callable[[], Iterable[str]],
    fail: Callable[..., NoReturn],
) -> dict[str, Any]:
    """What `...` at `loc` stands for in a call of `definition`: what the caller has (`find`, None where it has nothing)
    under the names of the constants that no keyword gives. One that has no default and is not `known` is an error."""
    wanted = [c for c in definition.constants if c.name not in keywords]
    found = {c.name: value for c in wanted if (value := find(c.name)) is not None}
    for c in wanted:
        if c.name not in found and c.default is None:
            hint = closest(c.name, known()) or f"give it: {c.name}=…"
            fail("call", loc, f"{definition.name} needs '{c.name}', which is no name here", hint)
    return found
