"""Decides, before all directives, which MMAs are wgmma and how many warps a block has.

These decisions are called the plan. It marks MMAs as wgmma, and later passes check the mark (`is_wgmma`). `stage`
copies operands of wgmma to shared memory, by TMA if all operands are TMA boxes. `subtile` divides accumulators of wgmma
along columns, and along rows if all warps together have fewer rows than the tile. `grid` makes blocks persistent.
`pipeline` uses the remaining shared memory for the ring. A line of the schedule overrides each of these decisions.

A later pass may find that wgmma is impossible, for example because too few registers are left beside the accumulators.
The kernel is then built again without wgmma (`Choices.retreat`).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from dsl.lowering.hopper.boxes import with_box
from dsl.lowering.hopper.warpgroup import (
    ARCH,
    INSTRUCTION,
    MOST_GROUPS,
    ROWS,
    STEP,
    TYPES,
    WARPS,
    chain,
    groups_of,
    has_columns,
    is_turn,
    made_in_registers,
    most_columns,
    rows_together,
    turned_shape,
)
from dsl.lowering.ir.function import Function, Op, Value, blocks_of, parents, uses, walk
from dsl.lowering.ir.targets import WARP, Target, target
from dsl.lowering.known.facts import facts_now
from dsl.lowering.ops.control import started
from dsl.lowering.plan.tile_loads import is_load, is_store
from dsl.lowering.shared.access_width import ASYNC_BYTES, lies_along, neighbours

NOT_PLANNED = "the schedule does not say so"
WHY_WARPS = "a warp of a warp group has 16 rows"
WAYS = {INSTRUCTION: True, "mma.sync": False}
MOST_SUMS = 128
"""The default maximum number of accumulators per thread: half of the registers, because 256 accumulators do not fit."""
MOST_TOGETHER = 192
"""The maximum number of accumulators per thread for all MMAs of a loop together."""
MOST_WARPS = MOST_GROUPS * WARPS
REFUSALS = ("instruction", "registers", "schedule", "shared", "layout")
"""If a later pass raises an error with one of these codes, the kernel is built again without wgmma."""


def plan(function: Function, given: Target, may_set_warps: bool, by_itself: bool = True) -> Target:
    """Marks the MMAs that are wgmma. Sets the number of warps if `may_set_warps` is true. Returns the target: sm_90a
    instead of sm_90 if there is wgmma. The same devices run both, but only sm_90a has wgmma. If `by_itself` is false,
    only the MMAs that the schedule names are wgmma."""
    is_hopper = may_plan(given)
    found = _named(function)
    if is_hopper and by_itself and not found and function.word("barriers") != "manual":
        found = _planned(function, given, may_set_warps)
    elif is_hopper and found and may_set_warps:
        warps = {_warps(function, _rows(function, op), True) for op in found}
        _choose_warps(function, max(warps) or function.warps, WHY_WARPS)
    for op in found:
        op.attrs["shape"] = INSTRUCTION
    if may_set_warps and not found:
        _give_registers(function)
    return target(ARCH) if is_hopper and found else given


def may_plan(given: Target) -> bool:
    """Whether a target has wgmma and TMA."""
    return given.arch in (ARCH, ARCH.rstrip("a"))


def drop_boxes(function: Function) -> None:
    """Removes the TMA boxes of accesses to tensors without a line `stage …: tma`. Also removes operations whose results
    are then unused. Operations with a name stay, because a line of the schedule may contain the name."""
    said = function.by_subject("stage", str)
    for op in walk(function.body):
        if not (is_load(op) or is_store(op)) or said.get(op.operands[0].name or "") == "tma":
            continue
        if "box" in op.attrs:
            op.operands = with_box(op.attrs, op.operands, NOT_PLANNED)
        op.attrs.pop("no_box", None)
    users, unread = uses(function.body), set[Op]()
    waiting = walk(function.body)
    while waiting:
        op = waiting.pop()
        if op in unread or not op.spec.pure or op.spec.control.ends or any(each.name for each in op.results):
            continue
        if op.results and all(user in unread for each in op.results for user in users.get(each, ())):
            unread.add(op)
            waiting += [each.op for each in op.operands if each.op is not None]
    for block in blocks_of(function.body):
        block.ops = [op for op in block.ops if op not in unread]


def is_wgmma(op: Op) -> bool:
    """Whether an operation is an MMA that the plan has marked as wgmma."""
    return op.spec.product and op.attrs.get("shape") == INSTRUCTION


def has_wgmma(function: Function) -> bool:
    return any(map(is_wgmma, walk(function.body)))


def flaw_of_loops(function: Function, loops: Iterable[Op]) -> str | None:
    """Returns an error if a loop of `loops` is in a branch or a `while`: producer warps
    (`dsl/lowering/directives/roles.py`) then do not copy for it by default. Otherwise returns None."""
    outside = parents(function.body)
    for loop in loops:
        around = outside.get(loop)
        while around is not None:
            if not around.spec.control.counters:
                return f"a loop stands in a '{around.name}', and producer warps copy for loops that count"
            around = outside.get(around)
    return None


def are_nested(loops: Iterable[Op]) -> bool:
    """Whether all `loops` are nested in each other, so that no loop follows another one."""
    chosen = list(loops)
    inside = {loop: set(walk(loop.regions[0])) for loop in chosen}
    return all(a is b or a in inside[b] or b in inside[a] for a in chosen for b in chosen)


def is_sum_of_wgmma(function: Function, name: str | None) -> bool:
    """Whether a wgmma adds to an accumulator called `name`."""
    return name is not None and any(is_wgmma(op) and name in names_of_product(op) for op in walk(function.body))


def names_of_product(product: Op) -> set[str]:
    """Returns the names that a schedule may use for an MMA: the name of its result and the name of its accumulator."""
    return {value.name for value in (product.result, product.operands[2]) if value.name}


def _named(function: Function) -> list[Op]:
    """Returns the MMAs with a line `instruction …: wgmma`."""
    names = {name for name, each in function.instructions.items() if each.name[0] == INSTRUCTION}
    products = [op for op in walk(function.body) if op.spec.product and op.attrs["shape"] is None]
    return [op for op in products if names & names_of_product(op)]


def _planned(function: Function, given: Target, may_set_warps: bool) -> list[Op]:
    """Returns the MMAs that are wgmma by default. All have the same number of rows, because they share the block's
    warps."""
    seen = _Seen(function)
    flaws = {op: seen.flaw(op) for op in walk(function.body) if op.spec.product and not seen.is_said(op)}
    fitting = [op for op, flaw in flaws.items() if flaw is None]
    if len(fitting) < len(flaws):
        # Without a conversion, a transposed result cannot be an operand of an mma.sync.
        why = "it is computed transposed, and another product of the kernel is mma.sync"
        flaws |= {op: why for op in fitting if computes_transpose(function, op)}
        fitting = [op for op, flaw in flaws.items() if flaw is None]
    together = _flaw_together(function, given, fitting, may_set_warps)
    taken = [op for op, flaw in flaws.items() if _is_taken(function, op, flaw or together)]
    if taken:
        why = f"{WHY_WARPS} of the transposed tile" if computes_transpose(function, taken[0]) else WHY_WARPS
        _choose_warps(function, _warps(function, _rows(function, taken[0]), may_set_warps), why)
    return taken


def _flaw_together(function: Function, given: Target, fitting: list[Op], may_set_warps: bool) -> str | None:
    """Checks whether all MMAs in `fitting` can be wgmma in the same kernel. Returns None if they can, otherwise the
    reason why not."""
    rows = sorted({_rows(function, op) for op in fitting})
    if len(rows) > 1:
        return f"the products of the kernel have {' and '.join(map(str, rows))} rows, and share their warps"
    warps = _warps(function, rows[0], may_set_warps) if rows else 0
    if rows and not warps:
        return f"{rows[0]} rows take {groups_of(rows[0]) * WARPS} warps, and the kernel has {function.warps}"
    threads = warps * WARP
    many = [op for op in fitting if rows[0] > rows_together(rows[0], warps) and _sums(op) > MOST_TOGETHER * threads]
    if many:
        sums = _sums(many[0]) // threads
        return f"{rows[0]} rows are computed in parts, and a thread has no registers for {sums} accumulators"
    registers = min(given.each((warps + WARPS) * 32, max(1, function.number("blocks_per_sm"))), 255)
    wide = [columns for op in fitting if (columns := _columns(function, op)) > most_columns(registers)]
    return f"a thread has no registers for {wide[0]} columns" if wide else None


def _is_taken(function: Function, op: Op, flaw: str | None) -> bool:
    """Makes the choice `route` for an MMA. Returns True if the MMA is wgmma. If `flaw` is not None, it is the reason
    why the only option is mma.sync."""
    carried = op.operands[2].name if op.operands[2].op is None else None  # zeros may have any name
    subject = op.result.name or carried or "product"
    which = "columns" if computes_transpose(function, op) else "rows"
    return function.choices.choose(
        "route",
        subject,
        WAYS if flaw is None else {"mma.sync": False},
        INSTRUCTION if flaw is None else "mma.sync",
        loc=op.loc,
        because=flaw or f"{ROWS} {which} for each four warps, and copies can bring its operands",
        line=f"instruction {subject}: {{option}}" if flaw is None else None,
        retreats=(("route", "mma.sync", REFUSALS),) if flaw is None else (),
    )


def _part(function: Function, op: Op) -> tuple[int, int]:
    """Returns the extents of an MMA's subtile in the schedule, or of the whole tile if there is no `subtile` line for
    it."""
    said = function.by_subject("subtile", tuple)
    cut = next((said[name] for name in names_of_product(op) if len(said.get(name, ())) == 2), op.result.tile.shape)
    return cut[0], cut[1]


def computes_transpose(function: Function, op: Op) -> bool:
    """Whether wgmma would compute the transpose of this MMA. Returns False if the schedule cuts the tile into
    subtiles."""
    return op.result.tile.shape == _part(function, op) and turned_shape(*_part(function, op))


def _rows(function: Function, op: Op) -> int:
    """Returns the number of rows of the wgmma instructions: those of an MMA's tile, or of its transpose."""
    return _part(function, op)[computes_transpose(function, op)]


