"""Extracts the signature of a kernel: its parameters by kind, and its dims. A program computes the signature once for
each kernel, for its calls and variants."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from dsl.lowering.ir.location import Loc
from dsl.text import tree as ast


class ArrayParameter(Struct, frozen=True):
    """A tensor parameter of a kernel. `dtype` is an element type or a type parameter. Each of `dims` is a name, a
    number or None. None is an extent that depends on the kernel's constants."""

    name: str
    dtype: str
    dims: tuple[str | int | None, ...]
    strided: bool
    optional: bool
    loc: Loc


class KernelHead(Struct, frozen=True, eq=False):
    """The parameters of a kernel, by kind and name. `types` maps each type parameter to its alternatives. `constants`
    contains the names of the constants that are not type parameters. `dims` is in the order of first use. `defaults`
    maps constants and type parameters to their defaults, and `rules` maps dims to their declared extents."""

    name: str
    names: tuple[str, ...]
    arrays: dict[str, ArrayParameter]
    scalars: dict[str, ast.KernelParameter]
    tables: dict[str, ast.KernelParameter]
    types: dict[str, list[str]]
    constants: frozenset[str]
    dims: tuple[str, ...]
    defaults: dict[str, ast.Expr]
    rules: dict[str, ast.Expr]

    def widths(self, absent: Collection[str]) -> set[str]:
        """Returns the dims that decide how wide a memory access can be. `absent` contains the optional tensors that the
        caller does not pass."""
        # The first of several axes counts rows. The strides of a row-major array are products of the other axes'
        # extents. So only these extents decide whether an address is a multiple of 16 bytes.
        given = (array.dims for name, array in self.arrays.items() if name not in absent)
        inner = (dims[1:] if len(dims) > 1 else dims for dims in given)
        return {d for dims in inner for d in dims if isinstance(d, str)}


def head_of(kernel: ast.KernelDef) -> KernelHead:
    """Computes the signature of a kernel. `Program.head` caches the result."""
    known = {c.name for c in kernel.constants}

    def extent(node: ast.Expr) -> str | int | None:
        if isinstance(node, ast.Name):
            return None if node.id in known else node.id
        return int(node.value) if isinstance(node, ast.Number) else None

    arrays = {}
    for p in kernel.params:
        if isinstance(p.type, ast.TensorAnnotation):
            dims = tuple(map(extent, p.type.dims))
            arrays[p.name] = ArrayParameter(p.name, p.type.dtype, dims, p.type.strided, p.type.optional, p.loc)
    axes = [array.dims for array in arrays.values()]
    rules = [p.type.rules for p in kernel.params if isinstance(p.type, ast.TensorAnnotation)]
    return KernelHead(
        kernel.name,
        tuple(p.name for p in kernel.params),
        arrays,
        {p.name: p for p in kernel.params if isinstance(p.type, ast.ScalarType)},
        {p.name: p for p in kernel.params if isinstance(p.type, ast.TableAnnotation)},
        {c.name: c.types for c in kernel.constants if c.types is not None},
        frozenset(c.name for c in kernel.constants if c.types is None),
        tuple(dict.fromkeys(d for dims in axes for d in dims if isinstance(d, str))),
        {c.name: c.default for c in kernel.constants if c.default is not None},
        {dim: rule for each in rules for dim, rule in each.items()},
    )
