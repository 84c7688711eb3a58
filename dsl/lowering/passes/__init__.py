"""Lists the compiler passes in order, and runs them. A pass is a function that changes a kernel's IR. Each pass is
timed, and many can be left out. Plug-ins can add passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module

from msgspec import Struct

from dsl.lowering.building.verify import Known, Malformed, verify
from dsl.lowering.directives import (
    align,
    cluster_tiles,
    delay,
    grid,
    loads_once,
    loop,
    peel,
    pieces,
    pingpong,
    pipeline,
    prefetch_fragments,
    stage,
    subtile,
    tma_stores,
    turned,
)
from dsl.lowering.ir.choices import ON_OFF
from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.nesting import deep_recursion
from dsl.lowering.ir.plugins import Added, Plugins, current, guarded
from dsl.lowering.ir.targets import Target
from dsl.lowering.passes import (
    anew_behind_loops,
    barriers,
    check_names,
    check_registers,
    defer_waits,
    earlier_iterations,
    early_loads,
    fold_again,
    late_waits,
    layouts,
    lower_conversions,
    lower_copies,
    lower_matrix_accesses,
    marks,
    narrow_scalars,
    occupancy,
    overlap,
    peel_loops,
    place_shared,
    place_waits,
    recompute,
    simplify,
    sink,
    swizzle_shared,
    unroll_loops,
)
from dsl.lowering.passes.structure import flaw_of_structure

LAYOUTS, CONVERSIONS, COPIES, PLACES = "layouts", "conversions lowered", "copies lowered", "shared memory placed"


class Pass(Struct, frozen=True):
    """A compiler pass.

    `needs`, `gives`: the properties that the IR must have before the pass, and the properties that it has after the
        pass.
    `reads`: properties of the schedule that the pass reads.
    `chooses`: keys of choices that this pass alone makes. Lines of a schedule may have them where it makes none.
    `may_go`: True if the pass may be left out. Without such a pass, the code is slower, or fewer errors are found.
    `sound`: False if the code is wrong without the pass.
    `by_hand`: False if the code of kernels with `barriers manual` is wrong without the pass.
    `needed`: a function that returns whether a given kernel cannot be compiled without the pass.
    `deals`: a function that returns whether the pass may assign other work to the blocks of a given kernel.
    `resums`: True if the pass changes the order of additions.
    `plugin`: the plug-in that added the pass; None for a pass of the compiler.
    """

    name: str
    run: Callable[[Function, Target], None]
    needs: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    chooses: tuple[str, ...] = ()
    may_go: bool = True
    needed: Callable[[Function], bool] | None = None
    deals: Callable[[Function], bool] | None = None
    resums: bool = False
    sound: bool = True
    by_hand: bool = True
    plugin: Added | None = None

    def apply(self, function: Function, target: Target) -> None:
        """Runs the pass. Raises TileError `call` if the IR lacks a property that the pass needs."""
        for need in self.needs:
            if need not in function.holds:
                raise TileError("call", None, f"the pass '{self.name}' needs {need}, which {giver(need)} gives")
        self.run(function, target)
        function.holds.update(self.gives)


def on_function(run: Callable[[Function], None]) -> Callable[[Function, Target], None]:
    return lambda function, target: run(function)


def asked(directive: str) -> Callable[[Function, Target], None]:
    """Returns the pass of a directive that does nothing without a line in the schedule. Few schedules have such a line,
    so only these import the directive's module."""

    def run(function: Function, target: Target) -> None:
        if directive in function.attrs:
            getattr(import_module(f"dsl.lowering.directives.{directive}"), directive)(function)

    return run


def is_split(function: Function) -> bool:
    return "split" in function.attrs


def joins_parts(function: Function) -> bool:
    """Whether the text names a function that joins parts of a loop. Only `split` takes it out again, and no later pass
    knows it."""
    return is_split(function) and any(op.spec.acts == "joins" for op in walk(function.body))


