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

from msgspec import Struct

from dsl.lowering.hopper.boxes import with_box
from dsl.lowering.hopper.warpgroup import (
    ARCH,
    BOTH_ACROSS,
    INSTRUCTION,
    MOST_GROUPS,
    ROWS,
    STEP,
    TYPES,
    WARPS,
    called,
    chain,
    groups_of,
    has_columns,
    is_loaded,
    loaded_across,
    made_in_registers,
    most_columns,
    rows_together,
    turned_shape,
)
from dsl.lowering.ir.function import Function, Op, Value, blocks_of, parents, uses, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import WARP, Target, target
from dsl.lowering.known.facts import Analysis, facts_now
from dsl.lowering.ops.control import started
from dsl.lowering.plan.tile_loads import is_load, is_store
from dsl.lowering.shared.access_width import ASYNC_BYTES, lies_along, neighbours

NOT_PLANNED = "the schedule does not say so"
OF_BATCH = "it has a batch axis, along which each warp multiplies products of its own"
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
    shapes = _shapes(function, given) if is_hopper else {}
    if is_hopper and by_itself and not found and function.word("barriers") != "manual":
        found = _planned(function, given, may_set_warps, shapes)
    elif is_hopper and found and may_set_warps:
        warps = _warps_together(function, [shapes[op] for op in found], True)
        _choose_warps(function, warps or function.warps, WHY_WARPS)
    for op in found:
        op.attrs["shape"] = INSTRUCTION
        if op in shapes and shapes[op].is_turned:
            op.attrs["turn"] = True
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
    users = uses(function.body)
    return name is not None and any(is_wgmma(op) and name in names_of_product(users, op) for op in walk(function.body))


def names_of_product(users: dict[Value, list[Op]], product: Op) -> set[str]:
    """Returns the names that a schedule may use for an MMA: the names of its accumulator, of its result, and of what
    elementwise operations make of it, such as `acc` in `acc = fma(dot(x, y), scale, acc)`."""
    made = [product.result]
    for value in made:
        results = (result for user in users.get(value, ()) if user.spec.elementwise for result in user.results)
        made += [result for result in results if result not in made]
    return {value.name for value in (product.operands[2], *made) if value.name}


def _named(function: Function) -> list[Op]:
    """Returns the MMAs with a line `instruction …: wgmma`."""
    names = {name for name, each in function.instructions.items() if each.name[0] == INSTRUCTION}
    users = uses(function.body)
    products = [op for op in walk(function.body) if op.spec.product and op.attrs["shape"] is None]
    found = [op for op in products if names & names_of_product(users, op)]
    for op in found:
        if has_batch(op):
            name = min(names & names_of_product(users, op))
            message = f"product '{name}' cannot be one of warp groups: {OF_BATCH}"
            raise TileError("instruction", function.instructions[name].loc, message, "mma.sync takes any product")
    return found


def has_batch(op: Op) -> bool:
    """Whether an MMA is a batch of products."""
    return len(op.result.tile.shape) > 2


def _planned(function: Function, given: Target, may_set_warps: bool, shapes: dict[Op, _Shape]) -> list[Op]:
    """Returns the MMAs that are wgmma by default. All have the same number of rows, because they share the block's
    warps."""
    seen = _Seen(function, shapes)
    flaws = {op: seen.flaw(op) for op in walk(function.body) if op.spec.product and not seen.is_said(op)}
    fitting = [op for op, flaw in flaws.items() if flaw is None]
    if len(fitting) < len(flaws):
        # Without a conversion, a transposed result cannot be an operand of an mma.sync.
        why = "it is computed transposed, and another product of the kernel is mma.sync"
        flaws |= {op: why for op in fitting if shapes[op].is_turned}
        fitting = [op for op, flaw in flaws.items() if flaw is None]
    together = _flaw_together(function, given, {op: shapes[op] for op in fitting}, may_set_warps)
    taken = [op for op, flaw in flaws.items() if _is_taken(function, op, shapes[op], flaw or together)]
    if taken:
        shape = shapes[taken[0]]
        why = f"{WHY_WARPS} of the transposed tile" if shape.is_turned else WHY_WARPS
        _choose_warps(function, _warps_together(function, [shapes[op] for op in taken], may_set_warps), why)
    return taken


