"""Whether a call of a function fits: the number of its arguments and the names of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lowering.location import closest


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
