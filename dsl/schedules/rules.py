"""Default rules for constants that nobody sets. The rules are schedule parts in `dsl/std/defaults.tile`.

The text of a kernel determines its rule: the tiles of its grid and its loops, the extents of its slices, and whether it
multiplies matrices. A constant that the kernel, its schedule or the caller sets keeps its value, and the rule uses this
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache, reduce
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import DTYPES
from dsl.schedules.definitions import Said, collect, said_with_defaults
from dsl.text import tree as ast
from dsl.text.program import STD, Program, dim_names, load
from dsl.text.tree import names_in

Expr = Any
Products = Callable[[Any], bool]
"""Whether a node is a matrix product."""
Loop = tuple[ast.For, Expr, Expr | None]
"""A `range` loop, its end, and the condition under which the kernel has it, or None: always."""


class Rule(Struct, frozen=True):
    """The part of `defaults.tile` that sets a kernel's constants.

    `names` maps names in the part, such as `TM` or `TYPE`, to the kernel's expressions.
    """

    part: str
    names: Mapping[str, Expr]

    @property
    def constants(self) -> set[str]:
        """The kernel's constants that the rule sets."""
        return {each.id for name, each in self.names.items() if isinstance(each, ast.Name) and name not in EXTENTS}


EXTENTS = ("M", "N", "K", "TYPE", "PRODUCTS", "LOOPS", "A_ALONG", "B_ALONG", "A_ROW", "B_ROW")
SOME_K = 2048
"""The extent along k of a product, if the end of its loop is not known."""


def by_rule(program: Program, name: str, schedule: str | None, given: Set[str], dims: Set[str]) -> Said:
    """Returns the definitions and the cost of the kernel's default rule. The rule defines `warps`, and the constants
    that neither the schedule nor the caller sets. `given` contains the names that the caller sets. `dims` contains the
    dims whose extents are known. If the kernel has no rule, the result is empty."""
    kernel, said = program.kernel(name), program.once(said_with_defaults, name, schedule)
    known = {*said.definitions, *given}
    if not {constant.name for constant in kernel.constants} - known:
        return Said()
    rule = program.once(rule_of, name)
    if rule is None or not rule.constants - known:
        return Said()
    names = {**rule.names, "WGMMA": ast.Name(kernel.loc, "false" if _asks_for_warps(said) else "true")}
    unknown = {*dim_names(kernel)} - dims
    for extent, op, other in (("K", "+", SOME_K), ("A_ROW", "|", 0), ("B_ROW", "|", 0)):  # 0: a multiple of everything
        if extent in names:
            names[extent] = _known_terms(names[extent], op, unknown) or ast.Number(kernel.loc, other)
    parts = _parts()
    own = collect(parts, None, parts.parts[rule.part])
    for name, definition in own.definitions.items():
        if name not in names and name != "warps":  # a name of the rule itself: the space avoids clashes
            names[name] = ast.Name(definition.loc, f"{name} of the rule")
    found = Said()
    for name, definition in own.definitions.items():
        if name in EXTENTS:
            continue  # the text of the kernel says it
        renamed = names[name].id if name in names else name
        values = [_renamed(value, names) for value in definition.values]
        if renamed not in known:
            found.definitions[renamed] = replace(definition, name=renamed, values=values)
    for key, setting in own.settings.items():
        found.settings[key] = replace(setting, values=[_renamed(value, names) for value in setting.values])
    return found


def _known_terms(terms: Expr, op: str, unknown: Set[str]) -> Expr | None:
    """Returns the terms without those that contain unknown dims, such as the extents of absent tensors. If none is
    left, returns None."""
    if not names_in(terms) & unknown:
        return terms
    if not isinstance(terms, ast.Binary) or terms.op != op:
        return None
    left, right = (_known_terms(each, op, unknown) for each in (terms.left, terms.right))
    return replace(terms, left=left, right=right) if left and right else left or right