def _flaw_together(function: Function, given: Target, fitting: dict[Op, _Shape], may_set_warps: bool) -> str | None:
    """Checks whether all MMAs in `fitting` can be wgmma in the same kernel. Returns None if they can, otherwise the
    reason why not."""
    rows = sorted({shape.rows for shape in fitting.values()})
    if len(rows) > 1:
        return f"the products of the kernel have {' and '.join(map(str, rows))} rows, and share their warps"
    warps = _warps_together(function, fitting.values(), may_set_warps)
    if fitting and not warps and not groups_of(rows[0]):
        return f"{rows[0]} rows are neither {ROWS} nor a multiple of {2 * ROWS}"
    if fitting and not warps:
        if not (takes := groups_of(rows[0]) * WARPS):
            said = "a line 'instruction NAME: wgmma' may take it in parts"
            return f"{rows[0]} rows are neither 64 nor a multiple of 128, which warp groups share; {said}"
        return f"{rows[0]} rows take {takes} warps, and the kernel has {function.warps}"
    threads = warps * WARP
    many = [op for op in fitting if rows[0] > rows_together(rows[0], warps) and _sums(op) > MOST_TOGETHER * threads]
    if many:
        sums = _sums(many[0]) // threads
        return f"{rows[0]} rows are computed in parts, and a thread has no registers for {sums} accumulators"
    wide = [shape.columns for shape in fitting.values() if shape.columns > _most_columns(function, given, warps)]
    return f"a thread has no registers for {wide[0]} columns" if wide else None


def _is_taken(function: Function, op: Op, shape: _Shape, flaw: str | None) -> bool:
    """Makes the choice `route` for an MMA. Returns True if the MMA is wgmma. If `flaw` is not None, it is the reason
    why the only option is mma.sync."""
    carried = op.operands[2].name if op.operands[2].op is None else None  # zeros may have any name
    subject = op.result.name or carried or "product"
    which = "columns" if shape.is_turned else "rows"
    return function.choices.choose(
        "route",
        subject,
        WAYS if flaw is None else {"mma.sync": False},
        INSTRUCTION if flaw is None else "mma.sync",
        loc=op.loc,
        because=flaw
        or f"{ROWS} {which} for each four warps, and copies can bring its operands{_told_of_loads(op, shape)}",
        line=f"instruction {subject}: {{option}}" if flaw is None else None,
        retreats=(("route", "mma.sync", REFUSALS),) if flaw is None else (),
    )


def _told_of_loads(op: Op, shape: _Shape) -> str:
    """Says which operand threads load to registers, and why. Returns "" if wgmma reads both in shared memory."""
    if shape.across not in ("left", "right"):
        return ""
    tensor = chain(op.operands[shape.across == "right"])[-1].operands[0].name
    turned = ", as the left operand of the transposed product" if shape.is_turned else ""
    return f"; '{tensor}' does not lie along k, so threads load it to registers{turned}"


def part_of(function: Function, users: dict[Value, list[Op]], op: Op) -> tuple[int, int]:
    """Returns the extents of an MMA's subtile in the schedule, or of the whole tile if there is no `subtile` line for
    it."""
    said = function.by_subject("subtile", tuple)
    names = names_of_product(users, op)
    cut = next((said[name] for name in names if len(said.get(name, ())) == 2), op.result.tile.shape[-2:])
    return cut[0], cut[1]


class _Shape(Struct, frozen=True):
    """How wgmma would compute an MMA. `rows` and `columns` are those of its accumulator. If `is_turned` is true, this
    is the transpose of the MMA's tile. `across` says which operands have elements of 8 or 32 bits that are not
    contiguous along k: `left`, `right`, `both`, or none ("")."""

    rows: int
    columns: int
    is_turned: bool
    most_groups: int
    across: str

    @property
    def groups(self) -> int:
        """The number of warpgroups."""
        return min(groups_of(self.rows), self.most_groups)


