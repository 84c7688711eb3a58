"""A short way is a function that repeats the launch of an earlier call without planning. It applies if only the
addresses of arrays have changed since that call. Without it, Python takes 80 to 130 µs to order the arguments, find the
class of the call and pass the arguments on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from dsl.calls.plan import BoundPlan, FromCall

ShortWay = Callable[[Sequence[Any], Mapping[str, Any]], bool]
"""A function of arguments and named arguments. If they repeat the earlier call, it launches the kernel and returns
True. Otherwise it does nothing and returns False."""
FIXED = (type(None), bool, int, float, str)
"""Types of arguments, besides arrays, whose values cannot change later. A list could change."""
MOST_WAYS = 24
"""The greatest number of short ways that a function keeps. Two blocks of a transformer call `matmul` with ten classes of
shapes in turn. If the oldest way is always the one that is needed next, none is ever found."""


def short_way(
    params: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any], plan: BoundPlan
) -> ShortWay | None:
    """Returns the short way for the call that `plan` has just served, or None. There is a short way only if the call
    passed all of `params` in order, and the plan has a single launch that uses all arrays of the call."""
    from dsl.runtime import is_array
    from dsl.runtime.repeated import never

    arrays = {name: i for i, (name, x) in enumerate(zip(params, arguments, strict=False)) if is_array(x)}
    others = [(i, x) for i, x in enumerate(arguments) if i not in arrays.values()]
    # Compares with `type`, because numpy's float64 is a subclass of float. Subclasses may define equality differently.
    is_plain = all(type(x) in FIXED for x in (*(x for _, x in others), *named.values()))
    if len(plan.kernels) != 1 or len(arguments) != len(params) or not is_plain:
        return None
    (step,), (kernel,) = plan.plan.steps, plan.kernels
    values = plan.arguments(step, dict(zip(params, arguments, strict=True)))
    passed = [source for source, value in zip(step.arguments, values, strict=True) if is_array(value)]
    taken = [source.name if isinstance(source, FromCall) else "" for source in passed]
    if not arrays or {*taken} != {*arrays}:
        return None
    again, known, count = kernel.kernel.repeated(values), dict(named), len(params)
    if again is never:
        return None
    at = [arrays[name] for name in taken]
    # The function `pick` is chosen once. Usually it returns the arguments as they are, without a new tuple.
    pick = (lambda x: x) if at == [*range(count)] else itemgetter(*at) if len(at) > 1 else lambda x: (x[at[0]],)

    def call_again(arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
        if len(arguments) != count or len(named) != len(known):
            return False
        for name, value in known.items():
            if name not in named or not same(named[name], value):
                return False
        for i, value in others:
            if not same(arguments[i], value):
                return False
        return again(pick(arguments))

    return call_again


def same(x: Any, known: Any) -> bool:
    """Returns whether an argument that is not an array certainly equals the known argument. Zeros count as different,
    because 0.0 == -0.0. A call with -0.0 was once launched with 0.0 by mistake."""
    return x is known or (type(x) is type(known) and x == known and x != 0)
