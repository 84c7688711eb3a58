"""One variant of a kernel: its IR for given types, constants and facts about dims, and the conditions that a launch
checks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from math import inf, isinf, lcm, prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.kernels.build import KernelBuilder, assigned_names
from dsl.kernels.commits import repeated_commits
from dsl.kernels.request import MAX_DIVISOR, Request
from dsl.kernels.request import stride_class as stride_class
from dsl.lowering.hopper.warpgroup import INSTRUCTION
from dsl.lowering.ir.budget import Budget
from dsl.lowering.ir.choices import is_key
from dsl.lowering.ir.function import Function, Parameter, Value, replace_uses, stride_name, walk
from dsl.lowering.ir.limits import most_elements
from dsl.lowering.ir.location import Errors, Loc, TileError, closest
from dsl.lowering.ir.nesting import deep_recursion
from dsl.lowering.ir.targets import Target, target
from dsl.lowering.ir.types import (
    DTYPES,
    FP8,
    INDEX,
    DType,
    TableType,
    TensorType,
    TileType,
    nearest_number,
    type_hint,
)
from dsl.lowering.known.facts import Analysis
from dsl.lowering.layouts.layout import row_major
from dsl.lowering.plan.products import drop_boxes, has_wgmma, may_plan, plan
from dsl.lowering.text.level import LevelCondition
from dsl.runtime.numbers import in_json
from dsl.schedules import (
    Definition,
    Points,
    ResolvedSchedule,
    ScheduleRequest,
    costs_of_points,
    launch_facts,
    resolve_schedule,
    schedule_points,
    target_facts,
    tensor_names,
)
from dsl.schedules.rules import missed_form, multiplies
from dsl.text import tree as ast
from dsl.text.program import Program, dim_names, tiles_of
from dsl.text.tree import names_in
from dsl.values.arithmetic import pow2_divisor
from dsl.values.bindings import Absent, Table, Tensor
from dsl.values.fast_math import void_uncalled
from dsl.values.numbers import Numbers, default_type
from dsl.values.table import Builtin, find
from dsl.values.trees import to_tree

if TYPE_CHECKING:
    from dsl.runtime.expressions import Expression

HOST_FACTS = ("sms",)


class Variant(Struct, dict=True):
    """The tile IR of a kernel for one request, with its schedule and its launch conditions (`requires`). The conditions
    in `of_class` hold for all requests that share the variant: those of divisors and strides."""

    request: Request
    target: Target
    function: Function
    schedule: ResolvedSchedule
    constants: dict[str, int | float | bool | str]
    stated: list[LevelCondition]
    of_class: list[LevelCondition]
    tables: dict[str, int]

    @property
    def requires(self) -> list[LevelCondition]:
        return [*self.stated, *self.of_class]

    @property
    def grid(self) -> list[Any]:
        """The extents of the grid, as expression trees of the header."""
        return self.function.grid

    @cached_property
    def limits(self) -> list[tuple[Expression | None, str]]:
        """The conditions of a launch that another schedule may not have, each with its text: those of the file, and
        that the grid is a whole number of clusters. Calls with new extents check them, so they are compiled once."""
        # An `assert` with a message tells the caller of a mistake, which no other schedule mends.
        stated = [(each.expr, f"requires {each.text} ({each.place})") for each in self.stated if each.hint is None]
        if (size := self.function.blocks_of_cluster) > 1:
            tree = ["==", ["%", self.grid[0], size], 0]
            stated.append((tree, f"its grid is no multiple of its clusters of {size} blocks"))
        return [(_compiled(tree), text) for tree, text in stated]


def _compiled(tree: Any) -> Expression | None:
    from dsl.runtime.expressions import ExpressionError, compile_expression

    try:
        return compile_expression(tree)
    except ExpressionError:  # too large an expression
        return None


def plain_of(constants: Mapping[str, Any]) -> dict[str, Any]:
    """Converts constants for a header. Numbers are kept, and a function is replaced by its name."""
    kept = int | float | bool | ast.Def | Builtin
    known = {name: value for name, value in constants.items() if isinstance(value, kept)}
    return {name: value.name if isinstance(value, ast.Def | Builtin) else value for name, value in known.items()}


def _decided(tree: Any, constants: Mapping[str, Any]) -> Any:
    """Simplifies an expression tree. If the condition of a `where` is constant, the chosen operand replaces the
    `where`. In a persistent kernel, the device evaluates the simplified tree."""
    from dsl.runtime.expressions import compile_expression

    if not isinstance(tree, list):
        return tree
    if tree[0] == "where" and (condition := compile_expression(tree[1])).names <= constants.keys():
        return _decided(tree[2 if condition.evaluate(constants) else 3], constants)
    return [tree[0], *(_decided(each, constants) for each in tree[1:])]


def source_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def build_variant(
    program: Program, request: Request, budget: Budget | None = None, resolved: Resolved | None = None
) -> Variant:
    """Resolves names, types and constants, and builds the kernel's body. Raises TileError, or Errors with all mistakes.
    `budget` replaces the usual limit on the number of building steps. `resolved` is the request's resolved schedule, if
    it is known."""
    with deep_recursion():
        return _Variant(program, request).build(budget, resolved)


def resolve(program: Program, request: Request, points: Points | None = None, may_share: bool = False) -> Resolved:
    """Evaluates a request's schedule without building the kernel. `points` are the combinations of `tune` values in
    order of cost, if they were already computed. With `may_share`, the schedule may be that of an earlier request with
    the same code. Raises the same TileErrors as `build_variant`."""
    return _Variant(program, request).resolve(points, may_share)


def points_of(program: Program, request: Request) -> Points | None:
    """Returns the combinations of `tune` values in a request's schedule, cheapest first. Returns None if the schedule
    states no cost. Raises TileError."""
    return schedule_points(program, _Variant(program, request).known())


def costs_of(
    program: Program, request: Request, points: Sequence[Mapping[str, Any]], numbers: Mapping[str, float]
) -> list[float] | None:
    """Returns the cost in microseconds of a request with the constants of each point in place of its own, on a device
    with these numbers. Returns None if the schedule states no cost. Raises TileError."""
    known = _Variant(program, replace(request, constants=points[0])).known()
    return costs_of_points(program, replace(known, facts={**known.facts, **numbers}), points)


def _assigned_in_branches(program: Program, kernel: str) -> frozenset[str]:
    branches = [node for node in ast.walk(program.kernels[kernel].body) if isinstance(node, ast.If)]
    return frozenset(assigned_names([*branches]))


class Resolved(Struct, dict=True):
    """A schedule evaluated for the dims and scalars of a request. `constants` maps names to numbers and functions.
    `special` maps specialised dims and scalars to their values. `divisors` maps dims to known divisors, on which the
    code may depend. `family` contains everything else that the code depends on. `is_own` is False if the schedule is
    that of an earlier request."""

    request: Request
    schedule: ResolvedSchedule
    constants: dict[str, Any]
    special: dict[str, Any]
    index_bits: int
    is_large: bool
    is_empty: bool
    divisors: dict[str, int]
    is_own: bool = True

    @cached_property
    def family(self) -> tuple:
        """A hashable key. Two requests have the same key if their code can differ only because of the divisors of
        dims."""
        schedule, request = self.schedule, self.request
        # A choice that the caller forces replaces the schedule's choice.
        choices = {**{key: forced.option for key, forced in schedule.choices.items()}, **request.choices}
        parts = (self.special, request.types, request.align, choices)
        # For strides, the key contains only the axis of stride 1 and the signs. The strides' divisors are in
        # `divisors`.
        units = sorted((name, strides.index(1)) for name, strides in request.strides.items() if 1 in strides)
        signs = sorted((name, [stride < 0 for stride in strides]) for name, strides in request.strides.items())
        plain = (request.kernel, request.schedule, sorted(request.absent), request.arch, request.sms)
        around = (request.follows, request.leads, self.is_empty)
        own = (*plain, *around, units, signs, request.strict_bounds, request.marks, self.index_bits)
        return repr((own, *(sorted(part.items()) for part in parts))), self.text_of_schedule

    @property
    def text_of_schedule(self) -> str:
        """What the code depends on in the schedule, except for the choices."""
        schedule = self.schedule
        if schedule.text is None:
            constants = {**schedule.constants, **self.constants}
            named = {n: v.name if isinstance(v, ast.Def | Builtin) else v for n, v in constants.items()}
            pins = {n: pin.parts for n, pin in schedule.pins.items()}
            instructions = {n: named.name for n, named in schedule.instructions.items()}
            swizzles = {n: pin.bits for n, pin in schedule.swizzles.items()}
            parts = (named, pins, instructions, swizzles, schedule.attrs)
            schedule.text = repr((schedule.warps, *(sorted(part.items()) for part in parts)))
        return schedule.text


class Unset(TileError):
    """The error for a kernel's constant that nothing sets."""


