"""Computes addresses in global memory: one pointer for each thread, plus an offset for each register."""

from __future__ import annotations

from functools import lru_cache, reduce
from math import gcd
from operator import or_

from dsl.lowering.emit.global_map import Axes, GlobalMap
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Value
from dsl.lowering.known.affine import Product
from dsl.lowering.layouts.layout import Layout


@lru_cache(maxsize=4096)
def _by_register(layout: Layout, coefficients: tuple[int, ...]) -> list[int]:
    """Lists the amount that each register adds to Σ coefficient · coordinate. The layout's bases must have no common
    bits, so that sums have no carries."""
    out = [0]
    for weight in layout.weighed(coefficients)[: len(layout.register)]:
        out += [weight + n for n in out]
    return out


class GlobalAddress:
    """Computes the addresses of one access to a tensor, as i64.

    An address is a pointer plus an offset. The pointer depends on the thread and the block. Accesses in the same
    straight-line code share one pointer if their offsets differ only in constants. The offset depends on the register.
    Its constants become immediates. Its multiples of a stride are added step by step, so that few of them occupy
    registers.
    """

    def __init__(self, w: Writer, memory: Value, map: GlobalMap):
        self.w, self.memory, self.map = w, memory, map
        self.size = memory.dtype.bytes
        self.moves = [(p, part.constant, _by_register(map.layout, part.coefficients)) for p, part in map.strides]

    def of(self, register: int) -> str:
        counts = [(p, constant + moved[register]) for p, constant, moved in self.moves]
        # The empty product () is the stride 1. Its part becomes an immediate of the instruction, not a step of the
        # pointer.
        number = sum([n for p, n in counts if not p]) * self.size
        pointer = self._moved(tuple([(p, n) for p, n in counts if p and n]))
        return self.w.let(f"add i64 {pointer}, {number}") if number else pointer

    def _moved(self, counts: tuple[tuple[Product, int], ...]) -> str:
        """Returns the pointer plus n · stride for each (stride, n) in `counts`. Computes it with one addition to the
        nearest lower pointer in the same straight-line code."""
        w, first = self.w, ("pointer", self.memory, self.map.uniform, self.map.threads)
        if not counts:
            return w.text.here(first, self._pointer)
        *rest, (product, n) = counts
        chain: dict[int, str] = w.text.here((*first, *rest, product), lambda: {0: self._moved(tuple(rest))})
        if n not in chain:
            # The step starts from the nearest pointer, not from the first, so that few multiples of a stride are live
            # at the same time. If each address is computed from its own offset, matrix products are 2 to 11 % slower
            # (docs/measurements.md, `address=plain`).
            near = max(k for k in chain if k < n)
            chain[n] = w.let(f"add i64 {chain[near]}, {self._step(product, (n - near) * self.size)}")
        return chain[n]

    def _pointer(self) -> str:
        """Computes the pointer to the thread's first element. Constant offsets are not included."""
        w = self.w
        offset = self._wide(w.text.here(("offset", self.map.uniform, self.map.threads), self._offset))
        element = w.let(f"getelementptr i{8 * self.size}, ptr addrspace(1) {w.registers[self.memory][0]}, i64 {offset}")
        return w.let(f"ptrtoint ptr addrspace(1) {element} to i64")

    def _step(self, product: Product, bytes: int) -> str:
        make = lambda: self.w.let(f"mul i64 {self._wide(self._product(product))}, {bytes}")  # noqa: E731
        return self.w.text.here(("step", product, bytes), make)

    def _offset(self) -> str:
        """Computes the offset of the thread's first element, in the kernel's index type."""
        w = self.w
        parts = [self._thread_part(product, axes) for product, axes in self.map.threads]
        for product, factor in self.map.uniform:
            parts.append(self._times(self._product(product), factor) if product else str(factor))
        parts = [p for p in parts if p != "0"]
        return reduce(lambda a, b: w.let(f"add {w.index} {a}, {b}"), parts) if parts else "0"

    def _thread_part(self, product: Product, axes: Axes) -> str:
        """Computes the amount that the thread index adds to the offset along all axes, multiplied by the stride
        `product`."""
        w = self.w
        bases = tuple(sum(column) for column in zip(*axes, strict=True))
        # If there are no carries between axes, shifts and masks of the thread's index compute the sum over all axes
        # together.
        if sum(bases) == reduce(or_, bases, 0):
            total = w.head.index(w.head.linear(bases))
        else:
            along = [self._along(axis) for axis in axes]
            total = reduce(lambda a, b: w.head.once(f"add {w.index} {a}, {b}"), along)
        if total == "0":
            return total
        return self._multiplied([total, *(self._scalar(name) for name in product)], product)

    def _along(self, axis: tuple[int, ...]) -> str:
        """Computes the amount that the thread index adds along one axis: coordinate · coefficient. Shifts and masks
        compute the coordinate, because its bits cause no carries."""
        scale = max(1, gcd(*axis))
        coordinate = self.w.head.index(self.w.head.linear(tuple(base // scale for base in axis)))
        if scale == 1 or coordinate == "0":
            return coordinate
        return self.w.head.once(f"mul {self.w.index} {coordinate}, {scale}")

    def _product(self, product: Product) -> str:
        return self.w.text.here(
            ("product", product), lambda: self._multiplied([self._scalar(name) for name in product], product)
        )

    def _multiplied(self, names: list[str], product: Product) -> str:
        """Multiplies the registers `names`. If all scalars of `product` exist at the start of the kernel, the
        multiplication is emitted there."""
        w = self.w
        make = w.head.once if all(w.maps.affines.scalars[name] in w.maps.given for name in product) else w.let
        return reduce(lambda a, b: make(f"mul {w.index} {a}, {b}"), names)

    def _scalar(self, name: int) -> str:
        w, value = self.w, self.w.maps.affines.scalars[name]
        register, bits = w.registers[value][0], w.bits(value.dtype)
        if not register.startswith("%") or w.index == f"i{bits}":
            return register
        make = w.head.once if value in w.maps.given else w.let
        return make(f"sext i{bits} {register} to {w.index}")

    def _times(self, name: str, factor: int) -> str:
        return name if factor == 1 else self.w.let(f"mul {self.w.index} {name}, {factor}")

    def _wide(self, name: str) -> str:
        w = self.w
        return name if w.index == "i64" or not name.startswith("%") else w.let(f"sext i32 {name} to i64")
