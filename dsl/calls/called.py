"""Describes the dispatch or kernel that a call names: its parameters, and the kernels that receive them. The
description is built once per program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import Any

from dsl.calls.binding import Misfit, check_array
from dsl.calls.plan import Output
from dsl.calls.uses import tensors_used
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.types import DTYPES, DType
from dsl.text import tree as ast
from dsl.text.heads import ArrayParameter, KernelHead
from dsl.text.program import Program
from dsl.text.tree import names_in
from dsl.values.facts import ArrayFacts
from dsl.values.numbers import Numbers, default_type
from dsl.values.trees import to_tree
from dsl.values.walk import WORDS


class Called:
    """A dispatch or a kernel of a file. `Program.once` returns the instance for a name.

    `params` lists the parameters in order. `passed` lists the arguments that a launch passes on unchanged, each as
    (signature, argument of the call, parameter of the kernel). `heads` maps an argument to the signature of the first
    kernel that receives it. `parameters` maps the argument to its name in that signature. `launched` lists all kernels
    that a call may launch. `options` holds the options of the dispatch. `asked` holds the tensors that are optional in
    a kernel. `optional` holds the tensors that a call may leave out. `set_types` holds the type parameters that
    launches set, as in `fold with R=s64`."""

    def __init__(self, program: Program, name: str):
        self.program, self.name = program, name
        self.dispatch = program.dispatches.get(name)
        self.node: ast.Dispatch | ast.KernelDef
        self.set_types: dict[str, DType] = {}
        self.options: frozenset[str] = frozenset()
        self.passed: list[tuple[KernelHead, str, str]] = []
        if self.dispatch is not None:
            self._read_dispatch(self.dispatch)
        elif name in program.kernels:
            self.node = program.kernels[name]
            head = program.head(name)
            self.params, self.launched = list(head.names), [name]
            self.passed = [(head, p, p) for p in head.names]
        else:
            known = [*program.dispatches, *program.kernels]
            message = f"{program.source.name} has no kernel or dispatch '{name}'"
            raise TileError("name", None, message, closest(name, known))
        self.heads: dict[str, KernelHead] = {}
        self.parameters: dict[str, str] = {}
        for head, argument, parameter in self.passed:
            self.heads.setdefault(argument, head)
            self.parameters.setdefault(argument, parameter)
        self._read_arrays()

    def _read_dispatch(self, dispatch: ast.Dispatch) -> None:
        """Finds the kernels that the branches launch, and the arguments that each launch passes on."""
        self.node = dispatch
        self.params = dispatch.params
        # The shortest branch first: longer ones copy operands ahead, by kernels whose dims have other meanings.
        branches = sorted(dispatch.branches, key=lambda branch: len(branch.launches))
        launches = [each for branch in branches for each in branch.launches if each.name in self.program.kernels]
        self.launched = list(dict.fromkeys(launch.name for launch in launches))
        for launch in launches:
            self._pass_on(launch)
            for item in launch.items:
                if isinstance(item.value, ast.Name) and item.name in self.program.head(launch.name).types:
                    self.set_types.setdefault(item.name, DTYPES[item.value.id])
        self.options = frozenset(line.name for line in dispatch.lines if isinstance(line, ast.Option))

    def _read_arrays(self) -> None:
        """Finds which arguments are arrays, which arrays are strided, and which arrays a call may leave out."""
        arrays = [(argument, array) for argument in self.heads if (array := self.array(argument)) is not None]
        self.asked = frozenset(argument for argument, array in arrays if array.optional)
        stored = self.accesses[0].intersection(argument for argument, _ in arrays)
        written = [p for p in self.params if p in stored] if self.dispatch is not None else []
        # If all outputs of a dispatch are optional and absent, a call would do nothing and return None. So the first
        # output does not count as optional. If a caller leaves out the first output, the call allocates it.
        nothing = bool(written) and self.asked.issuperset(written)
        self.optional = self.asked.difference(written[:1] if nothing else [])
        taken = [(argument, head.arrays[p]) for head, argument, p in self.passed if p in head.arrays]
        self.strided = frozenset(argument for argument, array in taken if array.strided)
        self.tensors = frozenset(argument for argument, _ in taken)
        self.inner = frozenset(d for _, array in taken for d in array.dims[-1:] if isinstance(d, str))

    def _pass_on(self, launch: ast.Launch) -> None:
        head = self.program.head(launch.name)
        for p, name in self.arguments_of(launch):
            if (head, name, p) not in self.passed:
                self.passed.append((head, name, p))

    def arguments_of(self, launch: ast.Launch, names: Collection[str] | None = None) -> Iterator[tuple[str, str]]:
        """Yields (parameter of the kernel, name) for each of `names` that a launch passes on, by default the arguments
        of the call."""
        names = self.params if names is None else names
        head = self.program.head(launch.name)
        given = launch.keywords | dict(zip(head.names, launch.args or (), strict=False))
        for p in head.names:
            argument = p if launch.args is None else given.get(p)
            name = argument.id if isinstance(argument, ast.Name) else argument
            # Only a bare name passes an argument on. The types and shapes of other expressions do not determine those
            # of the call's arrays.
            if isinstance(name, str) and name in names:
                yield p, name

    def array(self, argument: str) -> ArrayParameter | None:
        """Returns the tensor parameter of the first kernel that receives `argument`, or None if `argument` is no
        tensor."""
        return self.heads[argument].arrays.get(self.parameters[argument]) if argument in self.heads else None

    def bind_names(self, facts: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, DType]]:
        """Returns the extents of dims and the types of type parameters, as two dicts. Names are those of the kernels.
        Conflicting values are reported later, when a kernel is bound."""
        dims: dict[str, int] = {}
        types: dict[str, DType] = {}
        for head, argument, p in self.passed:
            found = facts.get(argument)
            array = head.arrays.get(p)
            if array is None or not isinstance(found, ArrayFacts):
                continue
            if len(found.shape) == len(array.dims):
                for dim, extent in zip(array.dims, found.shape, strict=True):
                    if isinstance(dim, str):
                        dims.setdefault(dim, extent)
            if array.dtype in head.types and found.dtype in DTYPES:
                types.setdefault(array.dtype, DTYPES[found.dtype])
        return dims, types

    def outputs(
        self, facts: Mapping[str, Any], rest: Mapping[str, Any] | None = None, also: Collection[str] = ()
    ) -> list[Output]:
        """Returns the outputs that the caller left out, and the optional ones in `also`. Their types and shapes follow
        from the given tensors, from `rest` (the types and constants that the caller names), and from what the kernels
        declare: defaults of types and extents of dims. Raises TileError `call` if a type or shape does not follow."""
        missing = [
            name for name in self.params if facts.get(name) is None and (name in also or name not in self.optional)
        ]
        # Most calls pass all tensors.
        if not missing:
            return []
        given = {name: found for name, found in facts.items() if isinstance(found, ArrayFacts)}
        if not given:
            raise TileError("call", None, f"{self.name} takes {', '.join(self.params)}; no array was given")
        for name, found in given.items():
            if (array := self.array(name)) is not None:
                check_array(self.heads[name], array, found)
        names = NamesOfOutputs(self, facts, rest or {})
        made = []
        for name in missing:
            array = self.array(name)
            if array is None:
                raise TileError("call", None, f"{self.name} needs '{name}'")
            made.append(names.output(name, self.heads[name], array))
        return made

    @cached_property
    def option_values(self) -> dict[str, tuple[Any, ...]]:
        """Maps the options of a dispatch to their values, the default first. A value that depends on the call is given
        by its text."""
        lines = () if self.dispatch is None else self.dispatch.lines
        return {line.name: tuple(map(option_value, line.values)) for line in lines if isinstance(line, ast.Option)}

    @cached_property
    def in_extents(self) -> frozenset[str]:
        """The numbers of the call that declared extents read."""
        rules = {head.name: set().union(*map(names_in, head.rules.values())) for head, _, _ in self.passed}
        return frozenset(name for head, name, p in self.passed if p in head.scalars and p in rules[head.name])

    @cached_property
    def leading(self) -> list[str]:
        """The outputs that a call may leave out by place: the first arrays that are not optional and are written."""
        required = (p for p in self.params if p not in self.optional)
        return list(takewhile(lambda p: p in self.accesses[0], required))

    @cached_property
    def seen(self) -> list[str]:
        """The dims and type parameters that the arrays of a call bind."""
        arrays = [(head, head.arrays[p]) for head, _, p in self.passed if p in head.arrays]
        dims = [dim for _, array in arrays for dim in array.dims if isinstance(dim, str)]
        types = [array.dtype for head, array in arrays if array.dtype in head.types]
        return [*dict.fromkeys([*dims, *types])]

    def split(self, rest: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Splits named values into (constants, options)."""
        options = {k: v for k, v in rest.items() if k in self.options}
        return {k: v for k, v in rest.items() if k not in options}, options

    @cached_property
    def deciding(self) -> frozenset[str]:
        """The number and table arguments whose values affect which kernels are launched, or how. These values are read
        by the dispatch, or by a schedule, a grid or an assert of a kernel. Other numbers and tables are only passed
        on."""
        if self.dispatch is None:
            # Calls that differ only in other numbers share a plan. A seed or a learning rate changes with each call.
            return frozenset(self.program.once(deciding_names, self.name).intersection(self.params))
        found: set[str] = set()
        steps = [step for branch in self.dispatch.branches for step in branch.steps]
        for line in [*self.dispatch.lines, *steps]:
            for node in expressions_of(line):
                found |= names_in(node)
        for head, argument, p in self.passed:
            found |= {argument} if p in self.program.once(deciding_names, head.name) else set()
        return frozenset(found.intersection(self.params))

    @cached_property
    def accesses(self) -> tuple[set[str], set[str]]:
        """Two sets of tensors: those that the call's kernels may write, and those that they may read, in any
        variant."""
        written, read = set(), set()
        for head, argument, p in self.passed:
            writes, reads = self.program.once(tensors_used, head.name)
            written |= {argument} if p in writes else set()
            read |= {argument} if p in reads else set()
        return written, read