def misnamed(program: Program, name: str, schedule: str | None, given: Set[str]) -> list[TileError]:
    """Returns an error for each constant of a kernel that is left to the rule, although the schedule sets it under the
    name that it has in the parts of `dsl/std/`. A kernel with WIDTH for COLS would have the rule's extent beside the
    layout of `row_lanes`. `given` contains the names that the caller sets."""
    rule, kernel = program.once(rule_of, name), program.kernel(name)
    if rule is None or schedule is None:
        return []
    said = program.once(said_with_defaults, name, schedule)
    constants = {constant.name: constant.loc for constant in kernel.constants}
    roles = [(role, own.id) for role, own in rule.names.items() if isinstance(own, ast.Name) and role not in EXTENTS]
    found = [(role, own) for role, own in roles if role in said.definitions.keys() - constants.keys()]
    # A launch may set the constant. `dsl check` also builds the schedule without the launch.
    known = said.definitions.keys() | given | (program.once(_set_by_launches, name) if found else set())
    errors = []
    for role, own in found:
        if own not in known:
            message = f"schedule '{schedule}' sets '{role}', and '{name}' has '{own}' in its place, which nothing sets"
            hint = f"call the constant '{role}', or write {own} = {role} in a schedule like '{schedule}'"
            errors.append(TileError("name", constants[own], message, hint))
    return errors


def _set_by_launches(program: Program, kernel: str) -> set[str]:
    """Returns the constants that launches of a kernel set."""
    launches = (launch for dispatch in program.dispatches.values() for launch in dispatch.launches)
    return {item.name for each in launches if each.name == kernel for item in each.items if item.value is not None}


def _asks_for_warps(schedule: Said) -> bool:
    """Whether an `instruction` line of the schedule selects mma.sync."""
    lines = [setting for (name, _), setting in schedule.settings.items() if name == "instruction"]
    return any(isinstance(value, ast.Attribute) for line in lines for value in line.values)


@lru_cache(maxsize=1)
def _parts() -> Program:
    return load(STD / "defaults.tile", "std/defaults.tile")


def _renamed(node: Any, names: Mapping[str, Expr]) -> Any:
    """Replaces the names in an expression by the expressions in `names`."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node)
    if isinstance(node, list):
        return [_renamed(each, names) for each in node]
    if isinstance(node, dict):
        return {key: _renamed(each, names) for key, each in node.items()}
    parts = ast.PARTS.get(type(node))
    if parts is None:
        return node
    # The language, and not the rule, defines the name of a called function.
    kept = ("function",) if isinstance(node, ast.Call) else ()
    return replace(node, **{name: _renamed(getattr(node, name), names) for name in parts if name not in kept})


# ---- which rule ----


def rule_of(program: Program, name: str) -> Rule | None:
    """Returns the default rule that fits a kernel's text, or None if no rule fits."""
    kernel = program.kernels[name]
    constants = {c.name for c in kernel.constants if c.types is None}
    tiled = list(_tiled(kernel, constants))
    # A loop may step by a constant that also tiles the grid. Such a constant is not a k-tile.
    steps = [step for step in _steps(kernel, constants) if step not in {tile for tile, _ in tiled}]
    products = program.once(_products)
    is_product = any(map(products, ast.walk(kernel.body)))
    if is_product and len(tiled) == 2 and len(set(steps)) == 1:
        type = _type_of_sliced(kernel, steps[0])
        if type is not None:
            # The grid's axes are in order: the rows of the result come first.
            (tm, m), (tn, n) = tiled
            loops = _loops(kernel, steps[0], products)
            extents = {"M": m, "N": n, "K": _iterated(kernel, loops), "TYPE": type}
            extents |= {"PRODUCTS": _sums_of(kernel, loops, products), "LOOPS": _loops_of(kernel, loops)}
            extents |= {"A_ALONG": _lies_along(kernel, steps[0], tm), "B_ALONG": _lies_along(kernel, steps[0], tn)}
            extents |= {"A_ROW": _row(kernel, steps[0], tm), "B_ROW": _row(kernel, steps[0], tn)}
            return _rule("product", kernel, {"TM": tm, "TN": tn, "TK": steps[0]}, extents)
    covers = {cover: (extent, type) for cover, extent, type in _covers(kernel, constants)}
    # A constant that tiles an axis and also covers a row cannot follow both rules.
    if covers.keys() & {tile for tile, _ in tiled}:
        return None
    if not is_product and len(covers) == 1 and len(tiled) <= 1 and not steps:
        cover, (extent, type) = next(iter(covers.items()))
        own = {"COLS": cover} | ({"ROWS": tiled[0][0]} if tiled else {})
        return _rule("rows" if tiled else "row", kernel, own, {"N": extent, "TYPE": type})
    if not is_product and not covers and len(tiled) == 1 and not steps:
        type = _type_of_sliced(kernel, tiled[0][0])
        if type is not None:
            return _rule("elements", kernel, {"TILE": tiled[0][0]}, {"TYPE": type})
    return None


