"""What an operator is made of: the parameters that it takes and returns, and its outputs without memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct, field

from dsl import TileError
from dsl.calls.api import ModuleFunction
from dsl.calls.arguments import shape_facts, traced_facts
from dsl.calls.plan import Output
from dsl.calls.signature import CallParameter

MOST_SHAPES = 1024
"""The greatest number of shapes of inputs for which an operator keeps the shapes of its outputs."""


class OperatorSpec(Struct, frozen=True, eq=False, dict=True):
    """What an operator is made of.

    `inputs` are the parameters that the operator takes, in their order, and `outputs` those that it returns. `mutates`
    are inputs that it writes. `fixed` holds the values of other parameters, and `constants` those of options, types
    and constants."""

    function: ModuleFunction
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    mutates: tuple[str, ...]
    fixed: Mapping[str, Any]
    constants: Mapping[str, Any]
    known: dict[Any, list[Output]] = field(default_factory=dict)
    """Shapes and types of inputs → outputs, for calls with memory."""

    def parameter(self, name: str) -> CallParameter:
        return self.function.signature.parameters[name]

    @cached_property
    def arrays(self) -> list[str]:
        """The inputs that are arrays."""
        return [name for name in self.inputs if self.parameter(name).kind == "array"]

    @cached_property
    def deciding(self) -> list[str]:
        """The inputs that decide the shapes and types of outputs: arrays, and numbers in declared extents."""
        return [*self.arrays, *(name for name in self.inputs if name in self.function.called.in_extents)]

    def made(self, given: Mapping[str, Any]) -> list[Output]:
        """Returns the outputs with their shapes and types. Checks the call (`ModuleFunction.outputs`)."""
        described = {name: shape_facts(value) for name, value in {**self.fixed, **given}.items()}
        arguments = {name: described.get(name) for name in self.function.params}
        optional = [name for name in self.outputs if name in self.function.called.optional]
        found = {each.name: each for each in self.function.outputs_of(arguments, self.constants, optional)}
        return [found[name] for name in self.outputs]

    def call(self, given: Mapping[str, Any], make: Callable[[Output], Any]) -> list[Any]:
        """Launches the kernels for inputs with memory, and returns the outputs, which `make` allocates. Inputs of the
        same shapes and types are looked at once."""
        deciding = (given[name] for name in self.deciding)
        key = tuple((tuple(x.shape), x.dtype) if hasattr(x, "dtype") else x for x in deciding)
        if (outputs := self.known.get(key)) is not None:
            results = [make(output) for output in outputs]
        else:
            outputs = self.made(given)
            results = [make(output) for output in outputs]
            self.compile({**given, **dict(zip(self.outputs, results, strict=True))})
            if len(self.known) >= MOST_SHAPES:
                self.known.clear()
            self.known[key] = outputs
        self.launch(given, results)
        return results

    def traced(self, given: Mapping[str, Any], outputs: Sequence[Output]) -> None:
        """Compiles the kernels for row-major inputs that a tracer knows by shape and type, unless a number that is not
        known yet decides which kernels. Raises like `compile`."""
        made = {output.name: output.facts for output in outputs}
        values = traced_facts(self.function.front, {**given, **made}, lambda name: self.parameter(name).number or float)
        if values is not None:
            self.compile(values)

    def compile(self, values: Mapping[str, Any]) -> None:
        """Compiles the kernels for inputs and outputs. Raises TileError `call` if one of them reads an output before it
        is written: an operator makes it of new memory."""
        given = {**self.fixed, **values}
        plan = self.function.plan_for({name: given.get(name) for name in self.function.params}, dict(self.constants))
        for name in self.outputs:
            plan.check_output(name)

    def launch(self, given: Mapping[str, Any], results: Sequence[Any]) -> None:
        """Launches the kernels for inputs by name. They write to the arrays `results`."""
        values = {**self.fixed, **given, **dict(zip(self.outputs, results, strict=True))}
        # All parameters by their places, so that a repeated call needs no plan (`dsl/calls/short_way.py`).
        arguments = map(values.get, self.function.params)
        self.function.fill(self.name, self.outputs, results, arguments, self.constants)


Spec = TypeVar("Spec", bound=OperatorSpec)


def spec_of(
    kind: type[Spec],
    function: ModuleFunction,
    name: str,
    outputs: Sequence[str] | str | None,
    mutates: Sequence[str] | str,
    values: Mapping[str, Any],
    in_place: str | None = None,
    **more: Any,
) -> Spec:
    """Returns what an operator is made of, a `kind` with the fields `more`. `in_place` is the hint for a parameter that
    the function writes, but that is neither returned nor in `mutates`. Raises TileError for names that do not fit
    together."""
    signature = function.signature
    returned = signature.outputs if outputs is None else names_in(outputs)
    mutates = names_in(mutates)
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
            ways = [] if signature.parameters[each].read else [f"to return it, name it in outputs=({each!r}, …)"]
            ways.append(in_place or f"to write an array that the caller passes, name it in mutates=({each!r},)")
            raise TileError("call", None, f"{function.name} writes '{each}'", "; ".join(ways))
    if not any(
        signature.parameters[each].kind == "array" and not signature.parameters[each].optional for each in inputs
    ):
        raise TileError("call", None, f"an operator takes an array; {function.name} needs none")
    return kind(function, name, tuple(inputs), returned, mutates, fixed, constants, **more)


def names_in(names: Sequence[str] | str) -> tuple[str, ...]:
    """Returns names as a tuple. One name may stand alone: of a text, a tuple would hold the letters."""
    return (names,) if isinstance(names, str) else tuple(names)


def check_function(function: Any) -> None:
    if not isinstance(function, ModuleFunction):
        raise TileError("call", None, f"op takes a function of a module; got {function!r}", "dsl.load(FILE).softmax")
