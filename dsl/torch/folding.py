"""`torch.vmap` of an operator: the axis of vmap is folded into the first dim of the arrays, without a copy where the
axis is the first one."""

from __future__ import annotations

from typing import Any

from torch.library import CustomOpDef

from dsl import TileError
from dsl.torch.spec import OperatorSpec


def why_not_foldable(spec: OperatorSpec, dim: str) -> str | None:
    """Returns why a leading axis cannot be folded into a dim, or None if it can. Each output must have the dim first.
    An input has it first or not at all."""
    if spec.mutates:
        return f"it writes {', '.join(spec.mutates)} in place"
    for name in (*spec.outputs, *spec.arrays):
        dims = spec.parameter(name).dims
        if dim in dims[1:]:
            return f"'{dim}' is no first dim of '{name}'"
        if name in spec.outputs and dims[:1] != (dim,):
            return f"the output '{name}' has no '{dim}'"
    if not any(dim in spec.parameter(name).dims for name in spec.arrays):
        return f"no input has the dim '{dim}'"
    return None


def register_fold(made: CustomOpDef, spec: OperatorSpec, dim: str) -> None:
    """Registers the rule of an operator for vmap. Raises TileError `call` if no axis can be folded into `dim`."""
    if (why := why_not_foldable(spec, dim)) is not None:
        raise TileError("call", None, f"vmap of {spec.name} folds nothing into '{dim}': {why}")

    def folded(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        size, rows, flat = info.batch_size, 0, []
        for name, axis, x in zip(spec.inputs, in_dims, arguments, strict=True):
            if x is not None and spec.parameter(name).kind == "array" and dim in spec.parameter(name).dims:
                x = x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
                rows = x.shape[1]
                x = x.reshape(size * rows, *x.shape[2:])
            elif axis is not None:
                message = (
                    f"vmap of {spec.name} along '{name}', which has no '{dim}', would need a launch for each element"
                )
                raise RuntimeError(f"{message}: call it in a loop, or register_vmap a rule of your own")
            flat.append(x)
        results = made(*flat)
        several = isinstance(results, tuple)
        out = tuple(y.reshape(size, rows, *y.shape[1:]) for y in (results if several else (results,)))
        return (out, (0,) * len(out)) if several else (out[0], 0)

    made.register_vmap(folded)
