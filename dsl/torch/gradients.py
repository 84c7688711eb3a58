"""The gradients of an operator of torch: what autograd saves, and how it calls the backward function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from torch.library import CustomOpDef

from dsl.calls.api import ModuleFunction
from dsl.operators.folding import why_not_foldable
from dsl.operators.gradients import Backward, BackwardOperators, backward_of
from dsl.torch.folding import register_fold
from dsl.torch.spec import TorchSpec, define, torch_spec


class AutogradRule(Struct, frozen=True, eq=False):
    """What autograd calls for an operator: `setup` after the forward pass, and `backward`."""

    rule: Backward

    def setup(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keeps what the backward pass needs."""
        rule, spec, made = self.rule, self.rule.spec, output if isinstance(output, tuple) else (output,)
        values = {**spec.fixed, **dict(zip((*spec.inputs, *spec.outputs), (*inputs, *made), strict=True))}
        ctx.save_for_backward(*(values[name] for name in rule.saved))
        ctx.numbers = {name: values[name] for name in rule.numbers}
        ctx.mark_non_differentiable(*(values[name] for name in spec.outputs if name not in rule.differentiable))

    def backward(self, ctx: Any, *grads: Any) -> Any:
        """Returns the gradient of each input, None for one that needs none."""
        rule, spec = self.rule, self.rule.spec
        values = {**ctx.numbers, **dict(zip(rule.saved, ctx.saved_tensors, strict=True))}
        by_output = dict(zip(spec.outputs, grads, strict=True))
        inputs = spec.inputs[: len(ctx.needs_input_grad)]  # without those at the end that are equal to their defaults
        needed = [name for name, needs in zip(inputs, ctx.needs_input_grad, strict=True) if needs]
        found = rule.gradients(values, by_output, needed)
        return tuple(found.get(name) if name in needed else None for name in inputs)


def register_gradients(
    made: CustomOpDef,
    spec: TorchSpec,
    backward: ModuleFunction | Callable[..., Any],
    gradients: dict[str, str],
    vmap: str | None,
) -> None:
    """Registers the backward function of an operator. Raises TileError `call` or `name` (`backward_of`)."""

    def make(name: str, outputs: tuple[str, ...], values: dict[str, Any]) -> tuple[CustomOpDef, TorchSpec]:
        # Torch's gradients may be expanded: that of a sum is one element with strides of 0.
        own = torch_spec(backward, name, outputs, (), True, values)  # type: ignore[arg-type]
        operator = define(own)
        if vmap is not None and why_not_foldable(own, vmap) is None:
            register_fold(operator, own, vmap)
        return operator, own

    found = backward_of(spec, backward, gradients, make)
    if isinstance(found.compute, BackwardOperators):
        found.compute.make_all()
    rule = AutogradRule(found)
    made.register_autograd(rule.backward, setup_context=rule.setup)


def register_refusal(made: CustomOpDef) -> None:
    """Registers that an operator has no gradient. Torch's own message names a function of torch, not `backward=`."""

    def backward(ctx: Any, *grads: Any) -> None:
        raise RuntimeError(f"{made._qualname} has no gradient: dsl.torch.op takes one as backward=")

    made.register_autograd(backward)
