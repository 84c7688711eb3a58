"""What an operator of torch is made of: its schema, its launch, and its outputs without a launch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch.library import CustomOpDef

from dsl import TileError
from dsl.calls.api import ModuleFunction
from dsl.calls.signature import CallParameter
from dsl.operators.spec import OperatorSpec, check_function, spec_of


class TorchSpec(OperatorSpec, frozen=True, eq=False, dict=True):
    """What an operator of torch is made of. `contiguous` tells whether inputs that are not row-major are copied."""

    contiguous: bool = False

    @cached_property
    def copied(self) -> list[str]:
        """The inputs that are copied unless they are row-major."""
        own = self.arrays if self.contiguous else []
        return [name for name in own if name not in self.mutates and not self.parameter(name).strided]

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
        refuse_forward_mode(self.name)
        given = self.by_name(arguments)
        given |= {name: given[name].contiguous() for name in self.copied if given[name] is not None}
        like = first_tensor(given)
        return result_of(self.call(given, lambda output: output.empty_like(like)))

    def fake(self, *arguments: Any) -> Any:
        """Returns outputs without memory, for inputs without memory. Extents may be symbols."""
        given = self.by_name(arguments)
        like = first_tensor(given)
        return result_of([output.empty_like(like) for output in self.made(given)])


def refuse_forward_mode(name: str) -> None:
    """Raises NotImplementedError within `torch.func.jvp` or `jacfwd`: torch hides their tangents from an operator, and
    takes that of its result for zero. (A tangent of `torch.autograd.forward_ad` is seen, and refused by the launch.)"""
    # The counter is private to torch. Without it, nothing is refused.
    if getattr(sys.modules.get("torch._functorch.eager_transforms"), "JVP_NESTING", 0):
        message = f"{name} has no forward mode (torch.func.jvp, jacfwd): torch would take its tangent for zero"
        raise NotImplementedError(f"{message}\nhint: use backward mode, or call it ahead of the transform")


def first_tensor(given: Mapping[str, Any]) -> torch.Tensor:
    return next(value for value in given.values() if isinstance(value, torch.Tensor))


def result_of(made: list[torch.Tensor]) -> Any:
    return made[0] if len(made) == 1 else tuple(made) if made else None


def kind_in_schema(p: CallParameter, alias: str) -> str:
    """Returns the type of a parameter in torch's notation."""
    if p.kind == "array":
        return f"Tensor{alias}{'?' if p.optional else ''}"
    kind = {int: "SymInt", float: "float", bool: "bool", None: "Scalar"}[p.number]
    return f"{kind}[]" if p.kind == "table" else kind


def define(spec: TorchSpec) -> CustomOpDef:
    """Registers an operator with torch. An operator of the same name is replaced."""
    made = torch.library.custom_op(spec.name, spec.run, mutates_args=spec.mutates, schema=spec.schema)
    made.register_fake(spec.fake)
    # A copied network calls the same operator, as it calls the same functions. Torch's class cannot be copied.
    made.__deepcopy__ = made.__copy__ = lambda *_: made  # type: ignore[attr-defined]
    return made


def torch_spec(
    function: ModuleFunction,
    name: str,
    outputs: Sequence[str] | str | None,
    mutates: Sequence[str] | str,
    contiguous: bool,
    values: Mapping[str, Any],
) -> TorchSpec:
    """Returns what an operator is made of. Raises TileError for names that do not fit together."""
    check_function(function)
    if len(name.split("::")) != 2:
        raise TileError("name", None, f"an operator has no name like '{name}'", "namespace::name")
    return spec_of(TorchSpec, function, name, outputs, mutates, values, contiguous=contiguous)
