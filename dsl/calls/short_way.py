"""The short way of a call whose arrays are of a known class and whose other arguments are known: its launch again.

A call is put in order, its class is told, and its arguments are passed on: 80 to 130 µs of Python. Where nothing but
addresses has changed, all of that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from dsl.calls.plan import BoundPlan, FromCall

ShortWay = Callable[[Sequence[Any], Mapping[str, Any]], bool]
"""(arguments, those by name) → whether the call was like the last one, and is made; else nothing was done."""
FIXED = (type(None), bool, int, float, str)
"""What an argument that is no array may be: nothing that can change."""
MOST_WAYS = 8
"""Classes of calls that a function keeps a way for: a layer of a network is called with the shapes of all of them."""


def short_way(
    params: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any], plan: BoundPlan
) -> ShortWay | None:
    """That of the call which `plan` has just served: if all of `params` were given in order, and its one launch takes
    all of its arrays; else None."""
    from dsl.runtime import is_array
    from dsl.runtime.repeated import never

    arrays = {name: i for i, (name, x) in enumerate(zip(params, arguments, strict=False)) if is_array(x)}
    others = [(i, x) for i, x in enumerate(arguments) if i not in arrays.values()]
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
    """Whether a fixed argument is certainly the known one; equal floats may be 0.0 and -0.0."""
    return x is known or (type(x) is type(known) and x == known and x != 0)