PASSES = (
    # First: later passes remove values, and a line of the schedule about a removed value would be reported as a
    # mistake.
    Pass("check_names", on_function(check_names.check_names)),
    # Before `split` and `subtile`, which work on the accumulators.
    Pass("turned_tiles", on_function(turned.turned_tiles), reads=("instruction",), may_go=False),
    # Directives come before the passes for layouts and barriers, which treat code of directives like code written by
    # hand. Among the directives that rebuild loops, `pipeline` is first. Iterations that are peeled or unrolled later
    # then keep the order that `pipeline` gave them.
    Pass("grid", on_function(grid.grid), reads=("l2_group", "persistent"), deals=grid.may_deal),
    Pass("split", asked("split"), reads=("split",), needed=joins_parts, deals=is_split, resums=True),
    Pass("precompute", asked("precompute"), reads=("precompute",)),
    Pass("subtile", on_function(subtile.subtile), reads=("subtile",)),
    # Before the directives that compute tiles in parts: each block of a cluster computes some of the parts.
    Pass("cluster_tiles", cluster_tiles.cluster_tiles, reads=("layout",), may_go=False, deals=cluster_tiles.may_deal),
    # Before the directives that compute tiles in parts: those then divide what is read from shared memory.
    Pass("pieces", pieces.pieces, reads=("stage", "loop")),
    Pass("align", align.align, reads=("align", "loop", "stage")),
    # Cannot be left out: the pass divides tiles into static parts if their extents are not powers of two.
    Pass("loop", loop.loop, reads=("loop", "layout"), may_go=False),
    # After `loop`: each part of a row is a load of its own. Before `stage`, which works on what stays in the loops.
    Pass("loads_once", on_function(loads_once.loads_once)),
    # After `subtile`, since each subtile is a matrix product of its own. Before `stage`, which depends on how operands
    # are laid out.
    Pass("turned", on_function(turned.turned), reads=("instruction",), may_go=False),
    # Before the passes that rebuild loops. After `split`, which compares the body of a loop with the reduction behind
    # the loop.
    Pass("earlier_iterations", on_function(earlier_iterations.earlier_iterations)),
    Pass("stage", stage.stage, reads=("stage",)),
    # Before `pipeline`, which takes the remaining shared memory.
    Pass("tma_stores", tma_stores.tma_stores, reads=("stage",), may_go=False),
    Pass("pipeline", pipeline.pipeline, reads=("pipeline",), needed=pipeline.copies_halos),
    # After `pipeline`, which says what a stage holds. Before `peel`, which splits the loop of all iterations but one.
    Pass("delay", on_function(delay.delay), reads=("delay",)),
    # After `pipeline`: `peel` turns one loop into two, and the pipeline continues from the first loop into the second.
    Pass("peel", on_function(peel.peel), reads=("peel",)),
    # After `peel`: `pingpong` compares the loops of one warp role with the loops of the other role. Before loops are
    # unrolled.
    Pass("pingpong", on_function(pingpong.pingpong), reads=("pingpong",)),
    # Before layouts, which are chosen for the peeled and unrolled code. `peel_loops` comes before `unroll_loops`, which
    # then sees a loop without a partial last iteration. `fold_again` drops the masks that both passes made superfluous.
    Pass("peel_loops", on_function(peel_loops.peel_loops), reads=("peel",)),
    # Before `unroll_loops`: the unrolled body then keeps the prefetched fragments in their registers and needs no
    # moves.
    Pass("prefetch_fragments", on_function(prefetch_fragments.prefetch_fragments), reads=("prefetch_fragments",)),
    Pass("unroll_loops", on_function(unroll_loops.unroll_loops), reads=("unroll",)),
    Pass("fold_again", on_function(fold_again.fold_again)),
    # LLVM simplifies again: without this pass, the code is as fast (0.99 to 1.01, docs/measurements.md). The pass runs
    # here so that no layout is chosen and no barrier is inserted for dead code.
    Pass("simplify", on_function(simplify.simplify)),
    Pass("assign_layouts", layouts.assign_layouts, gives=(LAYOUTS,), reads=("layout", "instruction"), may_go=False),
    Pass(
        "lower_conversions", on_function(lower_conversions.lower_conversions), (LAYOUTS,), (CONVERSIONS,), may_go=False
    ),
    # After layouts: layouts decide how many bytes a thread copies at once, and `cp.async` takes only 4, 8 or 16 bytes.
    Pass(
        "lower_copies", on_function(lower_copies.lower_copies), (LAYOUTS,), (COPIES,), reads=("require",), may_go=False
    ),
    Pass("clean", on_function(simplify.simplify)),
    Pass("sink", on_function(sink.sink)),
    Pass("early_loads", on_function(early_loads.early_loads), chooses=early_loads.KEYS),
    Pass("check_registers", check_registers.check_registers, (LAYOUTS,)),
    Pass("narrow_scalars", on_function(narrow_scalars.narrow_scalars), by_hand=False),
    Pass("recompute", on_function(recompute.recompute)),
    Pass("anew_behind_loops", on_function(anew_behind_loops.anew_behind_loops)),
    Pass("lower_matrix_accesses", lower_matrix_accesses.lower_matrix_accesses, (LAYOUTS,)),
    # After lower_matrix_accesses: for `ldmatrix`, shared memory serves other lanes together than for plain loads.
    Pass(
        "swizzle_shared",
        on_function(swizzle_shared.swizzle_shared),
        (LAYOUTS, CONVERSIONS),
        reads=("swizzle",),
    ),
    Pass(
        "insert_barriers",
        on_function(barriers.insert_barriers),
        (LAYOUTS, CONVERSIONS, COPIES),
        reads=("barriers",),
        sound=False,
    ),
    # After `insert_barriers`, which orders the reads of a product at the place where the product is in the text.
    Pass("place_waits", place_waits.place_waits, may_go=False),
    Pass("defer_waits", on_function(defer_waits.defer_waits)),
    Pass("late_waits", on_function(late_waits.late_waits)),
    # After all barriers: they decide which tiles may share bytes.
    Pass("place_shared", place_shared.place_shared, (CONVERSIONS,), (PLACES,), may_go=False),
    Pass("occupancy", occupancy.occupancy, reads=("blocks_per_sm", "maxnreg")),
    Pass("check_pingpong", on_function(pingpong.check_pingpong), may_go=False),
    # After every pass that moves accesses: an access that moves over the wait would race with the previous launch.
    Pass("overlap", on_function(overlap.overlap), may_go=False),
    # Last, so that a timeline measures the code without marks.
    Pass("marks", on_function(marks.marks), may_go=False),
)
EMISSION_NEEDS = (LAYOUTS, CONVERSIONS, COPIES, PLACES)