def _shapes(function: Function, given: Target) -> dict[Op, _Shape]:
    facts, users = facts_now(function), uses(function.body)
    products = [op for op in walk(function.body) if op.spec.product]
    found = {op: _shape(function, given, facts, users, op) for op in products}
    # Products of one shape mostly meet, as in `silu(x @ a) * (x @ b.T)`, and share the warps, with 16 rows each. So if
    # one of them must be transposed, the others are, too, if they can be.
    turned = {
        part_of(function, users, op) for op, shape in found.items() if shape.is_turned and is_loaded(op.operands[0])
    }
    for op, shape in found.items():
        is_one = part_of(function, users, op) in turned and is_loaded(op.operands[0]) and shape.across != "left"
        if is_one and not shape.is_turned and groups_of(shape.columns):
            found[op] = _shape(function, given, facts, users, op, with_others=True)
    return found


def _shape(
    function: Function,
    given: Target,
    facts: Analysis,
    users: dict[Value, list[Op]],
    op: Op,
    with_others: bool = False,
) -> _Shape:
    """Finds out whether wgmma must compute the transpose of an MMA: its tile has an unsuitable number of rows, or
    threads must load its right operand to registers, where wgmma takes left operands only, or another MMA is transposed
    (`with_others`)."""
    rows, columns = part_of(function, users, op)
    left, right = (
        is_loaded(value) and loaded_across(value.dtype) and lies_along(facts, value, axis, {})
        for axis, value in enumerate(op.operands[:2])
    )
    is_wrong_shape = turned_shape(rows, columns) and op.result.tile.shape == (rows, columns)
    turned = is_wrong_shape or with_others or (right and not left and is_loaded(op.operands[0]))
    rows, columns = (columns, rows) if turned else (rows, columns)
    # With four groups, threads would load bytes of two swizzle atoms, and `ldmatrix.trans` reads one. They have too few
    # registers for results of an MMA beside the sums that these are added to: an e4m3 product of 4096 in tiles of 256 x
    # 128 takes 406 us then (H200). Two groups compute 256 rows in parts, but not if a product before this one has made
    # its left operand, as in attention.
    of_bytes = (right if turned else left) and op.operands[0].dtype.bits == 8
    apart = is_loaded(op.operands[0]) and bool(adding(users, op))
    few = of_bytes or apart or columns > _most_columns(function, given, MOST_WARPS)
    across = "both" if left and right else "left" if left else "right" if right else ""
    return _Shape(rows, columns, turned, 2 if few else MOST_GROUPS, across)


def _most_columns(function: Function, given: Target, warps: int) -> int:
    """Returns the greatest number of columns of an instruction if `warps` warps multiply beside the producer warps."""
    return most_columns(min(given.each((warps + WARPS) * WARP, max(1, function.number("blocks_per_sm"))), 255))


def adding(users: dict[Value, list[Op]], product: Op) -> list[tuple[Op, int]]:
    """Finds the elementwise operations that add the result of an MMA to other sums, as in `acc = acc + dot(x, y)` and
    `acc = fma(dot(x, y), scale, acc)`. Returns each with the index of an operand; of the last one, this is the operand
    with the sums, an argument of a block. Returns an empty list if the result does not reach such sums alone."""
    found: list[tuple[Op, int]] = []
    value = product.result
    while True:
        (op, *others) = users.get(value, ()) or (product,)
        alike = all(each.type == product.result.type for each in (*op.operands, *op.results))
        if others or not op.spec.elementwise or not alike:
            return []
        sums = [i for i, each in enumerate(op.operands) if each.op is None]
        found.append((op, sums[0] if sums else 0))
        if sums:
            return found
        value = op.result


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


def _warps(function: Function, shape: _Shape, may_set: bool) -> int:
    """Returns the number of warps for a wgmma: the default, or the current one if `may_set` is false. Returns 0 if that
    number is impossible."""
    if may_set:
        return shape.groups * WARPS
    return function.warps if rows_together(shape.rows, function.warps) else 0


