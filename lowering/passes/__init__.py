"""The passes, in order. Each is a function on a kernel's IR; the runner can time, print after, leave out or add one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lowering.ir import Function, to_mlir
from lowering.location import TileError, closest
from lowering.nesting import deep_recursion
from lowering.passes.check_names import check_names
from lowering.passes.check_registers import check_registers
from lowering.passes.insert_barriers import insert_barriers
from lowering.passes.layouts import assign_layouts
from lowering.passes.lower_copies import lower_copies
from lowering.passes.lower_exchanges import lower_exchanges
from lowering.passes.lower_matrix_accesses import lower_matrix_accesses
from lowering.passes.narrow_scalars import narrow_scalars
from lowering.passes.place_shared import place_shared
from lowering.passes.recompute import recompute
from lowering.passes.simplify import simplify
from lowering.passes.swizzle_shared import swizzle_shared
from lowering.passes.unroll_loops import unroll_loops
from lowering.targets import Target
from lowering.verify import verify

Pass = Callable[[Function, Target], None]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("check_names", lambda f, t: check_names(f)),
    ("unroll_loops", lambda f, t: unroll_loops(f)),
    ("simplify", lambda f, t: simplify(f)),
    ("assign_layouts", assign_layouts),
    ("lower_exchanges", lambda f, t: lower_exchanges(f)),
    ("lower_copies", lambda f, t: lower_copies(f)),
    ("clean", lambda f, t: simplify(f)),
    ("check_registers", lambda f, t: check_registers(f)),
    ("narrow_scalars", lambda f, t: narrow_scalars(f)),
    ("recompute", lambda f, t: recompute(f)),
    ("lower_matrix_accesses", lower_matrix_accesses),
    ("swizzle_shared", lambda f, t: swizzle_shared(f)),
    ("insert_barriers", lambda f, t: insert_barriers(f)),
    ("place_shared", place_shared),
)

NEEDED = frozenset({"assign_layouts", "lower_exchanges", "lower_copies", "place_shared"})
"""Passes without which there is no code: the others make it faster, or check it."""


@dataclass(slots=True)
class Trace:
    """What a run of the passes leaves: seconds by pass, and the IR after those that were asked for."""

    seconds: dict[str, float] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)


@deep_recursion()
def run_passes(
    function: Function,
    target: Target,
    passes: tuple[tuple[str, Pass], ...] = PASSES,
    skip: tuple[str, ...] = (),
    print_after: tuple[str, ...] = (),
    check: bool = False,
) -> Trace:
    """Runs `passes` but those in `skip`; with `check`, verifies after each."""
    names = [n for n, _ in passes]
    for name in (*skip, *print_after):
        if name not in names:
            raise TileError("call", None, f"there is no pass '{name}'", closest(name, names) or ", ".join(names))
    for name in skip:
        if name in NEEDED:
            free = ", ".join(each for each in names if each not in NEEDED)
            raise TileError("call", None, f"the pass '{name}' cannot be left out: code needs what it makes", free)
    trace = Trace()
    for name, run in passes:
        if name in skip:
            continue
        start = time.perf_counter()
        run(function, target)
        trace.seconds[name] = time.perf_counter() - start
        if check:
            verify(function, name)
        if name in print_after:
            trace.printed[name] = to_mlir(function)
    return trace
