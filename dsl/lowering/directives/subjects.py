"""Collects the names in a kernel that a schedule may contain, and builds the errors for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from dsl.lowering.ir.function import Function, Op, Value, walk
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.types import TileType

NO_SUCH = {
    "subtile": "kernel '{kernel}' has no value '{name}' to cut into subtiles",
    "loop": "kernel '{kernel}' has no tile '{name}'",
    "align": "kernel '{kernel}' has no tile '{name}'",
    "delay": "kernel '{kernel}' has no value '{name}'",
    "pingpong": "kernel '{kernel}' has no value '{name}'",
    "precompute": "no loop of kernel '{kernel}' computes a value '{name}'",
    "stage": "kernel '{kernel}' has no tensor or value '{name}' to stage",
    "swizzle": "the kernel has no shared tile '{name}'",
}
"""Maps each directive on values or tensors to its error message for a name that does not exist."""


class NamesThere(Struct):
    """The names in a kernel, by kind. `tiles` contains values with at least one axis, and `laid_out` contains values
    with a layout. `matrices` contains tiles with two axes. `products` contains results and accumulators of MMAs, and
    what elementwise operations make of results: `acc` of `acc = acc + dot(a, b)`. `counters` contains loop counters,
    `tensors` contains parameters, and `shared` contains shared tiles.
    """

    values: set[str] = field(default_factory=set)
    tiles: set[str] = field(default_factory=set)
    laid_out: set[str] = field(default_factory=set)
    matrices: set[str] = field(default_factory=set)
    products: set[str] = field(default_factory=set)
    counters: set[str] = field(default_factory=set)
    tensors: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)


def defined_tiles(op: Op) -> Iterator[Value]:
    """Yields the tiles that `op` defines, including the tiles that a loop carries."""
    yield from (r for r in op.results if isinstance(r.type, TileType))
    if op.spec.control.flows:  # the regions of other operations, such as reductions, have scalars
        yield from (a for region in op.regions for a in region.args if isinstance(a.type, TileType))


def names_in(function: Function) -> NamesThere:
    """Collects all names in a function, including carried values of loops and branches, and tensors that a call
    omits."""
    found, made = NamesThere(tensors={p.name for p in function.params}), set[Value]()
    for op in walk(function.body):
        defined = [*op.results, *(a for region in op.regions for a in region.args)] if op.regions else op.results
        if any(value.name for value in defined):  # few values have names
            _add_names(found, op, [value for value in defined if value.name])
        if op.spec.product:
            made.add(op.result)
            found.products |= {value.name for value in (op.result, op.operands[2]) if value.name}
        elif op.spec.elementwise and not made.isdisjoint(op.operands):
            made.update(op.results)
            found.products |= {value.name for value in op.results if value.name}
        if op.spec.in_flight:
            found.laid_out.add(f"{op.operands[0].name}.copy")
        if op.spec.allocates:
            found.shared.add(str(op.attrs["name"]))
    return found


def _add_names(found: NamesThere, op: Op, named: Sequence[Value]) -> None:
    """Adds the names of the values that `op` defines. `named` contains those that have a name."""
    for value in named:
        assert value.name is not None
        found.values.add(value.name)
        if isinstance(value.type, TileType) and value.shape:
            found.tiles.add(value.name)
    tiles = {value.name: value for value in defined_tiles(op) if value.name}
    found.laid_out |= tiles.keys()
    found.matrices |= {name for name, value in tiles.items() if len(value.tile.shape) in (2, 3)}
    found.counters |= {c.name for region in op.regions for c in region.args[: op.spec.control.counters] if c.name}


def unknown_subjects(function: Function, named: NamesThere) -> list[TileError]:
    """Returns an error for each line of the schedule whose value, tensor or shared tile does not exist in the kernel.
    If the name exists but its kind is wrong, the directive's own pass reports the error."""
    # All unknown names are reported together, before any pass. If each pass reported its own, 17 wrong names needed 17
    # runs.
    everywhere = named.values | named.tensors | named.shared | function.in_branches
    off = {(line, name) for line in ("delay", "pingpong")
           for name, holds in function.by_subject(line, bool).items() if not holds}  # fmt: skip
    lines = [key for key in function.lines if key[0] in NO_SUCH and key[1] not in everywhere and key not in off]
    found = [no_such(function, *key, named.tensors if key[0] == "stage" else named.tiles) for key in lines]
    for key, forced in function.choices.forced.items():
        kind, _, name = key.partition(".")
        if kind == "recompute" and forced.loc is not None and name.isidentifier() and name not in everywhere:
            message = f"kernel '{function.name}' has no value '{name}'"
            found.append(TileError("name", forced.loc, message, closest(name, named.tiles)))
    staged = {f"s{name}" for name in everywhere}  # tiles that 'stage' allocates; a later pass reports missing ones
    for name, pin in function.swizzles.items():
        if name not in everywhere | staged:
            message = NO_SUCH["swizzle"].format(name=name)
            found.append(TileError("layout", pin.loc, message, closest(name, named.shared)))
    return found


def named_tiles(function: Function, name: str) -> list[Value]:
    """Returns all tiles called `name`, in program order."""
    return [r for op in walk(function.body) for r in op.results if r.name == name and isinstance(r.type, TileType)]


def is_void(function: Function, name: str, loc: Loc | None) -> bool:
    """Whether a name occurs only in a branch, or in parts, that constants have removed. If so, records that the line
    `loc` has no effect."""
    if name in function.in_branches and loc is not None:
        function.void.append((name, loc))
    return name in function.in_branches


def note_gone(function: Function, folded: set[str]) -> None:
    """Records which of the names `folded`, whose parts are constants or other values, no value has any more. Lines
    about them are no mistakes: other extents of the same kernel have such values."""
    if folded:
        function.in_branches |= folded - names_in(function).values


def unknown(function: Function, row: str, name: str, known: Iterable[str]) -> None:
    """Raises TileError `name` for a line whose value does not exist. Raises no error if constants have removed the
    branch that contains the name."""
    if not is_void(function, name, function.lines.get((row, name))):
        raise no_such(function, row, name, known)


def no_such(function: Function, row: str, name: str, known: Iterable[str]) -> TileError:
    """Returns the TileError `name` for a line of directive `row` whose value does not exist. `known` contains the
    existing names."""
    message = NO_SUCH[row].format(kernel=function.name, name=name)
    loc = function.lines.get((row, name))
    what = "tensors" if row == "stage" else "tiles"
    return TileError("name", loc, message, closest(name, known) or listed(what, known))


def listed(what: str, names: Iterable[str]) -> str:
    """Returns a hint that lists the existing names."""
    known = ", ".join(f"'{name}'" for name in sorted(names))
    return f"its {what}: {known}" if known else f"it has no {what}"
