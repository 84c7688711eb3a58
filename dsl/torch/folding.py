"""`torch.vmap` of an operator: the axis of vmap is folded into the first dim of the arrays, without a copy where the
axis is the first one."""

from __future__ import annotations

from typing import Any

from torch.library import CustomOpDef

from dsl.operators.folding import check_foldable, check_rank, is_folded, not_mapped
from dsl.torch.spec import TorchSpec


def register_fold(made: CustomOpDef, spec: TorchSpec, dim: str) -> None:
    """Registers the rule of an operator for vmap. Raises TileError `call` if no axis can be folded into `dim`."""
    check_foldable(spec, dim)

    def folded(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        size, rows, flat = info.batch_size, 0, []
        for name, axis, x in zip(spec.inputs, in_dims, arguments, strict=True):
            if x is not None and is_folded(spec, name, dim):
                check_rank(spec, name, x.ndim - (axis is not None))
                x = x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
                rows = x.shape[1]
                x = x.reshape(size * rows, *x.shape[2:])
            elif axis is not None:
                raise not_mapped(spec, name, dim, "call it in a loop, or register_vmap a rule of your own")
            flat.append(x)
        results = made(*flat)
        several = isinstance(results, tuple)
        out = tuple(y.reshape(size, rows, *y.shape[1:]) for y in (results if several else (results,)))
        return (out, (0,) * len(out)) if several else (out[0], 0)

    made.register_vmap(folded)