def missed_form(program: Program, name: str, constant: str) -> str:
    """Returns the form in which a rule would set a constant of the grid or of a loop, if the kernel has a product and
    another form. Otherwise returns an empty string."""
    kernel = program.kernels[name]
    calls = [node for node in ast.walk(kernel.body) if isinstance(node, ast.Call)]
    tiles = set[str]().union(*(names_in(call) for call in calls if _called(call) in ("cdiv", "range")))
    if constant not in tiles or rule_of(program, name) is not None or not multiplies(program, name):
        return ""
    constants = {constant.name for constant in kernel.constants}
    if len([*_tiled(kernel, constants)]) != 2:
        return "a rule sets the tile of a product whose grid is cdiv(m, TM), cdiv(n, TN)"
    if len({*_steps(kernel, constants)}) != 1:
        return "a rule sets the tile of a product whose loops are all range(0, k, TK), with one TK"
    return "a rule sets the tile of a product that reads slices such as a[i : i + TM, p : p + TK]"


def _rule(part: str, kernel: ast.KernelDef, constants: Mapping[str, str], extents: Mapping[str, Expr]) -> Rule:
    return Rule(part, {name: ast.Name(kernel.loc, own) for name, own in constants.items()} | dict(extents))


def _tiled(kernel: ast.KernelDef, constants: set[str]) -> Iterator[tuple[str, Expr]]:
    """Yields each constant of `cdiv(EXTENT, CONSTANT)` in the grid, with its extent, in the order of the axes."""
    grid = kernel.body[0] if kernel.body and isinstance(kernel.body[0], ast.Grid) else None
    for extent in grid.extents if grid is not None else ():
        if isinstance(extent, ast.Call) and _called(extent) == "cdiv" and len(extent.args) == 2:
            whole, tile = extent.args
            if isinstance(tile, ast.Name) and tile.id in constants:
                yield tile.id, whole


def _steps(kernel: ast.KernelDef, constants: set[str]) -> list[str]:
    """Returns the constants that are steps of `range` loops."""
    calls = [node for node in ast.walk(kernel.body) if isinstance(node, ast.Call) and _called(node) == "range"]
    last = [call.args[2] for call in calls if len(call.args) == 3]
    return [step.id for step in last if isinstance(step, ast.Name) and step.id in constants]


def _loops(kernel: ast.KernelDef, step: str, products: Products) -> list[Loop]:
    """Returns the innermost `range` loops with this step and a product, and their ends. A loop that only reads rows,
    such as that of a norm, has no ring of two operands. If the products are elsewhere, returns all loops with this
    step."""
    every = _loops_in(kernel, kernel.body, step)

    def is_innermost(body: Sequence[ast.Statement]) -> bool:
        return any(map(products, ast.walk(body))) and not _loops_in(kernel, body, step)

    return [each for each in every if is_innermost(each[0].body)] or every


def _loops_in(kernel: ast.KernelDef, body: Sequence[ast.Statement], step: str) -> list[Loop]:
    found = []
    for loop, when in _statements(kernel, body, None):
        if isinstance(loop, ast.For) and isinstance(loop.iterable, ast.Call) and _called(loop.iterable) == "range":
            arguments = loop.iterable.args
            if len(arguments) == 3 and getattr(arguments[2], "id", None) == step:
                found.append((loop, arguments[1], when))
    return found


def _statements(
    kernel: ast.KernelDef, body: Sequence[ast.Statement], when: Expr | None
) -> Iterator[tuple[ast.Statement, Expr | None]]:
    """Yields all statements in these statements, each with the condition under which the kernel has it, or None:
    always. `when` is the condition of `body`."""
    for statement in body:
        yield statement, when
        if isinstance(statement, ast.If):
            yes, no = when, when
            if _is_known(kernel, statement.condition):
                yes, no = statement.condition, ast.Unary(statement.loc, "not", statement.condition)
                if when is not None:
                    yes, no = (ast.Binary(statement.loc, "and", when, each) for each in (yes, no))
            yield from _statements(kernel, statement.then, yes)
            yield from _statements(kernel, statement.otherwise, no)
        elif isinstance(statement, ast.For | ast.While | ast.Def):
            yield from _statements(kernel, statement.body, when)


