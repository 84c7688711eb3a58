"""What an operator of torch is made of: its schema, its launch, and its outputs without a launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from msgspec import Struct, field
from torch.library import CustomOpDef

from dsl import TileError
from dsl.calls.api import ModuleFunction
from dsl.calls.arguments import shape_facts
from dsl.calls.plan import Output
from dsl.calls.signature import CallParameter

MOST_SHAPES = 1024
"""The greatest number of shapes of inputs for which an operator keeps the shapes of its outputs."""


class OperatorSpec(Struct, frozen=True, eq=False, dict=True):
    """What an operator is made of.

    `inputs` are the parameters that the operator takes, in their order, and `outputs` those that it returns. `mutates`
    are inputs that it writes. `fixed` holds the values of other parameters, and `constants` those of options, types
    and constants. `contiguous` tells whether inputs that are not row-major are copied."""

    function: ModuleFunction
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    mutates: tuple[str, ...]
    fixed: Mapping[str, Any]
    constants: Mapping[str, Any]
    contiguous: bool = False
    known: dict[Any, list[Output]] = field(default_factory=dict)
    """Shapes and types of inputs → outputs, for calls with memory."""

    def parameter(self, name: str) -> CallParameter:
        return self.function.signature.parameters[name]

    @cached_property
    def arrays(self) -> list[str]:
        """The inputs that are arrays."""
        return [name for name in self.inputs if self.parameter(name).kind == "array"]

    @cached_property
    def copied(self) -> list[str]:
        """The inputs that are copied unless they are row-major."""
        own = self.arrays if self.contiguous else []
        return [name for name in own if name not in self.mutates and not self.parameter(name).strided]

    @cached_property
    def deciding(self) -> list[str]:
        """The inputs that decide the shapes and types of outputs: arrays, and numbers in declared extents."""
        return [*self.arrays, *(name for name in self.inputs if name in self.function.called.in_extents)]

    @property
    def schema(self) -> str:
        """The schema in torch's notation, such as `(Tensor x, float eps, Tensor? bias=None) -> Tensor`."""
        returns = ", ".join(["Tensor"] * len(self.outputs))
        return f"({', '.join(self._arguments())}) -> {returns if len(self.outputs) == 1 else f'({returns})'}"

    def _arguments(self) -> Iterator[str]:
        takes = [self.parameter(name) for name in self.inputs]
        for at, p in enumerate(takes):
            alias = f"(a{at}!)" if p.name in self.mutates else ""
            may_miss = all(each.optional for each in takes[at:])
            yield f"{kind_in_schema(p, alias)} {p.name}{'=None' if may_miss else ''}"

    def by_name(self, arguments: Sequence[Any]) -> dict[str, Any]:
        # Torch leaves out arguments at the end that are equal to their defaults.
        return dict.fromkeys(self.inputs) | dict(zip(self.inputs, arguments, strict=False))

    def run(self, *arguments: Any) -> Any:
        """Launches the kernels, and returns the outputs."""
        given = self.by_name(arguments)
        given |= {name: given[name].contiguous() for name in self.copied if given[name] is not None}
        key = tuple((x.shape, x.dtype) if isinstance(x, torch.Tensor) else x for x in map(given.get, self.deciding))
        if (outputs := self.known.get(key)) is None:
            if len(self.known) >= MOST_SHAPES:
                self.known.clear()
            outputs = self.known[key] = self.made(given)
        results = allocated(outputs, given)
        values = {**self.fixed, **given, **dict(zip(self.outputs, results, strict=True))}
        # All parameters by their places, so that a repeated call needs no plan (`dsl/calls/short_way.py`).
        self.function(*map(values.get, self.function.params), **self.constants)
        return result_of(results)

    def fake(self, *arguments: Any) -> Any:
        """Returns outputs without memory, for inputs without memory. Extents may be symbols."""
        given = self.by_name(arguments)
        return result_of(allocated(self.made(given), given))

    def made(self, given: Mapping[str, Any]) -> list[Output]:
        """Returns the outputs with their shapes and types. Checks the call (`ModuleFunction.outputs`)."""
        described = {name: shape_facts(value) for name, value in {**self.fixed, **given}.items()}
        arguments = {name: described.get(name) for name in self.function.params}
        optional = [name for name in self.outputs if name in self.function.called.optional]
        found = {each.name: each for each in self.function.outputs_of(arguments, self.constants, optional)}
        return [found[name] for name in self.outputs]


def allocated(outputs: list[Output], given: Mapping[str, Any]) -> list[torch.Tensor]:
    like = next(value for value in given.values() if isinstance(value, torch.Tensor))
    return [output.empty_like(like) for output in outputs]


def result_of(made: list[torch.Tensor]) -> Any:
    return made[0] if len(made) == 1 else tuple(made) if made else None


def kind_in_schema(p: CallParameter, alias: str) -> str:
    """Returns the type of a parameter in torch's notation."""
    if p.kind == "array":
        return f"Tensor{alias}{'?' if p.optional else ''}"
    kind = {int: "SymInt", float: "float", bool: "bool", None: "Scalar"}[p.number]
    return f"{kind}[]" if p.kind == "table" else kind


def define(spec: OperatorSpec) -> CustomOpDef:
    """Registers an operator with torch. An operator of the same name is replaced."""
    made = torch.library.custom_op(spec.name, spec.run, mutates_args=spec.mutates, schema=spec.schema)
    made.register_fake(spec.fake)
    return made


def spec_of(
    function: ModuleFunction,
    name: str,
    outputs: Sequence[str] | None,
    mutates: Sequence[str],
    contiguous: bool,
    values: Mapping[str, Any],
) -> OperatorSpec:
    """Returns what an operator is made of. Raises TileError for names that do not fit together."""
    if not isinstance(function, ModuleFunction):
        raise TileError("call", None, f"op takes a function of a module; got {function!r}", "dsl.load(FILE).softmax")
    if len(name.split("::")) != 2:
        raise TileError("name", None, f"an operator has no name like '{name}'", "namespace::name")
    signature = function.signature
    returned = signature.outputs if outputs is None else tuple(outputs)
    for each in (*returned, *mutates):
        if each not in signature.writes:
            written = ", ".join(signature.writes)
            raise TileError("name", None, f"{function.name} writes no array '{each}'", f"written: {written}")
    fixed = {key: value for key, value in values.items() if key in signature.parameters}
    constants = {key: function.plain(key, value) for key, value in values.items() if key not in fixed}
    left = [each for each in signature.parameters if each not in returned and each not in fixed]
    # An optional output that nobody asks for is not computed.
    inputs = [n for n in left if n in mutates or not (n in signature.writes and signature.parameters[n].optional)]
    for each in inputs:
        if each in signature.writes and each not in mutates:
            raise TileError("call", None, f"{function.name} writes '{each}'", f"name it: mutates=('{each}',)")
    if not any(
        signature.parameters[each].kind == "array" and not signature.parameters[each].optional for each in inputs
    ):
        raise TileError("call", None, f"an operator takes an array; {function.name} needs none")
    return OperatorSpec(function, name, tuple(inputs), returned, tuple(mutates), fixed, constants, contiguous)
