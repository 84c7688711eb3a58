"""Makes an operator of torch from a kernel or dispatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.library import CustomOpDef

from dsl.calls.api import ModuleFunction
from dsl.operators.gradients import no_backward
from dsl.torch.folding import register_fold
from dsl.torch.gradients import register_gradients, register_refusal
from dsl.torch.spec import define, torch_spec


def op(
    function: ModuleFunction,
    name: str,
    *,
    outputs: Sequence[str] | str | None = None,
    mutates: Sequence[str] | str = (),
    backward: ModuleFunction | Callable[..., Any] | None = None,
    gradients: Mapping[str, str] | None = None,
    vmap: str | None = None,
    contiguous: bool = False,
    **values: Any,
) -> CustomOpDef:
    """Makes a kernel or dispatch an operator of torch, and returns torch's CustomOpDef (docs/torch.md).

    `name` is "namespace::name". The operator takes the inputs of `function` in their order, and returns `outputs`: by
    default the arrays that a call makes if it leaves them out. Optional outputs are returned if they are named here.
    `mutates` names arrays that the operator takes and writes. `values` fixes other parameters, options, types and
    constants, as in CAUSAL=True or O="f16".

    `backward` gives the gradients: a function of a module, or a Python function of tensors. The names of its
    parameters say what it takes. The name of an input or output of the operator stands for this value, and the arrays
    among them are what is saved for the backward pass. `dy` stands for the gradient of the output `y`, unless
    `gradients` maps it to another name. A module's function returns gradients of inputs under names such as `dx`, and
    a Python function returns a dict from names of inputs to gradients, or a gradient for each array among the inputs,
    in their order.

    `vmap` names a dim along which results are independent, the first one of arrays that have it. `torch.vmap` then
    folds its axis into this dim. With `contiguous`, inputs that are not row-major are copied; otherwise they are an
    error of the launch, unless the kernel takes them `strided`.

    Raises TileError `call` or `name` for names that do not fit together."""
    spec = torch_spec(function, name, outputs, mutates, contiguous, values)
    made = define(spec)
    if backward is not None:
        register_gradients(made, spec, backward, dict(gradients or {}), vmap)
    else:
        no_backward(gradients)
        if not spec.mutates:
            register_refusal(made)
    if vmap is not None:
        register_fold(made, spec, vmap)
    return made