def _iterated(kernel: ast.KernelDef, loops: Sequence[Loop]) -> Expr:
    """Returns the sum of the ends of the loops, which follow one another. If an end contains anything but dims and
    numbers, returns SOME_K."""
    dims = dim_names(kernel)

    def is_known(node: Expr) -> bool:
        if isinstance(node, ast.Binary):
            return node.op in ("+", "-", "*") and is_known(node.left) and is_known(node.right)
        return isinstance(node, ast.Number) or (isinstance(node, ast.Name) and node.id in dims)

    if not all(is_known(end) for _, end, _ in loops):
        return ast.Number(kernel.loc, SOME_K)
    return _added(kernel, ((end, when) for _, end, when in loops))


def _added(kernel: ast.KernelDef, terms: Iterable[tuple[Expr, Expr | None]]) -> Expr:
    """Returns the sum of the terms that the kernel has, each with its condition."""
    at, none = kernel.loc, ast.Number(kernel.loc, 0)
    own = [term if when is None else _call(at, "where", when, term, none) for term, when in terms]
    return reduce(lambda one, other: ast.Binary(at, "+", one, other), own) if own else none


def _loops_of(kernel: ast.KernelDef, loops: Sequence[Loop]) -> Expr:
    """Returns an expression: how many of the loops the kernel has."""
    return _added(kernel, ((ast.Number(kernel.loc, 1), when) for _, _, when in loops))


def _sums_of(kernel: ast.KernelDef, loops: Sequence[Loop], products: Products) -> Expr:
    """Returns an expression: how many tiles the products of a loop are added to, or the next power of two, since tiles
    have powers of two: 2 for a gated pair, 4 for an LSTM. A branch that constants or `given` leave out has none."""
    at, most = kernel.loc, ast.Number(kernel.loc, 1)
    for loop, _, condition in loops:
        sums: dict[str, Expr | None] = {}
        for statement, when in _statements(kernel, loop.body, condition):
            for name in _summed(statement, products):
                if name not in sums or when is None:
                    sums[name] = when
                elif (other := sums[name]) is not None:
                    sums[name] = ast.Binary(at, "or", other, when)
        most = _call(at, "maximum", most, _added(kernel, ((ast.Number(at, 1), when) for when in sums.values())))
    return _call(at, "next_pow2", most)


def _is_known(kernel: ast.KernelDef, condition: Expr) -> bool:
    """Whether constants and `given` decide a condition, so that code is selected before a launch."""
    constants = {constant.name for constant in kernel.constants} | DTYPES.keys() | {"true", "false"}
    for node in ast.walk(condition):
        if isinstance(node, ast.Call):
            if _called(node) != "given":
                return False
            constants |= names_in(node)
        elif not isinstance(node, ast.Name | ast.Number | ast.Unary | ast.Binary | ast.Compare):
            return False
    return names_in(condition) <= constants


def _summed(statement: ast.Statement, products: Products) -> Iterator[str]:
    """Yields the names of the tiles that the products of an assignment are added to. `acc += a @ b + c @ d` has a
    second tile, without a name."""
    if not isinstance(statement, ast.Assign):
        return
    value, targets = statement.value, statement.targets
    values = value.items if isinstance(value, ast.Sequence) else [value] * len(targets)
    for target, each in zip(targets, values, strict=False):
        found = list(filter(products, ast.walk([each])))
        dots = [node for node in found if isinstance(node, ast.Call) and _called(node) == "dot"]
        added = [dot.args[2] for dot in dots if len(dot.args) == 3]
        own = [node.id for node in added if isinstance(node, ast.Name)]
        yield from own
        if found and not own:
            while isinstance(target, ast.Index):
                target = target.value
            name = target.id if isinstance(target, ast.Name) else str(target.loc)
            yield from (f"{name} {index}" if index else name for index in range(len(found)))


def multiplies(program: Program, name: str) -> bool:
    """Whether a kernel, or a function that it calls, contains a matrix product."""
    return any(map(program.once(_products), ast.walk(program.kernels[name].body)))


def _products(program: Program) -> Products:
    """Returns the test of a node for a matrix product, or a call of one of the program's functions with one."""
    nodes = {name: [*ast.walk(function.body)] for name, function in program.functions.items()}
    calls = {name: {_called(node) for node in each if isinstance(node, ast.Call)} for name, each in nodes.items()}
    having = {name for name, each in nodes.items() if any(map(_is_product, each))}
    while more := {name for name in calls.keys() - having if calls[name] & having}:
        having |= more
    return lambda node: _is_product(node) or (isinstance(node, ast.Call) and _called(node) in having)