def as_parameter(value: Any, dtype: DType) -> Any:
    """Converts a number to a value of a scalar parameter's type, `dtype`. A float is rounded once. A value that is too
    large, or that is no Python number, is returned unchanged. The launch refuses such a value."""
    if not dtype.is_float or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    # Converting to bf16 through f32 would round twice: 1 + 2^-8 + 2^-40 would become 1.
    near = nearest_number(value, dtype)
    return value if isinf(near) and abs(value) != inf else near


class _Variant:
    def __init__(self, program: Program, request: Request):
        self.program, self.request = program, request
        self.kernel = program.kernel(request.kernel)
        self.target = target(request.arch)
        self.head = program.head(request.kernel)
        self.dim_names = self.head.dims
        self.constant_names = {*self.head.types, *self.head.constants}
        self.types = self._types()
        known = program.settable(self.kernel.name)
        unknown = {name for name in request.constants.keys() - known if not is_key(name)}
        if unknown:
            name = sorted(unknown)[0]
            raise TileError("name", None, f"kernel '{self.kernel.name}' has no constant '{name}'", closest(name, known))

    def _types(self) -> dict[str, DType]:
        out: dict[str, DType] = {}
        for constant in self.kernel.constants:
            if constant.types is None:
                continue
            for name in constant.types:
                if name not in DTYPES:
                    raise TileError("type", constant.loc, f"unknown type '{name}'", closest(name, DTYPES))
            # The default is evaluated also where it is not needed, since a mistake in it is one of the file.
            default = default_type(constant.default, out, constant.types)
            # Without arrays and without a default, as in `m.compile(…)`, the first alternative is as good as another.
            chosen = self.request.types.get(constant.name, default or constant.types[0])
            if chosen not in constant.types:
                choices = ", ".join(constant.types)
                raise TileError("type", constant.loc, f"'{constant.name}' is one of {choices}; not {chosen}")
            out[constant.name] = DTYPES[chosen]
        return out

    def known(self) -> ScheduleRequest:
        kernel, request = self.kernel, self.request
        facts = launch_facts(kernel, self.target, request.sms, request.device, request.absent, request.strides)
        scalars = {n: self._as_parameter(n, request.scalars[n]) for n in self.head.scalars if n in request.scalars}
        return ScheduleRequest(kernel, request.schedule, request.dims, self.types, facts, request.constants, scalars)

    def resolve(self, points: Points | None = None, may_share: bool = False) -> Resolved:
        request, dims = self.request, dict(self.request.dims)
        known = self.known()
        schedule, scalars = resolve_schedule(self.program, known, points, may_share), known.scalars
        if prod(schedule.attrs.get("cluster", ())) > 1 and (flaw := self.target.flaw_of_clusters):
            raise TileError("target", schedule.places["cluster", None], flaw, "cluster 1 is no cluster")
        for name, parts in schedule.attrs.get("split", {}).items():
            if parts < 0 and (flaw := self.target.flaw_of_clusters):
                raise TileError("target", schedule.places["split", name], flaw, f"split {name}: {-parts}, memory")
        constants = self._constants(schedule)
        special = self._specialised(schedule, dims, scalars)
        is_large = self._is_large(dims)
        index_bits = request.index_bits or (64 if is_large else 32)
        divisors = self._divisors(dims, special, constants, schedule)
        is_empty = 0 in dims.values()
        return Resolved(
            request, schedule, constants, special, index_bits, is_large, is_empty, divisors, schedule.request is known
        )

    def build(self, budget: Budget | None = None, resolved: Resolved | None = None) -> Variant:
        kernel, request = self.kernel, self.request
        resolved = resolved or self.resolve()
        schedule, constants, special = resolved.schedule, resolved.constants, resolved.special
        builder = KernelBuilder(kernel, self.program.functions)
        function = builder.function = self._function(resolved, builder)
        builder.ir.budget = budget or builder.ir.budget
        builder.multiplies = self.program.once(multiplies, kernel.name)
        # No tensor map describes an empty array, so calls with an empty array are not planned.
        plans = may_plan(self.target) and not resolved.is_empty
        builder.finds_boxes = builder.multiplies and plans
        self._parameters(builder, function, constants, special)
        function.divisors = {name: self._divisor(function, name, most) for name, most in resolved.divisors.items()}
        specialised = {name: min(pow2_divisor(n), MAX_DIVISOR) for name, n in special.items() if name in self.dim_names}
        function.divisors |= {name: divisor for name, divisor in specialised.items() if divisor > 1}
        builder.facts = builder.ir.facts = Analysis(function)
        self._names(builder, function, constants, special)
        body = list(kernel.body)
        if not body or not isinstance(body[0], ast.Grid):
            raise TileError("syntax", kernel.loc, "a kernel starts with its grid", "for example: grid cdiv(n, BLOCK)")
        try:
            function.grid = self._grid(body[0], builder, constants, special)
            function.constants = plain_of(constants)
            function.extents = {name: value for name, value in special.items() if name in self.dim_names}
        except TileError as error:
            builder.errors += error.errors
        builder.statements(body[1:], collect=True)
        # Runs once per program, because the check reads only the text, which all variants share.
        builder.errors += self.program.once(repeated_commits, kernel.name)
        if builder.errors:
            raise Errors(builder.errors)
        # Dims that are equal in every launch become the same value, so that their conditions and strides fold.
        replace_uses(function.body, builder.same_dims)
        builder.end_of_build(function.body)
        void_uncalled(function)
        function.body.args = [
            *(p.value for p in function.params if p.value is not None),
            *(s for p in function.params for s in p.strides),
            *function.dims.values(),
        ]
        plain = plain_of({**schedule.constants, **constants})
        plain |= {n: t.name for n, t in self.types.items()}
        self.target = plan(function, self.target, schedule.may_set_warps, plans)
        if builder.finds_boxes and not has_wgmma(function):
            drop_boxes(function)
        plain["warps"] = function.warps
        conditions = self._stated(builder, schedule, function, special, plain), self._of_class(function, special)
        tables = {p.name: p.length for p in function.params if p.kind == "table"}
        return Variant(request, self.target, function, schedule, plain, *conditions, tables)

    def _function(self, resolved: Resolved, builder: KernelBuilder) -> Function:
        """Makes the IR function, still without parameters, with the settings of the schedule and the request."""
        kernel, request, schedule = self.kernel, self.request, resolved.schedule
        function = Function(kernel.name, [], {}, builder.ir.block, schedule.warps, resolved.index_bits, loc=kernel.loc)
        function.attrs.update(schedule.attrs)
        if request.strict_bounds:
            function.attrs["strict_bounds"] = True
        if request.marks:
            function.attrs["marks"] = request.marks
        if request.follows is not None:
            function.attrs["follows"] = dict.fromkeys(request.follows, True)
        if request.leads:
            function.attrs["leads"] = True
        function.pins = schedule.pins
        function.instructions = schedule.instructions
        function.swizzles = schedule.swizzles
        function.lines = schedule.lines
        function.choices.plugins = self.program.plugins
        function.choices.forced |= schedule.choices
        # A call has several kernels, and a key belongs to one of them. The caller checks that each key matched some
        # kernel.
        function.choices.force(request.choices, "--choose", must=False)
        function.choices.forced |= request.retreats
        large = resolved.is_large or request.index_bits == 64
        function.index_bits = function.choices.choose(
            "index",
            "bits",
            {"64": 64} if large else {"32": 32, "64": 64},
            str(resolved.index_bits),
            because="a tensor reaches over more elements than 32 bits count"
            if large
            else "no tensor is too large for 32 bits",
        )
        function.in_branches = self.program.once(_assigned_in_branches, kernel.name)
        return function

    def _names(
        self, builder: KernelBuilder, function: Function, constants: dict[str, Any], special: dict[str, Any]
    ) -> None:
        """Binds constants, types and specialised dims in the kernel's scope. Sets `host_names`, the names in
        expressions that the host can evaluate."""
        scope = builder.scope.names
        for name, value in constants.items():
            scope[name] = builder.closure_named(value.name) if isinstance(value, ast.Def) else value
        scope.update(self.types)
        scope.update({name: extent for name, extent in special.items() if name in self.dim_names})
        builder.host_names = {
            **dict.fromkeys(function.dims),
            **{n: None for n, v in constants.items() if not isinstance(v, ast.Def | Builtin)},
            **{p.name: None for p in function.params if p.kind == "scalar"},
            **dict.fromkeys(self.types),
            **special,
        }

    # ---- constants and specialisation ----

    def _constants(self, schedule: ResolvedSchedule) -> dict[str, Any]:
        out: dict[str, Any] = {}
        unset: list[Unset] = []
        for constant in self.kernel.constants:
            if constant.types is not None:
                continue
            if constant.name in schedule.constants:
                out[constant.name] = schedule.constants[constant.name]
            else:
                hint = f"set it in a schedule of '{self.kernel.name}', or give {constant.name}=VALUE"
                form = self.program.once(missed_form, self.kernel.name, constant.name)
                if form and not any(form in (other.hint or "") for other in unset):
                    hint += f"; {form}"
                unset.append(Unset("constant", constant.loc, f"constant '{constant.name}' is not set", hint))
                continue
            if isinstance(out[constant.name], str):
                out[constant.name] = self.program.function(out[constant.name]) or find(out[constant.name])
            if not isinstance(out[constant.name], bool | int | float | ast.Def | Builtin):
                raise TileError("constant", constant.loc, f"constant '{constant.name}' is a number or a function")
        # Reports all missing constants at once.
        if unset:
            raise Errors([*unset])
        return out

    def _specialised(
        self, schedule: ResolvedSchedule, dims: dict[str, int], scalars: Mapping[str, Any]
    ) -> dict[str, Any]:
        out: dict[str, Any] = {}
        scalar_names = self.head.scalars
        for name in (name for name, holds in schedule.specialize.items() if holds):
            loc = schedule.places["specialize", name]
            if name not in self.dim_names and name not in scalar_names:
                known = {*self.dim_names, *scalar_names}
                raise TileError(
                    "name", loc, f"'{name}' is no dim or scalar of '{self.kernel.name}'", closest(name, known)
                )
            if name in dims:
                out[name] = dims[name]
            elif name in scalars:
                if not isinstance(scalars[name], bool | int | float):
                    raise TileError("call", scalar_names[name].loc, f"'{name}' is a number; got {scalars[name]!r:.40}")
                out[name] = scalars[name]
            else:
                raise TileError("constant", loc, f"'{name}' is specialised but not known", f"give {name}=VALUE")
        return out

    def _as_parameter(self, name: str, value: Any) -> Any:
        parameter = self.head.scalars[name]
        assert isinstance(parameter.type, ast.ScalarType)
        return as_parameter(value, self._dtype(parameter.type.dtype, parameter.loc))

    def _is_large(self, dims: Mapping[str, int]) -> bool:
        """Whether a tensor has more elements than 32 bits can count."""
        for array in self.head.arrays.values():
            extents = [dims.get(d, 1) if isinstance(d, str) else d or 1 for d in array.dims]
            # Each extent is also checked alone, because another extent may be 0.
            if max(prod(extents), *extents) > most_elements(32):
                return True
        return False

    def _rows_of_boxes(self, schedule: ResolvedSchedule) -> set[str]:
        """Returns the first dims of some tensors: those that TMA may copy and that are contiguous along their first
        dim."""
        # The plan of matrix products is made later. It may use TMA for any strided tensor of a kernel with a matrix
        # product.
        by_itself = may_plan(self.target) and self.program.once(multiplies, self.kernel.name)
        said = schedule.attrs.get("stage", {})
        moved = (p.name for p in self.kernel.params if said.get(p.name, "tma" if by_itself else "") == "tma")
        return {
            first
            for name in moved
            if self.request.strides.get(name, ())[:1] == (1,)
            and isinstance(first := self.head.arrays[name].dims[0], str)
        }

    def _divisors(
        self, dims: dict[str, int], special: dict[str, Any], constants: dict[str, Any], schedule: ResolvedSchedule
    ) -> dict[str, int]:
        """Returns the divisors of dims and strides on which the code may depend. These are dims that decide the widths
        of accesses (`KernelHead.widths`), dims of TMA boxes, and multiples of a tile, which need no mask.

        In a product by `wgmma`, a number of rows counts as no multiple of the grid's tile. TMA needs no mask of rows,
        and the other masks of rows are not in the loop over k. With k = 4096, they take 0.1 to 1.1 % of the
        instructions, or 2.2 % if a residual is added. Without them, each tile would be compiled a second time, since
        the number of rows (of samples or tokens) changes from call to call. In a product by `mma.sync`, they need
        registers, and large tiles would spill."""
        widths = self.head.widths(self.request.absent) | self._rows_of_boxes(schedule)
        strides = {
            stride_name(name, axis): stride
            for name, of_axes in self.request.strides.items()
            for axis, stride in enumerate(of_axes)
            if pow2_divisor(stride) > 1
        }
        wide = {
            name: min(pow2_divisor(extent), MAX_DIVISOR)
            for name, extent in dims.items()
            if name in widths and name not in special and pow2_divisor(extent) > 1
        }
        by_wgmma = any(named.name[0] == INSTRUCTION for named in schedule.instructions.values())
        evaluate = Numbers({**constants, **special, **self.types})
        for name, node, is_of_loop in self.program.once(tiles_of, self.kernel.name):
            if by_wgmma and not is_of_loop and name not in widths:
                continue
            tile = _tile(node, evaluate) if name in dims and name not in special else None
            # A dim that is a multiple of its tile needs no mask at the edge.
            if tile is not None and dims[name] % tile == 0 and name in self.dim_names:
                wide[name] = lcm(wide.get(name, 1), tile)
        return strides | wide

    def _divisor(self, function: Function, name: str, most: int) -> int:
        power = min(pow2_divisor(most), MAX_DIVISOR)
        # Every smaller power of two is also a valid divisor. With `--choose`, a user can try smaller divisors, and so
        # narrower accesses.
        options = {str(each): each for each in (most, *(power >> i for i in range(power.bit_length())))}
        why = "its tiles, and its known divisor up to 16"
        return function.choices.choose("divisor", name, options, str(most), because=why, loc=self.kernel.loc)

    # ---- parameters ----

    def _parameters(
        self, builder: KernelBuilder, function: Function, constants: dict[str, Any], special: dict[str, Any]
    ) -> None:
        scope = builder.scope.names
        bound = dim_names(self.kernel, self.request.absent)
        for name in self.dim_names:
            if name not in bound:
                scope[name] = Absent(name)
            elif name not in special and name not in constants:
                value = Value(TileType((), INDEX), name=name)
                function.dims[name] = value
                scope[name] = value
        errors: list[TileError] = []
        for p in self.kernel.params:
            try:
                self._parameter(builder, function, p, constants, special)
            except TileError as error:
                errors += error.errors
        if errors:
            raise Errors(errors)

    def _parameter(
        self,
        builder: KernelBuilder,
        function: Function,
        p: ast.KernelParameter,
        constants: dict[str, Any],
        special: dict[str, Any],
    ) -> None:
        scope = builder.scope.names
        if p.name in scope or p.name in self.constant_names or p.name in {q.name for q in function.params}:
            raise TileError("name", p.loc, f"'{p.name}' is declared twice", "each parameter has a name of its own")
        if isinstance(p.type, ast.TensorAnnotation):
            self._tensor(builder, function, p, p.type, constants, special)
        elif isinstance(p.type, ast.ScalarType):
            dtype = self._dtype(p.type.dtype, p.type.loc)
            self._refuse_fp8(p, dtype)
            if p.name in special:
                function.params.append(Parameter("scalar", p.name, dtype, None, loc=p.loc))
                # The name gets a constant of the parameter's type instead of a Python number. For u8, 255 and 1 add up
                # to 0, as without `specialize`.
                scope[p.name] = builder.literal(special[p.name], dtype, p.loc)
                return
            value = Value(TileType((), dtype), name=p.name)
            function.params.append(Parameter("scalar", p.name, dtype, value, loc=p.loc))
            scope[p.name] = value
        else:
            dtype = self._dtype(p.type.dtype, p.type.loc)
            self._refuse_fp8(p, dtype)
            length = Numbers({**constants, **special}).integer(p.type.length, "the length of a table")
            # Tables are part of the kernel's parameters, which may take 4,096 bytes on every target. A quarter is left
            # for other parameters.
            if not 1 <= length <= 1024 or length * dtype.bytes > 3072:
                raise TileError("limit", p.loc, f"a table of {length} {dtype}: at most 1024 elements and 3072 bytes")
            value = Value(TableType(length, dtype), name=p.name)
            function.params.append(Parameter("table", p.name, dtype, value, length=length, loc=p.loc))
            scope[p.name] = Table(value, length)

    def _refuse_fp8(self, p: ast.KernelParameter, dtype: DType) -> None:
        if dtype in FP8:
            raise TileError("type", p.loc, f"only tensors have elements of {dtype}", "pass f32, and convert it")

    def _dtype(self, name: str, loc: Loc) -> DType:
        if name in self.types:
            return self.types[name]
        if name in DTYPES and name != "index":
            return DTYPES[name]
        raise TileError("type", loc, f"unknown type '{name}'", type_hint(name, self.types))

    def _tensor(
        self,
        builder: KernelBuilder,
        function: Function,
        p: ast.KernelParameter,
        type: ast.TensorAnnotation,
        constants: dict[str, Any],
        special: dict[str, Any],
    ) -> None:
        dtype = self._dtype(type.dtype, type.loc)
        dims: list[str | int] = []
        extents: list[int | Value] = []
        for d in type.dims:
            if isinstance(d, ast.Name) and isinstance(builder.scope.names.get(d.id), Absent):
                dims.append(d.id)
            elif isinstance(d, ast.Name) and d.id in function.dims:
                dims.append(d.id)
                extents.append(function.dims[d.id])
            elif isinstance(d, ast.Name) and d.id in special:
                dims.append(d.id)
                extents.append(special[d.id])
            else:
                number = Numbers(constants).integer(d, "a literal dim")
                if number < 1:
                    raise TileError("extent", d.loc, f"a dim of {number}")
                dims.append(number)
                extents.append(number)
        if p.name in self.request.absent:
            if not type.optional:
                raise TileError("call", p.loc, f"'{p.name}' is not optional", "declare it with '?' after its type")
            function.params.append(Parameter("tensor", p.name, dtype, None, dims, optional=True, loc=p.loc))
            builder.scope.names[p.name] = Absent(p.name)
            return
        value = Value(TensorType(len(dims), dtype), name=p.name)
        align = self.request.align.get(p.name, 16)
        made = Parameter("tensor", p.name, dtype, value, dims, type.strided, type.optional, align=align, loc=p.loc)
        function.params.append(made)
        strides: list[int | Value] = []
        if type.strided:
            known = self.request.strides.get(p.name, ())
            for axis in range(len(dims)):
                stride = Value(TileType((), INDEX), name=f"{p.name}_stride{axis}")
                made.strides.append(stride)
                # `backward` lists the strides that may be negative. Addresses along other axes can be divided like
                # addresses of row-major tensors.
                if axis >= len(known) or known[axis] < 0:
                    function.attrs.setdefault("backward", {})[stride_name(p.name, axis)] = True  # type: ignore[index]
                strides.append(1 if axis < len(known) and known[axis] == 1 else stride)
        else:
            strides = row_major(extents, partial(_product, builder))
        builder.scope.names[p.name] = Tensor(made, value, extents, strides, axes=tuple(range(len(extents))))

    # ---- what the launch evaluates ----

    def _tree_names(self, builder: KernelBuilder, special: dict[str, Any]) -> dict[str, Any]:
        names: dict[str, Any] = {n: None for n in builder.host_names if n not in self.types}
        names |= dict.fromkeys(HOST_FACTS)
        names |= tensor_names(self.kernel, self.request.absent, self.request.strides)
        return names | {name: in_json(value) for name, value in special.items()}

    def _grid(
        self, node: ast.Grid, builder: KernelBuilder, constants: dict[str, Any], special: dict[str, Any]
    ) -> list[Any]:
        if not 1 <= len(node.extents) <= 3:
            raise TileError("syntax", node.loc, f"a grid has 1 to 3 extents; this has {len(node.extents)}")
        names = self._tree_names(builder, special)
        trees = [_decided(to_tree(e, names, self.types), constants) for e in node.extents]
        return trees + [1] * (3 - len(trees))

    def _stated(
        self,
        builder: KernelBuilder,
        schedule: ResolvedSchedule,
        function: Function,
        special: dict[str, Any],
        constants: dict[str, Any],
    ) -> list[LevelCondition]:
        """Returns the conditions that lines of the kernel and of its schedule state."""
        names = {**self._tree_names(builder, special), **dict.fromkeys(constants)}
        out = []
        facts = target_facts(self.target, self.request.sms, self.request.device)
        scalars = {param.name for param in function.params if param.kind == "scalar"}
        trees = self._dependent(schedule, {**facts, **names}, {*function.dims, *scalars})
        for name, tree in trees.items():
            if name in self.constant_names and name in constants:
                loc = schedule.definitions[name].value.loc
                written = loc.source.text[loc.start : loc.end]
                hint = "another variant is needed for these dims and numbers"
                out.append(self._condition(["==", name, tree], f"{name} == {written}", loc, hint))
        for line in builder.requires:
            written = line.loc.source.text[line.loc.start : line.loc.end]
            out.append(self._condition(to_tree(line.condition, names, self.types), written, line.loc, line.message))
        for name, value in special.items():
            at, is_equal = schedule.places["specialize", name], isinstance(value, int) or value * value > 0
            # Zeros and NaN are compared by `same`, because 0.0 == -0.0 although their variants differ, and NaN equals
            # nothing.
            tree = ["==" if is_equal else "same", name, in_json(value)]
            out.append(self._condition(tree, f"{name} == {value}", at, "specialised"))
        return out

    def _of_class(self, function: Function, special: Mapping[str, Any]) -> list[LevelCondition]:
        """Returns the conditions of divisors and strides, by which `Variants` finds the variant for a request."""
        out = []
        for name, divisor in function.divisors.items():
            # A specialised dim is already checked for equality.
            if divisor == 1 or name in special:
                continue
            tree = ["==", ["%", name, divisor], 0]
            out.append(self._condition(tree, f"{name} % {divisor} == 0", self.kernel.loc))
        for tensor, strides in self.request.strides.items():
            if 1 in strides:
                name = stride_name(tensor, strides.index(1))
                out.append(self._condition(["==", name, 1], f"{name} == 1", self.kernel.loc))
            for axis, stride in enumerate(strides):
                if stride > 1:
                    name = stride_name(tensor, axis)
                    out.append(self._condition([">=", name, 0], f"{name} >= 0", self.kernel.loc))
        return out

    def _condition(self, expr: Any, text: str, loc: Loc, hint: str | None = None) -> LevelCondition:
        own = loc.source.name == self.kernel.loc.source.name
        return LevelCondition(expr, text, loc.line, hint, None if own else loc.source.name)

    def _dependent(self, schedule: ResolvedSchedule, names: Mapping[str, Any], given: set[str]) -> dict[str, Any]:
        """Returns expression trees, for the launch, of the definitions that depend on dims and scalars, `given`, and
        that decide constants of the kernel. In these trees, constants of the kernel remain names. Other names are
        replaced by their trees."""
        out: dict[str, Any] = {}
        # Names that only a cost or a property reads decide no constant, so a launch need not evaluate them.
        wanted, left = set(), [name for name in schedule.definitions if name in self.constant_names]
        while left:
            if (name := left.pop()) not in wanted:
                wanted.add(name)
                definition = schedule.definitions.get(name) or schedule.unasked.get(name)
                left += definition.reads() if definition is not None else ()

        def tree(definition: Definition, known: dict[str, Any]) -> Any:
            # A name after an `and` whose left side was false was not evaluated for this request. The launch may need
            # the name for other dims.
            for name in definition.reads() & schedule.unasked.keys() - known.keys():
                known[name] = None  # ends a cycle of names that nothing evaluated
                known[name] = tree(schedule.unasked[name], known)
            if definition.name in names_in(definition.value):  # the definition reads the one that it replaces
                under = definition.under
                known = known if under is None else {**known, definition.name: tree(under, known)}
            return to_tree(definition.value, known, self.types)

        known = {**names, **{n: v for n, v in schedule.derived.items() if isinstance(v, bool | int | float | DType)}}
        for name, definition in schedule.definitions.items():
            if name in wanted and definition.reads() & (given | out.keys()):
                out[name] = tree(definition, known)
                known[name] = None if name in self.constant_names else out[name]
        return out


def record_access(function: Function) -> None:
    """Sets each tensor parameter's `access` from the effects of the operations that remain in the body."""
    modes: dict[Value, set[str]] = {}
    for op in walk(function.body):
        for effect in op.spec.access.effects(op):
            if effect.kind in ("read", "write"):
                modes.setdefault(effect.memory, set()).add(effect.kind[0])
    for p in function.params:
        if p.kind == "tensor" and p.value is not None:
            p.access = "".join(sorted(modes.get(p.value, {"r"})))


def _tile(node: ast.Expr, evaluate: Numbers) -> int | None:
    """Returns the extent of a tile, if it is above 1 and known before the kernel is built. Returns None otherwise."""
    try:
        value = evaluate(node)
    except TileError:
        return None
    return value if type(value) is int and value > 1 else None


def _product(builder: KernelBuilder, a: int | Value, b: int | Value) -> int | Value:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return builder.ir.value("mul", *(v if isinstance(v, Value) else builder.ir.index(v) for v in (a, b)))
