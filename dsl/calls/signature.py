"""The signature of a kernel or dispatch as a Python function: what its parameters are, and what a call returns."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, Signature
from typing import Any

from msgspec import Struct

from dsl.calls.called import Called
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DTYPES

EMPTY = Parameter.empty


class CallParameter(Struct, frozen=True):
    """A parameter of a kernel or dispatch.

    `kind` is `array`, `number` or `table`. `type` is an element type, or a type parameter such as `T`, or None for a
    number that a dispatch only calculates with. `dims` are the axes of an array as the file names them. A call may
    leave out an `optional` array, and also an `output`, which it then makes and returns. `written` and `read` tell what
    the kernels do with an array. Arrays are row-major, except the `strided` ones."""

    name: str
    kind: str
    type: str | None
    dims: tuple[str, ...] = ()
    optional: bool = False
    output: bool = False
    written: bool = False
    read: bool = True
    strided: bool = False

    @property
    def number(self) -> Any:
        """Python's type of the numbers that a number or table takes. None if a dispatch takes both ints and floats."""
        dtype = DTYPES.get(self.type or "")
        return None if dtype is None else float if dtype.is_float else bool if dtype.bits == 1 else int

    def __str__(self) -> str:
        if self.kind != "array":
            return f"{self.name}: {'table ' if self.kind == 'table' else ''}{self.type or 'number'}"
        mark = "; strided" if self.strided else ""
        return f"{self.name}: {self.type}[{', '.join(self.dims)}{mark}]{'?' if self.optional else ''}"


class CallSignature(Struct, frozen=True):
    """The signature of a kernel or dispatch `name`.

    `parameters` maps names to parameters, in the order of the file: outputs come first. `types` maps type parameters to
    their alternatives, and `options` maps the options of a dispatch to their values, the default first. Both are given
    by name. So are the constants of the kernels and `schedule`. `doc` is the comment above the kernel or dispatch, or
    else that at the head of its file."""

    name: str
    parameters: dict[str, CallParameter]
    types: dict[str, tuple[str, ...]]
    options: dict[str, tuple[Any, ...]]
    doc: str

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.parameters.values()))
        types = ", ".join(f"{name} in {'|'.join(each)}" for name, each in self.types.items())
        return f"{self.name}({inputs}{'; ' if types else ''}{types})"

    @property
    def outputs(self) -> tuple[str, ...]:
        """The arrays that a call makes and returns if it leaves them out."""
        return tuple(name for name, p in self.parameters.items() if p.output)

    @property
    def writes(self) -> tuple[str, ...]:
        """The arrays that some variant writes: outputs, optional outputs, and arrays that are changed in place."""
        return tuple(name for name, p in self.parameters.items() if p.written)

    @property
    def python(self) -> Signature:
        """The form of the call that returns its outputs. Inputs come in the order of the file, and outputs only by
        name. (A call that passes all arrays by their places writes into its first ones, the outputs.)"""
        return Signature([*self._inputs(), *self._by_name()])

    def _inputs(self) -> Iterator[Parameter]:
        names = [name for name in self.parameters if not self.parameters[name].output]
        trailing = set()
        for name in reversed(names):
            if not self.parameters[name].optional:
                break
            trailing.add(name)
        for name in names:
            default = None if name in trailing else EMPTY
            note = str(self.parameters[name]).partition(": ")[2]
            yield Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=note)

    def _by_name(self) -> Iterator[Parameter]:
        for name in self.outputs:
            note = str(self.parameters[name]).partition(": ")[2]
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=note)
        for name, values in self.options.items():
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=values[0])
        for name, types in self.types.items():
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation="|".join(types))
        if "schedule" not in self.parameters:
            yield Parameter("schedule", Parameter.KEYWORD_ONLY, default=None)
        yield Parameter("constants", Parameter.VAR_KEYWORD)


def signature_of(called: Called) -> CallSignature:
    """Returns the signature of a dispatch or kernel."""
    types = {name: tuple(each) for head, _, _ in called.passed for name, each in head.types.items()}
    parameters = {name: parameter_of(called, name) for name in called.params}
    return CallSignature(called.name, parameters, types, called.option_values, documentation(called))


def parameter_of(called: Called, name: str) -> CallParameter:
    """Returns the parameter `name` of a dispatch or kernel."""
    head, own = called.heads.get(name), called.parameters.get(name, name)
    if head is None:
        return CallParameter(name, "number", None)
    if (array := head.arrays.get(own)) is None:
        node = head.tables.get(own) or head.scalars[own]
        return CallParameter(name, "table" if own in head.tables else "number", node.type.dtype)
    written, read = (name in each for each in called.accesses)
    dims = tuple(str(dim) if dim is not None else "…" for dim in array.dims)
    optional = name in called.optional
    is_output = written and not read and not optional and name in called.leading
    return CallParameter(name, "array", array.dtype, dims, optional, is_output, written, read, name in called.strided)


def documentation(called: Called) -> str:
    """Returns the comment above a dispatch or kernel, or that of its first kernel, or that at the head of the file."""
    nodes = [called.node, *(called.program.kernels[name] for name in called.launched)]
    found = (comment_above(node.loc) for node in nodes)
    head = comment_of(called.node.loc.source.text.splitlines())
    return next((text for text in found if text), head)


def comment_above(loc: Loc) -> str:
    """Returns the text of the comment that ends in the line before `loc`."""
    lines = loc.source.text.splitlines()[: loc.line - 1]
    first = len(lines)
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return comment_of(lines[first:])


def comment_of(lines: list[str]) -> str:
    """Returns the text of the comment with which `lines` begin."""
    count = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:count])
