"""The gradients of an operator: which values its backward function takes, and which gradients it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import combinations
from typing import Any

from msgspec import Struct, field

from dsl import TileError
from dsl.calls.api import ModuleFunction
from dsl.operators.spec import OperatorSpec

Maker = Callable[[str, tuple[str, ...], dict[str, Any]], tuple[Callable[..., Any], OperatorSpec]]
"""(name, outputs, fixed values) → an operator of the backward function, and what it is made of."""


class Backward(Struct, frozen=True, eq=False):
    """The backward function of an operator, `spec`.

    `takes` maps each of its parameters to the value that it gets: (`value`, name of an input or output) or (`gradient`,
    name of an output). `compute` calls it with these values and the names of the inputs that need gradients, and
    returns gradients by names of inputs."""

    spec: OperatorSpec
    takes: dict[str, tuple[str, str]]
    compute: Callable[[dict[str, Any], list[str]], Mapping[str, Any]]

    @property
    def values(self) -> list[str]:
        """The inputs and outputs that the function takes."""
        return list(dict.fromkeys(name for kind, name in self.takes.values() if kind == "value"))

    @property
    def saved(self) -> list[str]:
        """The inputs and outputs that are arrays and are kept for the backward pass."""
        return [name for name in self.values if self.spec.parameter(name).kind == "array"]

    @property
    def numbers(self) -> list[str]:
        return [name for name in self.values if self.spec.parameter(name).kind != "array"]

    @property
    def differentiable(self) -> set[str]:
        """The outputs whose gradients the function takes. Nothing flows back through the others."""
        return {name for kind, name in self.takes.values() if kind == "gradient"}

    def gradients(
        self, values: Mapping[str, Any], by_output: Mapping[str, Any], needed: list[str]
    ) -> Mapping[str, Any]:
        """Returns the gradients of inputs, from values of inputs and outputs and from gradients of outputs. Raises
        RuntimeError if one that is needed is missing."""
        sources = {"value": values, "gradient": by_output}
        found = self.compute({p: sources[kind][name] for p, (kind, name) in self.takes.items()}, needed)
        inputs = ", ".join(self.spec.inputs)
        for name in found:
            if name not in self.spec.inputs:
                raise RuntimeError(
                    f"backward of {self.spec.name} gives a gradient of '{name}'; its inputs are {inputs}"
                )
        for name in needed:
            # A missing gradient would count as zero, and the input would be trained as if it were a constant.
            if found.get(name) is None:
                gives = ", ".join(each for each in found if found[each] is not None) or "none"
                raise RuntimeError(
                    f"backward of {self.spec.name} gives no gradient of '{name}', which requires one: it gives those "
                    f"of {gives}\nhint: let it give one ({{'{name}': …}} in a Python function, an output 'd{name}' of "
                    f"a module's function), or stop it (detach, stop_gradient)"
                )
        return found


class BackwardOperators(Struct, frozen=True, eq=False):
    """The operators of a module's function that computes gradients: one for each set of gradients that is asked for,
    since a call computes only the optional ones among them that are needed. `make` makes an operator."""

    spec: OperatorSpec
    function: ModuleFunction
    takes: dict[str, tuple[str, str]]
    gives: dict[str, str]
    make: Maker
    known: dict[tuple[str, ...], tuple[Callable[..., Any], OperatorSpec]] = field(default_factory=dict)

    def __call__(self, values: dict[str, Any], needed: list[str]) -> dict[str, Any]:
        outputs = self.outputs_for(needed)
        made, spec = self.operator_of(outputs)
        results = made(*(values[name] for name in spec.inputs))
        together = zip(outputs, results if isinstance(results, tuple) else (results,), strict=True)
        return {self.gives[p]: gradient for p, gradient in together}

    def outputs_for(self, needed: Collection[str]) -> tuple[str, ...]:
        """Returns the gradients that a call computes if those of the inputs `needed` are asked for."""
        optional = self.function.called.optional
        return tuple(p for p, of in self.gives.items() if of in needed or p not in optional)

    def make_all(self) -> None:
        """Makes the operators of all sets of gradients that may be needed: 1 ms each. A graph that `torch.compile`
        reads from its cache names one of them, which must be known before the first backward pass."""
        inputs = [*self.gives.values()]
        for count in range(1, len(inputs) + 1):
            for needed in combinations(inputs, count):
                self.operator_of(self.outputs_for(needed))

    def operator_of(self, outputs: tuple[str, ...]) -> tuple[Callable[..., Any], OperatorSpec]:
        if outputs not in self.known:
            self.known[outputs] = self._made(outputs)
        return self.known[outputs]

    def _made(self, outputs: tuple[str, ...]) -> tuple[Callable[..., Any], OperatorSpec]:
        name = f"{self.spec.name}_backward"
        if outputs != tuple(self.gives):
            name = "_".join([name, *outputs])
        params = self.function.signature.parameters
        absent = {p: None for p in params if p not in self.takes and p not in self.gives}
        shared = {n: v for n, v in self.spec.constants.items() if n in self.function.called.options}
        return self.make(name, outputs, {**absent, **shared})


def backward_of(
    spec: OperatorSpec, backward: ModuleFunction | Callable[..., Any], gradients: Mapping[str, str], make: Maker
) -> Backward:
    """Returns the backward function of an operator, with what its parameters stand for. Raises TileError `call` if it
    takes what is neither an input nor an output of the operator nor a gradient of an output."""
    if spec.mutates:
        raise TileError("call", None, f"{spec.name} writes {', '.join(spec.mutates)} in place, so it has no gradient")
    if isinstance(backward, ModuleFunction):
        params = backward.signature.parameters
        gives = {p: gradient_of(spec, p, spec.inputs, gradients) for p in params if params[p].written}
        gives_named = {p: of for p, of in gives.items() if of is not None}
        for p, of in gives.items():
            if of is None and p not in backward.called.optional:
                raise not_known(spec, backward.name, p, "gives", spec.inputs)
        taken = taken_by(spec, [p for p in params if p not in gives], gradients, backward.called.optional)
        compute: Any = BackwardOperators(spec, backward, taken, gives_named, make)
    else:
        names = list(inspect.signature(backward).parameters)
        taken, gives_named = taken_by(spec, names, gradients, ()), {}
        compute = plain_function(spec, backward)
    wrong = gradients.keys() - taken.keys() - gives_named.keys()
    if wrong:
        raise TileError("name", None, f"the backward function of {spec.name} has no parameter '{sorted(wrong)[0]}'")
    return Backward(spec, taken, compute)


def no_backward(gradients: Mapping[str, str] | None) -> None:
    """Raises TileError `call` for names of gradients without a backward function."""
    if gradients:
        raise TileError("call", None, "gradients= maps the parameters of backward=, which is not given")


def taken_by(
    spec: OperatorSpec, params: Iterable[str], gradients: Mapping[str, str], optional: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """Maps the parameters of a backward function to the values that they get (`Backward.takes`)."""
    known, found = {*spec.inputs, *spec.outputs, *spec.fixed}, {}
    for p in params:
        if p in known and p not in gradients:
            found[p] = "value", p
        elif (of := gradient_of(spec, p, spec.outputs, gradients)) is not None:
            found[p] = "gradient", of
        elif p not in optional:
            raise not_known(spec, "backward", p, "takes", spec.outputs)
    return found


def gradient_of(spec: OperatorSpec, p: str, names: Iterable[str], gradients: Mapping[str, str]) -> str | None:
    """Returns the one of `names` whose gradient a parameter is, or None."""
    of = gradients.get(p, p[1:] if p.startswith("d") else "")
    return of if of in names else None


def not_known(spec: OperatorSpec, function: str, p: str, does: str, names: Iterable[str]) -> TileError:
    """Returns the error for a parameter of a backward function that stands for nothing."""
    message = f"{function} {does} '{p}', which is neither an input nor an output of {spec.name} nor the gradient of one"
    hint = f"gradients={{'{p}': …}} names {' or '.join(names)}; outputs=(…) makes it return more"
    return TileError("call", None, message, hint)


def plain_function(spec: OperatorSpec, function: Callable[..., Any]) -> Callable[..., Mapping[str, Any]]:
    """Returns a Python backward function in the form of `Backward.compute`."""

    def compute(values: dict[str, Any], needed: list[str]) -> Mapping[str, Any]:
        found = function(**values)
        if isinstance(found, Mapping):
            return found
        each = found if isinstance(found, tuple) else (found,)
        if len(each) != len(spec.arrays):
            takes = ", ".join(spec.arrays)
            raise RuntimeError(
                f"backward of {spec.name} gives {len(each)} gradient{'s' * (len(each) != 1)} for {len(spec.arrays)} "
                f"arrays: {takes}\nhint: give one for each in this order, or a dict {{'{spec.arrays[0]}': …}}"
            )
        return dict(zip(spec.arrays, each, strict=True))

    return compute