class NamesOfOutputs:
    """The dims and types of a call's outputs, where the call leaves outputs out. Extents may be symbols.

    A type follows from an array, from the caller, from a launch that sets it, or from its default. A dim follows from
    an array or from its declared extent. This extent may read dims, numbers of the call, and constants that the caller
    gives or that have a default. Constants of a schedule are not known before the outputs' shapes are."""

    def __init__(self, called: Called, facts: Mapping[str, Any], rest: Mapping[str, Any]):
        self.called, self.rest = called, rest
        self.dims: dict[str, Any]
        self.dims, self.types = called.bind_names(facts)
        self.numbers = {p: facts[argument] for _, argument, p in called.passed if is_number(facts.get(argument))}

    def output(self, name: str, head: KernelHead, array: ArrayParameter) -> Output:
        """Returns the output `name`, which a kernel with the signature `head` takes as `array`. Raises TileError `call`
        if its type or shape does not follow."""
        dtype = self.type_of(array.dtype, head)
        shape = [self.extent(d, head) if isinstance(d, str) else d for d in array.dims]
        if dtype is None or any(extent is None for extent in shape):
            what = "shape" if dtype is not None else "type"
            message = f"the {what} of the output '{name}' does not follow from the inputs"
            unknown = next((str(d) for d, extent in zip(array.dims, shape, strict=True) if extent is None), "…")
            declared = f"declare the extent, as {name}: {array.dtype}[{unknown} = count] with a number count: s32"
            hint = f"pass it, or {declared if dtype is not None else f'name its type: {array.dtype}=…'}"
            raise TileError("call", array.loc, message, hint)
        return Output(name, tuple(d for d in shape if d is not None), dtype.name)

    def type_of(self, name: str, head: KernelHead) -> DType | None:
        if name not in head.types:
            return DTYPES.get(name)
        if name not in self.types:
            asked = self.rest.get(name)
            if asked is not None and asked not in head.types[name]:
                raise Misfit("type", None, f"'{name}' is one of {', '.join(head.types[name])}; not {asked}")
            known = {each: found for each in head.types if each != name and (found := self.types.get(each)) is not None}
            found = DTYPES.get(str(asked)) or self.called.set_types.get(name)
            default = None if found else default_type(head.defaults.get(name), known, head.types[name])
            if (found := found or DTYPES.get(default or "")) is None:
                return None
            self.types[name] = found
        return self.types[name]

    def extent(self, dim: str, head: KernelHead) -> Any:
        """Returns the extent of a dim: an int, a symbol, or None if it does not follow."""
        from dsl.runtime.expressions import ExpressionError, compile_expression

        if dim in self.dims or dim not in head.rules:
            return self.dims.get(dim)
        self.dims[dim] = None  # ends a circle of rules
        rule = head.rules[dim]
        asked = names_in(rule) - self.types.keys() - DTYPES.keys() - WORDS.keys()
        values = {name: value for name in asked if (value := self.value(name, head)) is not None}
        if values.keys() == asked:
            try:
                extent: Any = compile_expression(to_tree(rule, dict.fromkeys(values), self.types)).evaluate(values)
            except ExpressionError as error:
                raise TileError("call", rule.loc, f"'{dim}' has no extent: {error}", "pass the output") from None
            if isinstance(extent, bool | float) or (isinstance(extent, int) and extent < 0):
                raise TileError("call", rule.loc, f"'{dim}' is a count; it would be {extent}", "other inputs")
            self.dims[dim] = extent
        return self.dims[dim]

    def value(self, name: str, head: KernelHead) -> Any:
        """Returns the value of a name in a declared extent, or None."""
        if name in head.dims:
            return self.extent(name, head)
        if name in self.numbers or name in self.rest:
            return self.numbers.get(name, self.rest.get(name))
        default = head.defaults.get(name)
        return None if default is None or names_in(default) else Numbers({})(default)


def option_value(node: ast.Expr) -> Any:
    try:
        return Numbers({})(node)
    except TileError:
        return node.loc.text


def is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def expressions_of(line: Any) -> Iterator[ast.Expr]:
    """Yields the expressions in a step of a dispatch, except arguments that a launch passes on unchanged."""
    if isinstance(line, ast.Launch):
        passed = [*(line.args or ()), *line.keywords.values()]
        yield from (each for each in passed if not isinstance(each, ast.Name))
        yield from (item.value for item in line.items if item.value is not None)
    elif isinstance(line, ast.Option):
        yield from line.values
    else:
        yield line.value if isinstance(line, ast.Assign) else line.condition


def deciding_names(program: Program, kernel: str) -> set[str]:
    """Returns the names that decide how a kernel is compiled and launched. These names occur in the kernel's schedules,
    the defaults of its constants, its grid or its asserts."""
    node = program.kernels[kernel]
    nodes = [c.default for c in node.constants if c.default is not None and c.types is None]
    for each in ast.walk(node.body):
        if isinstance(each, ast.Grid):
            nodes += each.extents
        elif isinstance(each, ast.Assert):
            nodes.append(each.condition)
    return program.read_by_schedules(kernel).union(*map(names_in, nodes))