def passes_of(plugins: Plugins) -> Sequence[Pass]:
    """Returns the passes of the compiler and of plug-ins. A plug-in states before or after which other pass its own
    pass runs. Raises TileError `plugin` if the name of its pass is already taken, or if the other pass does not
    exist."""
    return _with_added(plugins) if plugins.added else PASSES


@lru_cache(maxsize=64)
def _with_added(plugins: Plugins) -> Sequence[Pass]:
    found = list(PASSES)
    for each in plugins.every("pass", "directive"):
        names = [row.name for row in found]
        if each.name in names:
            raise each.wrong(f"adds a pass '{each.name}', which there is already", "another name")
        side = "before" if each.about["before"] is not None else "after"
        other = each.about[side]
        if other not in names:
            hint = closest(str(other), names) or ", ".join(names)
            raise each.wrong(f"is to stand {side} '{other}', and there is no such pass", hint)
        at = names.index(other) + (side == "after")
        while side == "after" and at < len(found) and _follows(found[at], other):
            at += 1  # passes for the same place keep the order of their files
        found.insert(at, Pass(each.name, _checked(each), plugin=each))
    return tuple(found)


def _follows(row: Pass, other: str) -> bool:
    return row.plugin is not None and row.plugin.about["after"] == other


def _checked(added: Added) -> Callable[[Function, Target], None]:
    """Wraps a plug-in's pass so that the IR is verified after it. The wrapper raises TileError `plugin` if the IR is
    not well-formed. If the plug-in defines a directive, its pass runs only if the schedule contains this directive."""

    def run(function: Function, target: Target) -> None:
        said = []
        if added.kind == "directive":
            if added.name not in function.attrs:
                return
            said = [function.attrs[added.name]]
        added(function, target, *said)
        # Guarded: a plug-in may have put any Python object anywhere into the IR, and the checks themselves may raise on
        # such an object.
        with guarded(added.loc, f"looking at what '{added.label}' leaves"):
            if (found := flaw_of_structure(function)) is not None:
                raise added.wrong(f"leaves no IR: {found}")
            try:
                verify(function, added.name)
            except Malformed as malformed:
                raise added.wrong(f"leaves IR that is not well-formed: {malformed}") from None
        if function.facts is not None:
            function.facts = None  # the facts may describe operations that no longer exist

    return run


