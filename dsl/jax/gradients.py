"""The gradients of a function of JAX: what `jax.custom_vjp` saves, and how it calls the backward function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero

from dsl.operators.gradients import Backward
from dsl.operators.spec import OperatorSpec


@jax.tree_util.register_pytree_node_class
class SavedValues:
    """What is kept for a backward pass: arrays and traced numbers by name, and the names of the inputs that need
    gradients."""

    def __init__(self, values: Mapping[str, Any], needed: tuple[str, ...]):
        self.values, self.needed = dict(values), needed

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[tuple[str, ...], tuple[str, ...]]]:
        return tuple(self.values.values()), (tuple(self.values), self.needed)

    @classmethod
    def tree_unflatten(cls, names: tuple[tuple[str, ...], tuple[str, ...]], values: Sequence[Any]) -> SavedValues:
        return cls(dict(zip(names[0], values, strict=True)), names[1])


def differentiable(
    launch: Callable[..., tuple[Any, ...]],
    spec: OperatorSpec,
    names: Sequence[str],
    plain: Mapping[str, Any],
    rule: Backward | None,
) -> Callable[..., tuple[Any, ...]]:
    """Returns a launch with its gradients. `names` are the inputs that it takes, and `plain` holds the others."""
    call = jax.custom_vjp(launch)

    def forward(*primals: Any) -> tuple[tuple[Any, ...], SavedValues]:
        if rule is None:
            raise RuntimeError(f"{spec.name} has no gradient: dsl.jax.op takes one as backward=")
        operands = {name: each.value for name, each in zip(names, primals, strict=True)}
        results = call(*operands.values())
        values = {**operands, **dict(zip(spec.outputs, results, strict=True))}
        needed = tuple(name for name, each in zip(names, primals, strict=True) if each.perturbed)
        return results, SavedValues({name: values[name] for name in rule.values if name in values}, needed)

    def backward(saved: SavedValues, found: Sequence[Any]) -> tuple[Any, ...]:
        assert rule is not None  # `forward` came first
        by_output = {}
        for name, gradient in zip(spec.outputs, found, strict=True):
            is_zero = isinstance(gradient, SymbolicZero)
            if name in rule.differentiable:
                by_output[name] = jax.numpy.zeros(gradient.shape, gradient.dtype) if is_zero else gradient
            elif not is_zero:
                # It would count as zero, and what is before would be trained as if the output were a constant.
                raise RuntimeError(f"the backward function of {spec.name} takes no gradient of '{name}'")
        values = {**spec.fixed, **plain, **saved.values}
        gradients = rule.gradients(values, by_output, list(saved.needed))
        return tuple(gradients.get(name) if name in saved.needed else None for name in names)

    # With symbols for zeros, `forward` learns which inputs need gradients.
    call.defvjp(forward, backward, symbolic_zeros=True)
    return call
