"""A short way is a function that repeats the launch of an earlier call without planning. It applies if only the
addresses of arrays have changed since that call. Without it, Python takes 80 to 130 µs to order the arguments, find the
class of the call and pass the arguments on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from dsl.calls.plan import BoundPlan, FromCall, Workspace
from dsl.runtime.repeated import Again, never

ShortWay = Callable[[Sequence[Any], Mapping[str, Any]], bool]
"""A function of arguments and named arguments. If they repeat the earlier call, it launches the kernel and returns
True. Otherwise it does nothing and returns False."""
FIXED = (type(None), bool, int, float, str)
"""Types of arguments, besides arrays, whose values cannot change later. A list could change."""
MOST_WAYS = 24
"""The greatest number of short ways that a function keeps. Two blocks of a transformer call `matmul` with ten classes
of shapes in turn. If the oldest way is always the one that is needed next, none is ever found."""


def short_way(
    params: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any], plan: BoundPlan
) -> ShortWay | None:
    """Returns the short way for the call that `plan` has just served, or None. There is a short way only if the call
    passed all of `params` in order, and the launches use all of its arrays. Workspaces that must hold zeros have
    none."""
    from dsl.runtime import is_array

    arrays = {name: i for i, (name, x) in enumerate(zip(params, arguments, strict=False)) if is_array(x)}
    others = [(i, x) for i, x in enumerate(arguments) if i not in arrays.values()]
    # Compares with `type`, because numpy's float64 is a subclass of float. Subclasses may define equality differently.
    is_plain = all(type(x) in FIXED for x in (*(x for _, x in others), *named.values()))
    if len(arguments) != len(params) or not is_plain or not arrays:
        return None
    made, taken = [], set[str]()
    for step, kernel in zip(plan.plan.steps, plan.launched or (), strict=True):
        if any(isinstance(source, Workspace) and (source.zero or source.zeroed) for source in step.arguments):
            return None
        values = plan.arguments(step, dict(zip(params, arguments, strict=True)))
        passed = [(source, value) for source, value in zip(step.arguments, values, strict=True) if is_array(value)]
        taken |= {source.name for source, _ in passed if isinstance(source, FromCall)}
        places = [arrays.get(source.name) if isinstance(source, FromCall) else None for source, _ in passed]
        pick = picked(places, [value for _, value in passed], len(params))
        made.append((kernel.repeated(values), kernel.knowing(values), pick))
    if taken != {*arrays} or any(again is never for again, _, _ in made):
        return None
    launch = one_launch(*made[0]) if len(made) == 1 else several_launches(made)
    known, count = dict(named), len(params)

    def call_again(arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
        if len(arguments) != count or len(named) != len(known):
            return False
        for name, value in known.items():
            if name not in named or not same(named[name], value):
                return False
        for i, value in others:
            if not same(arguments[i], value):
                return False
        return launch(arguments)

    return call_again


Pick = Callable[[Sequence[Any]], Sequence[Any]]
"""A function that returns the arrays of a launch, given the arguments of the call."""


def picked(places: Sequence[int | None], values: Sequence[Any], count: int) -> Pick:
    """Returns the function for a launch whose arrays are `values`. An array is at one of the `places` among the
    `count` arguments of the call, or it is a workspace, which has no place."""
    # The function is chosen once. Usually it returns the arguments as they are, without a new tuple.
    if list(places) == [*range(count)]:
        return lambda x: x
    at = [place for place in places if place is not None]
    if len(at) == len(places):
        return itemgetter(*at) if len(at) > 1 else lambda x: (x[at[0]],)
    fixed = list(zip(places, values, strict=True))
    return lambda x: [value if place is None else x[place] for place, value in fixed]


def one_launch(again: Again, knows: Again, pick: Pick) -> Again:
    return lambda arguments: again(pick(arguments))


def several_launches(made: Sequence[tuple[Again, Again, Pick]]) -> Again:
    """Returns a function that launches all or nothing. All launches are asked first: if a later one refused its arrays,
    the earlier ones would have run already."""

    def launch(arguments: Sequence[Any]) -> bool:
        arrays = [pick(arguments) for _, _, pick in made]
        for (_, knows, _), each in zip(made, arrays, strict=True):
            if not knows(each):
                return False
        for (again, _, _), each in zip(made, arrays, strict=True):
            again(each)
        return True

    return launch


def same(x: Any, known: Any) -> bool:
    """Returns whether an argument that is not an array certainly equals the known argument. Zeros count as different,
    because 0.0 == -0.0. A call with -0.0 was once launched with 0.0 by mistake."""
    return x is known or (type(x) is type(known) and x == known and x != 0)