def _warps_together(function: Function, shapes: Iterable[_Shape], may_set: bool) -> int:
    """Returns the number of warps for several wgmma of a kernel: of those that take some, the one with the fewest."""
    each = {_warps(function, shape, may_set) for shape in shapes}
    return min(each - {0}, default=0)


class _Seen:
    """Analyses a kernel to find out which MMAs can be wgmma."""

    def __init__(self, function: Function, shapes: dict[Op, _Shape]):
        self.shapes = shapes
        self.function, self.facts, self.users = function, facts_now(function), uses(function.body)
        ops = walk(function.body)
        self.starts = {arg: start for op in ops if op.spec.control.counters for start, arg in started(op)}
        self.in_loops = {op for op in ops if op.spec.control.counters for op in op.regions[0].ops}
        self.said = function.by_subject("stage", str)

    def is_said(self, op: Op) -> bool:
        """Whether the kernel or the schedule sets the instruction of an MMA."""
        names = names_of_product(self.users, op)
        return op.attrs["shape"] is not None or bool(names & self.function.instructions.keys())

    def flaw(self, op: Op) -> str | None:
        """Returns the reason why an MMA cannot be wgmma, or None if the plan finds no reason."""
        left, right, sums = op.operands
        if has_batch(op):
            return OF_BATCH
        shape = self.shapes[op]
        rows, columns, turned = shape.rows, shape.columns, shape.is_turned
        types = left.dtype.name, right.dtype.name, sums.dtype.name
        if op not in self.in_loops:
            return "no loop has it in its body: copies would have nothing to run ahead of"
        if types not in TYPES:
            return f"wgmma adds no products of {types[0]} and {types[1]} to {types[2]}"
        if not has_columns(columns, types[2]) or rows % ROWS:
            return f"{rows} rows and {columns} columns are none of wgmma: {ROWS} rows, and up to 256 columns by 8 or 16"
        if shape.across == "both":
            return BOTH_ACROSS
        size = TYPES[types]
        if left.tile.shape[1] * size % STEP:
            return f"{left.tile.shape[1] * size} bytes along k are no multiple of {STEP}"
        for value, is_right in ((right, True), (left, False)):
            if not turned and not is_right and not (chain(left) and chain(left)[-1].spec.access.kind == "read"):
                continue  # computed in registers, where wgmma takes a left operand
            if (flaw := self._flaw_of_operand(value, is_right, is_right == turned)) is not None:
                return f"{called(is_right, turned)} {flaw}"
        return self._flaw_of_lines(op)

    def _flaw_of_lines(self, op: Op) -> str | None:
        """Returns a description of the schedule's line that needs mma.sync, or None if there is none."""
        if laid_out := sorted(names_of_product(self.users, op) & self.function.pins.keys()):
            return f"the schedule has a line 'layout {laid_out[0]}', and wgmma has a layout of its own"
        if "prefetch_fragments" in self.function.attrs:
            return "the schedule has a line 'prefetch_fragments', which loads fragments of mma.sync"
        return None

    def _flaw_of_operand(self, value: Value, right: bool, may_be_across: bool) -> str | None:
        """Returns the reason why an operand cannot be copied to shared memory, or why wgmma cannot read it there.
        Returns None if there is no such reason. With `may_be_across`, threads load the operand to registers if it is
        not contiguous along k."""
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
        along, across = (lies_along(self.facts, value, axis, self.starts) for axis in ((0, 1) if right else (1, 0)))
        is_loaded_across = may_be_across and loaded_across(value.dtype) and across
        if value.dtype.bits != 16 and not along and not is_loaded_across:
            told = "lies across k" if across else "has no neighbours along k in memory"
            return f"{told}, which only elements of 16 bits may, or a left operand"
        bytes = neighbours(self.facts, load, "falls") * load.operands[0].dtype.bytes
        if bytes not in ASYNC_BYTES:
            return f"has {bytes} bytes that are known to be aligned neighbours, and no copy takes so few"
        return None