def _is_product(node: Any) -> bool:
    """Whether a node is a matrix product: `dot` or `@`."""
    return (isinstance(node, ast.Call) and _called(node) == "dot") or (isinstance(node, ast.Binary) and node.op == "@")


def _call(at: Loc, function: str, *args: Expr) -> Expr:
    return ast.Call(at, ast.Name(at, function), [*args], {})


def _called(call: ast.Call) -> str:
    return call.function.id if isinstance(call.function, ast.Name) else ""


def _sliced(kernel: ast.KernelDef) -> Iterator[tuple[str, ast.TensorAnnotation, int, ast.Slice]]:
    """Yields each slice in a subscript of a tensor, with the tensor's name and type, and the axis."""
    types = {p.name: p.type for p in kernel.params if isinstance(p.type, ast.TensorAnnotation)}
    for node in ast.walk(kernel.body):
        if isinstance(node, ast.Index) and isinstance(node.value, ast.Name) and node.value.id in types:
            for axis, part in enumerate(node.subscripts):
                if isinstance(part, ast.Slice) and part.stop is not None:
                    yield node.value.id, types[node.value.id], axis, part


def _type_of_sliced(kernel: ast.KernelDef, constant: str) -> Expr | None:
    """Returns the element type of the first tensor with a slice whose end contains the constant, or None."""
    found = [type for _, type, _, _ in _sliced_by(kernel, constant)]
    return ast.Name(kernel.loc, found[0].dtype) if found else None


def _sliced_by(kernel: ast.KernelDef, constant: str) -> Iterator[tuple[str, ast.TensorAnnotation, int, ast.Slice]]:
    """Yields the slices whose end contains the constant."""
    return (each for each in _sliced(kernel) if constant in ast.names_in(each[3].stop))  # type: ignore[arg-type]


def _operands(kernel: ast.KernelDef, step: str, tile: str) -> Iterator[tuple[str, ast.TensorAnnotation, int]]:
    """Yields each tensor that is sliced by a tile of the grid and by a loop with this step, with its type and the axis
    of the loop."""
    tiled = {name for name, *_ in _sliced_by(kernel, tile)}
    return ((name, type, axis) for name, type, axis, _ in _sliced_by(kernel, step) if name in tiled)


def _lies_along(kernel: ast.KernelDef, step: str, tile: str) -> Expr:
    """Returns an expression: whether all operands of this tile and step are contiguous along the axis of the loop."""
    at = kernel.loc
    every: Expr = ast.Name(at, "true")
    for name, type, axis in _operands(kernel, step, tile):
        asked = _call(at, "contiguous", ast.Name(at, name), ast.Number(at, axis))
        one = asked if type.strided else ast.Name(at, "true" if axis == len(type.dims) - 1 else "false")
        every = ast.Binary(at, "and", every, one)
    return every


def _row(kernel: ast.KernelDef, step: str, tile: str) -> Expr:
    """Returns an expression: the bytes of a row in memory of each operand of this tile and step, joined by `|`. A power
    of two divides the number if it divides all of them."""
    at = kernel.loc
    every: Expr = ast.Number(at, 0)
    for name, type, _ in _operands(kernel, step, tile):
        extent = type.dims[-1]
        for axis, other in enumerate(type.dims[:-1] if type.strided else ()):
            lies = _call(at, "contiguous", ast.Name(at, name), ast.Number(at, axis))
            extent = _call(at, "where", lies, other, extent)
        size = _call(at, "size", ast.Name(at, type.dtype))
        every = ast.Binary(at, "|", every, ast.Binary(at, "*", extent, size))
    return every


def _covers(kernel: ast.KernelDef, constants: set[str]) -> Iterator[tuple[str, Expr, Expr]]:
    """Yields the constant of each slice `0 : CONSTANT`, with the dim of the sliced axis and the element type."""
    for _, type, axis, part in _sliced(kernel):
        start, stop = part.start, part.stop
        from_0 = start is None or (isinstance(start, ast.Number) and start.value == 0)
        if from_0 and isinstance(stop, ast.Name) and stop.id in constants and axis < len(type.dims):
            yield stop.id, type.dims[axis], ast.Name(kernel.loc, type.dtype)
