"""Rebuilds a function with the chosen layouts of its values, and inserts layout conversions."""

from __future__ import annotations

from math import prod
from typing import NoReturn

from dsl.lowering.directives.slices import inside
from dsl.lowering.hopper.warpgroup import StagedOperand, chain
from dsl.lowering.ir.function import Block, Op, Value, subject_of
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import TileType
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops import OPS
from dsl.lowering.ops.control import handed_on, parting
from dsl.lowering.ops.memory import moved_by
from dsl.lowering.ops.placing import in_one
from dsl.lowering.passes.layouts.anchors import access_layout, copy_layout
from dsl.lowering.passes.layouts.parted_loads import mask_loads, obstacle
from dsl.lowering.passes.layouts.spread import Layouts
from dsl.lowering.passes.lower_matrix_accesses import feeding
from dsl.lowering.shared.access_width import offset_of, vector_width

CONVERT = OPS["convert_layout"]


class Rebuilding:
    """Rewrites a function. The class provides the interface that `dsl/lowering/ops/placing.py` describes."""

    def __init__(self, layouts: Layouts):
        self.function, self.warps, self.analysis = layouts.function, layouts.warps, layouts.facts
        self.layouts, self.pinned, self.is_cheap = layouts.found, layouts.pinned, layouts.is_cheap
        self.operands = feeding(self.function.body)  # operands of products
        self.wgmma, self.copies = layouts.wgmma, layouts.copies
        self.views = {
            value: staged
            for op, groups in layouts.wgmma.items()
            for value, staged in zip(op.operands[:2], (groups.left, groups.right), strict=True)
            if staged is not None
        }
        # The loads of views, and the transposes and bitcasts between a load and its view.
        self.replaced = {each for value in self.views for each in chain(value) if each is not value.op}
        self.home: dict[Value, Block] = {}
        self.find_homes(self.function.body)
        self.map: dict[Value, Value] = {}
        self.out: dict[Block, list[Op]] = {}
        self.current: Block = self.function.body
        self.made: dict[tuple[Value, Layout], Value] = {}
        self.branch: Layout | None = None
        """Inside a branch of single threads: the layout of the branch's condition. This layout determines which element
        each thread handles."""

    def find_homes(self, block: Block) -> None:
        for arg in block.args:
            self.home[arg] = block
        for op in block.ops:
            for result in op.results:
                self.home[result] = block
            for region in op.regions:
                self.find_homes(region)

    def block(self, block: Block) -> None:
        outer, self.current = self.current, block
        self.out[block] = []
        old = block.ops
        for op in old:
            self.visit(op)
        block.ops = self.out.pop(block)
        self.current = outer

    def emit(self, op: Op, at: Block | None = None) -> Op:
        self.out[at or self.current].append(op)
        return op

    def get(self, value: Value, layout: Layout | None) -> Value:
        """Returns `value` in `layout`. Converts or recomputes it if necessary."""
        if not isinstance(value.type, TileType) or not value.tile.shape or layout is None:
            return self.map.get(value, value)
        if self.is_cheap(value) and value not in self.pinned:
            return self.materialise(value, layout)
        have = self.map.get(value)
        assert have is not None, value
        if value in self.views or have.tile.layout == layout:
            return have
        key = (value, layout)
        if key not in self.made:
            if self.is_cheap(value):
                return self.materialise(value, layout)
            # A value is converted where it is made, not where it is used: otherwise each iteration of a loop would
            # convert it again.
            home = self.home[value] if self.home[value] in self.out else self.current
            type, loc = have.tile.with_layout(layout), have.op.loc if have.op else None
            converted = Op(CONVERT, [have], [type], {"layout": layout}, (), loc)
            converted.result.stands_for(value)
            self.emit(converted, home)
            self.made[key] = converted.result
        return self.made[key]

    def materialise(self, value: Value, layout: Layout) -> Value:
        """Returns a cheap tile in `layout`. It is recomputed in the block in which it was first defined."""
        key = (value, layout)
        if key not in self.made:
            op = value.op
            assert op is not None
            operands = [self.get(o, need) for o, need in zip(op.operands, in_one(op, layout)[0], strict=True)]
            made = Op(op.spec, operands, [value.tile.with_layout(layout)], dict(op.attrs), (), op.loc)
            made.result.stands_for(value)
            self.analysis.equal(made.result, value)
            self.emit(made, self.home[value])
            self.made[key] = made.result
        return self.made[key]

    def visit(self, op: Op) -> None:
        if op.results and op.spec.pure and op.result.tile.shape and self.is_cheap(op.result):
            if op.result in self.pinned:
                self.map[op.result] = self.materialise(op.result, self.layouts[op.result])
            return
        if op.spec.control.flows:
            self.control(op)
            return
        if op in self.replaced:
            return
        if op.results and op.result in self.views:
            self.view(op.result, self.views[op.result])
            return
        wanted, lying = op.spec.placement.place(self, op)
        operands = [self.get(o, layout) for o, layout in zip(op.operands, wanted, strict=True)]
        # operations in regions may use scalars of the kernel
        for inner in inside(op):
            inner.operands = [self.map.get(o, o) for o in inner.operands]
        types = [
            r.tile.with_layout(layout) if isinstance(r.type, TileType) else r.type
            for r, layout in zip(op.results, lying, strict=True)
        ]
        if op in self.wgmma:
            made = self.wgmma[op].of(op, operands, op.result.tile.with_layout(lying[0]))
        else:
            made = Op(op.spec, operands, types, op.attrs, op.regions, op.loc)
        self.replace(op, made)

    def replace(self, op: Op, made: Op) -> None:
        """Emits the operation `made` in place of `op`."""
        for old, new in zip(op.results, made.results, strict=True):
            new.stands_for(old)
            self.map[old] = new
        self.emit(made)
        # If the operation produces a pinned result in another layout, the result is converted here. All uses then have
        # the pinned layout.
        for old, new in zip(op.results, made.results, strict=True):
            if old in self.pinned and new.tile.layout != self.layouts[old]:
                self.map[old] = self.get(old, self.layouts[old])

    def view(self, value: Value, staged: StagedOperand) -> None:
        """Emits the view that replaces an operand of a wgmma."""
        wanted, _ = in_one(staged.load, self.chosen(staged.load.result))
        operands = [self.get(o, layout) for o, layout in zip(staged.load.operands, wanted, strict=True)]
        made = staged.view(operands, value.dtype)
        made.result.take_name(value)
        self.map[value] = self.emit(made).result

    def of_branch(self, value: Value) -> Layout | None:
        """Returns the layout of a tile inside a branch whose condition is a tile. A thread runs the branch for its own
        elements of the condition, so the thread must hold the same elements of the tile. Elements are matched in
        row-major order. Returns None if the tile does not have as many elements as the condition."""
        if self.branch is None or prod(value.tile.shape) != prod(self.branch.shape):
            return None
        return self.branch.reshape(value.tile.shape)

    def chosen(self, value: Value) -> Layout | None:
        """Returns the layout of a value at the current place of the rewrite."""
        return self.of_branch(value) or self.layouts.get(value)

    # ---- accesses ----

    def access_layout(self, op: Op) -> Layout:
        return access_layout(self.analysis, op, self.warps)

    def widest(self, op: Op, layout: Layout | None) -> Layout | None:
        """Returns the layout of a load or store, with registers in the order that makes the access widest. Each thread
        keeps its elements. For a transposed store, for example, only their order changes. Operands of MMAs keep their
        layout for `ldmatrix`."""
        if layout is None or op.attrs.get("matrix"):
            return layout
        offset = offset_of(op)

        def requests(lying: Layout | None) -> int:
            layout = self.access_layout(op) if lying is None else lying
            return layout.count // vector_width(self.analysis, op, offset, op.operands[0], layout)

        runs = self.analysis.of(offset).run
        options: dict[str, Layout | None] = {"given": layout}
        # Operands of MMAs keep their order, even if the access looks narrow: `ldmatrix` moves whole matrices. With
        # plain loads instead, matrix products take 1.24 to 1.80 times as long (docs/measurements.md).
        if not any(r in self.operands for r in op.results):
            turned = {f"first{axis}": layout.with_first(axis) for axis, run in enumerate(runs) if run > 1}
            options |= {name: lying for name, lying in turned.items() if lying != layout}
        rule = min(options, key=lambda name: requests(options[name])) if len(options) > 1 else "given"
        if self.branch is None and op.results:  # in a branch of single threads, the condition determines the layout
            options["own"] = None  # computed only if this option is chosen
        taken = self.function.choices.choose(
            "access",
            subject_of(op),
            options,
            rule,
            loc=op.loc,
            because=f"as {_quoted(moved_by(op))} lies, registers in the order with the fewest accesses",
            costs=lambda: {name: requests(lying) for name, lying in options.items()},
            unit="accesses a thread",
        )
        return self.access_layout(op) if taken is None else taken

    def copy_layout(self, op: Op) -> Layout:
        return self.copies.get(op) or copy_layout(self.function, self.analysis, op)

    # ---- loops and branches ----

    def control(self, op: Op) -> None:
        outer, decides = self.branch, parting(op)
        layout = None if decides is None else self.enter_branch(op, decides)
        results = [self.chosen(r) for r in op.results]
        first = op.spec.control.leading
        operands = [self.get(o, layout) for o in op.operands[:first]]
        # a branch of single threads has no carried operands
        operands += [self.get(o, r) for o, r in zip(op.operands[first:], results, strict=False)]
        for region in op.regions:
            for arg, given in zip(region.args[op.spec.control.counters :], results, strict=False):
                arg.type = arg.tile.with_layout(given)
                self.map[arg] = arg
        for region in op.regions:
            self.rebuild_region(region, results, layout)
        self.branch = outer
        types = [r.tile.with_layout(layout) for r, layout in zip(op.results, results, strict=True)]
        attrs = dict(op.attrs)
        if "types" in attrs:
            attrs["types"] = types
        made = Op(op.spec, operands, types, attrs, op.regions, op.loc)
        if decides is not None and layout is not None and layout.count > 1:
            self.check_branch(op, decides, layout, results)
        self.replace(op, made)

    def enter_branch(self, op: Op, decides: Value) -> Layout:
        """Returns the layout of a branch condition that is a tile. The operations inside get the same layout in three
        cases: a thread holds one element of the condition, the branch is a loop, or the branch contains a load. If a
        thread holds several elements, the loads are masked."""
        layout = self.branch_layout(op, decides)
        loads = any(o.spec.access.kind == "read" for o in inside(op))
        if layout.count == 1 or op.spec.control.loops or loads:
            self.branch = layout
        if layout.count > 1:
            mask_loads(self, op, decides, layout)
        return layout

    def check_branch(self, op: Op, decides: Value, layout: Layout, results: list[Layout | None]) -> None:
        """Raises TileError `layout` if a branch contains a layout conversion, or if its results have another layout
        than its condition. Threads would then exchange data in a branch that some of them never enter."""
        converts = any(o.spec is CONVERT for o in inside(op))
        if converts or any(result != layout for result in results):
            self.refuse_branch(op, decides, layout)

    def rebuild_region(self, region: Block, results: list[Layout | None], condition: Layout | None) -> None:
        outer, self.current = self.current, region
        self.out[region] = []
        for op in region.ops[:-1]:
            self.visit(op)
        end = region.ops[-1]
        operands = [self.get(o, condition) for o in end.operands[: end.spec.control.leading]]
        operands += [self.get(o, layout) for o, layout in zip(handed_on(region), results, strict=True)]
        self.emit(Op(end.spec, operands, [], end.attrs, (), end.loc))
        region.ops = self.out.pop(region)
        self.current = outer

    def branch_layout(self, op: Op, condition: Value) -> Layout:
        """Returns the layout of `condition`, a tile that decides a branch or loop. The layout must have one element per
        thread, unless all operations inside are free of effects (loads count as free)."""
        shape = condition.tile.shape
        layout = self.chosen(condition)
        results = [r for o in inside(op) for r in o.results if r in self.pinned and prod(r.tile.shape) == prod(shape)]
        pinned = {r: self.layouts[r].reshape(shape) for r in results} if self.of_branch(condition) is None else {}
        if pinned:  # the condition can be converted to the layout of a pinned value, but not vice versa
            layout = next(iter(pinned.values()))
            self.refuse_pins(op, pinned, layout)
        if layout is None:
            values = [v for o in inside(op) for v in (*o.operands, *o.results) if v in self.layouts]
            within = [self.layouts[v] for v in values if v.tile.shape == shape]
            layout = within[0] if within else Layout.default(shape, self.warps)
        if layout.count != 1:
            self.check_elements(op, condition, layout)
        joint = [o for o in inside(op) if o.spec.joins_lanes]
        if joint and not self.keeps_warps(condition, layout):
            message = f"{joint[0].name} in a branch that divides warps in this layout: some lanes never arrive"
            hint = "lay the condition out so that 32 neighbours are the lanes of a warp"
            raise TileError("layout", joint[0].loc, message, hint)
        return layout

    def check_elements(self, op: Op, condition: Value, layout: Layout) -> None:
        """Raises TileError `layout` if a branch contains an operation that is not allowed there. A thread holds several
        elements of the condition."""
        shape = condition.tile.shape
        loads = [o for o in inside(op) if o.spec.access.kind == "read"]
        plain = all(
            o.spec.pure
            or o.spec.control.ends
            or (o.spec.control.flows and not (o.spec.control.loops and parting(o) is not None))
            for o in inside(op)
            if o.spec.access.kind != "read"
        )
        if not plain or any(r.tile.shape != shape for r in op.results):
            self.refuse_branch(op, condition, layout)
        for load in loads:
            why = obstacle(self.function, load, shape)
            if why is not None:
                self.refuse_branch(op, condition, layout, f"that {why}")

    def refuse_pins(self, op: Op, pinned: dict[Value, Layout], layout: Layout) -> None:
        """Raises TileError `layout` if a branch whose condition is a tile contains pinned values in different layouts.
        In such a branch, no value can move to another thread, so all values have the layout of the condition."""
        if layout.count != 1:
            return
        for value, other in pinned.items():
            if other != layout:
                first, pin = next(iter(pinned)).name, self.function.pins.get(value.name or "")
                message = f"'{value.name}' lies in another layout than '{first}', and a branch of threads holds both"
                hint = "give both the same layout, or compute one of them before the branch"
                raise TileError("layout", op.loc if pin is None else pin.loc, message, hint)

    def keeps_warps(self, condition: Value, layout: Layout) -> bool:
        """Whether all lanes of a warp hold the same value of the condition."""
        same = self.analysis.of(condition).same
        return all(c < group for basis in layout.lane for c, group in zip(layout.coordinates(basis), same, strict=True))

    def refuse_branch(
        self, op: Op, condition: Value, layout: Layout, what: str = "with effects or loops of threads in it"
    ) -> NoReturn:
        held = f"{condition.tile} has {layout.count} on {self.function.threads} threads"
        message = f"a tile '{op.name}' {what} needs one element a thread; {held}"
        way = "masks" if op.spec.control.loops else "where()"
        raise TileError("layout", op.loc, message, f"use {way}, or a tile as large as the block has threads")


def _quoted(value: Value) -> str:
    return "its value" if value.name is None else f"'{value.name}'"