@deep_recursion()
def run_passes(
    function: Function,
    target: Target,
    passes: Sequence[Pass] | None = None,
    check: bool = False,
) -> dict[str, float]:
    """Runs `passes` (default: all passes) on a function, except passes that a choice leaves out. If `check` is true,
    verifies the IR after each pass. Returns the time of each pass in seconds. Raises TileError `call` if a pass needs a
    property that no earlier pass gives."""
    passes = passes_of(function.choices.plugins) if passes is None else passes
    seconds, known = dict[str, float](), Known()
    for each in passes:
        sound = each.sound and (each.by_hand or function.word("barriers") != "manual")
        unsafe = () if sound else ("off",)
        function.choices.excuse(*each.chooses)
        may_go = each.may_go and not (each.needed is not None and each.needed(function))
        if may_go and not function.choices.choose("pass", each.name, ON_OFF, "on", unsafe=unsafe):
            continue
        start = time.perf_counter()
        with blamed(function, passes, f"the pass '{each.name}'"):
            each.apply(function, target)
        seconds[each.name] = time.perf_counter() - start
        if check:
            verify(function, each.name, known)
    return seconds


@contextmanager
def blamed(function: Function, passes: Sequence[Pass], what: str) -> Iterator[None]:
    """A context manager that turns an internal error into a TileError `plugin` if a plug-in's pass has run. The error
    names the last such pass. The verifier accepts well-formed IR that breaks assumptions of later passes, so the error
    may occur only in a later pass."""
    try:
        yield
    except TileError:
        raise
    except Exception as error:
        ran = {made.stem.removeprefix("pass.") for made in function.choices.made if made.taken == "on"}
        mine = [each.plugin for each in passes if each.plugin is not None and each.name in ran]
        mine = [each for each in mine if each.kind == "pass" or each.name in function.attrs]
        if not mine:
            raise
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        hint = "DSL_TRACEBACK=1 shows where; dsl compile --trace what it changed"
        raise mine[-1].wrong(f"leaves IR that {what} does not take: {said:.200}", hint) from error


def named(names: Sequence[str], passes: Sequence[Pass] | None = None) -> list[Pass]:
    """Returns the passes with these names. Raises TileError `call` for an unknown name."""
    known = {each.name: each for each in (passes_of(current()) if passes is None else passes)}
    for name in names:
        if name not in known:
            raise TileError("call", None, f"there is no pass '{name}'", closest(name, known) or ", ".join(known))
    return [known[name] for name in names]


def left_out(names: Sequence[str]) -> dict[str, str]:
    """Returns the choices that leave out the passes with these names. Raises TileError `call` for an unknown name, or
    for a pass that code generation requires."""
    for each in named(names):
        if not each.may_go:
            free = ", ".join(other.name for other in PASSES if other.may_go)
            raise TileError("call", None, f"the pass '{each.name}' cannot be left out: code needs what it makes", free)
    return {f"pass.{name}": "off" for name in names}


def giver(need: str) -> str:
    """Returns the name of the pass that establishes the property `need`."""
    return next(f"'{each.name}'" for each in PASSES if need in each.gives)


def check_complete(function: Function) -> None:
    """Raises TileError `call` if the function is not ready for emission."""
    for need in EMISSION_NEEDS:
        if need not in function.holds:
            raise TileError("call", None, f"emission needs {need}, which the pass {giver(need)} gives")
