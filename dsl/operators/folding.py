"""Whether the axis of a `vmap` can be folded into the first dim of the arrays of an operator."""

from __future__ import annotations

from dsl import TileError
from dsl.operators.spec import OperatorSpec


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


def check_foldable(spec: OperatorSpec, dim: str) -> None:
    """Raises TileError `call` if no axis can be folded into `dim`."""
    if (why := why_not_foldable(spec, dim)) is not None:
        raise TileError("call", None, f"vmap of {spec.name} folds nothing into '{dim}': {why}")


def is_folded(spec: OperatorSpec, name: str, dim: str) -> bool:
    """Returns whether the axis of a `vmap` is folded into the first dim of the input `name`."""
    return spec.parameter(name).kind == "array" and dim in spec.parameter(name).dims


def check_rank(spec: OperatorSpec, name: str, rank: int) -> None:
    """Raises TileError `shape` if an element of a `vmap` has another rank than its parameter. After folding, the
    message would be about an array that nobody has passed."""
    wanted = len(spec.parameter(name).dims)
    if rank != wanted:
        message = f"'{name}' of {spec.name} has rank {wanted}; each element of the vmap has rank {rank}"
        raise TileError("shape", None, message, "vmap takes the axis away that it maps over: the rest is the array")


def not_mapped(spec: OperatorSpec, name: str, dim: str, way_out: str) -> RuntimeError:
    """Returns the error for a `vmap` along an input that has no folded dim."""
    message = f"vmap of {spec.name} along '{name}', which has no '{dim}', would need a launch for each element"
    return RuntimeError(f"{message}: {way_out}")