def _columns(function: Function, op: Op) -> int:
    """Returns the number of columns of the wgmma instructions."""
    return _part(function, op)[not computes_transpose(function, op)]


def _sums(op: Op) -> int:
    """Returns the number of accumulators of an MMA."""
    return prod(op.result.tile.shape)


def _give_registers(function: Function) -> None:
    """Increases the number of warps until no thread has too many accumulators."""
    blocks = [[op for op in block.ops if op.spec.product] for block in blocks_of(function.body)]
    sizes = [list(map(_sums, products)) for products in blocks]
    each = max((max(block, default=0) for block in sizes), default=0)
    together = max(map(sum, sizes), default=0)
    warps = function.warps
    while warps < MOST_WARPS and (each > MOST_SUMS * warps * WARP or together > MOST_TOGETHER * warps * WARP):
        warps *= 2
    more = [2 * warps] if warps < MOST_WARPS else []
    _choose_warps(function, warps, f"a thread has at most {MOST_SUMS} accumulators", *more)


def _choose_warps(function: Function, warps: int, because: str, *others: int) -> None:
    """Makes the choice of the number of warps of a block. `warps` is the default, and `others` are the other
    options."""
    if warps == function.warps:
        return
    options = {str(each): each for each in (warps, *others)}
    function.warps = function.choices.choose(
        "block", "warps", options, str(warps), loc=function.loc, because=because, line="warps = {option}"
    )


def _warps(function: Function, rows: int, may_set: bool) -> int:
    """Returns the number of warps for wgmma with `rows` rows: the default, or the current one if `may_set` is false.
    Returns 0 if that number is impossible."""
    if may_set:
        return groups_of(rows) * WARPS
    return function.warps if rows_together(rows, function.warps) else 0


class _Seen:
    """Analyses a kernel to find out which MMAs can be wgmma."""

    def __init__(self, function: Function):
        self.function, self.facts, self.users = function, facts_now(function), uses(function.body)
        ops = walk(function.body)
        self.starts = {arg: start for op in ops if op.spec.control.counters for start, arg in started(op)}
        self.in_loops = {op for op in ops if op.spec.control.counters for op in op.regions[0].ops}
        self.said = function.by_subject("stage", str)

    def is_said(self, op: Op) -> bool:
        """Whether the kernel or the schedule sets the instruction of an MMA."""
        return op.attrs["shape"] is not None or bool(names_of_product(op) & self.function.instructions.keys())

    def flaw(self, op: Op) -> str | None:
        """Returns the reason why an MMA cannot be wgmma, or None if the plan finds no reason."""
        left, right, sums = op.operands
        turned = computes_transpose(self.function, op)
        rows, columns = _rows(self.function, op), _columns(self.function, op)
        types = left.dtype.name, right.dtype.name, sums.dtype.name
        if op not in self.in_loops:
            return "no loop has it in its body: copies would have nothing to run ahead of"
        if types not in TYPES:
            return f"wgmma adds no products of {types[0]} and {types[1]} to {types[2]}"
        if not has_columns(columns, types[2]) or rows % ROWS:
            return f"{rows} rows and {columns} columns are none of wgmma: {ROWS} rows, and up to 256 columns by 8 or 16"
        size = TYPES[types]
        if left.tile.shape[1] * size % STEP:
            return f"{left.tile.shape[1] * size} bytes along k are no multiple of {STEP}"
        for value, is_right, name in ((right, True, "right"), (left, False, "left")):
            if not turned and not is_right and not (chain(left) and chain(left)[-1].spec.access.kind == "read"):
                continue  # computed in registers, where wgmma takes a left operand
            if (flaw := self._flaw_of_operand(value, is_right, size)) is not None:
                return f"its {name} operand {flaw}"
        return self._flaw_of_lines(op)

    def _flaw_of_lines(self, op: Op) -> str | None:
        """Returns a description of the schedule's line that needs mma.sync, or None if there is none."""
        if laid_out := sorted(names_of_product(op) & self.function.pins.keys()):
            return f"the schedule has a line 'layout {laid_out[0]}', and wgmma has a layout of its own"
        if "prefetch_fragments" in self.function.attrs:
            return "the schedule has a line 'prefetch_fragments', which loads fragments of mma.sync"
        return None

    def _flaw_of_operand(self, value: Value, right: bool, size: int) -> str | None:
        """Returns the reason why an operand cannot be copied to shared memory, or why wgmma cannot read it there.
        Returns None if there is no such reason."""
        ops = chain(value)
        if not ops or not is_load(ops[-1]):
            if ops and ops[-1].spec.access.kind == "read":
                return "is loaded from a shared tile of the kernel's own; a line 'instruction NAME: wgmma' may take it"
            return made_in_registers(ops[-1]) if ops and ops[-1].operands else "is no load of a tile"
        load = ops[-1]
        if self.said.get(load.operands[0].name or "") == "registers":
            return "stays in registers, as the schedule says"
        if any(len(self.users.get(op.result, ())) > 1 for op in ops[1:]):
            return "is used by others, too"
        if not all(user.spec.product and user.operands[right] is value for user in self.users.get(value, ())):
            return "is used by others, too"
        if not right and sum(map(is_turn, ops)) % 2 and size == 4:
            return "lies across k"
        if size != 2 and not lies_along(self.facts, value, 0 if right else 1, self.starts):
            return "lies across k, which only elements of 16 bits may"
        bytes = neighbours(self.facts, load, "falls") * load.operands[0].dtype.bytes
        if bytes not in ASYNC_BYTES:
            return f"has {bytes} bytes that are known to be aligned neighbours, and no copy takes so few"
        return None
