"""A request for a variant of a kernel. A first call from the compile cache imports this, but not the compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from dsl.lowering.ir.forced import Forced

# No access is wider than 16 bytes, so alignment to more than 16 one-byte elements does not help.
MAX_DIVISOR = 16


class Request(Struct, frozen=True):
    """A request for a variant: everything that the code depends on.

    `dims` maps names to the known extents. `types` maps type parameters to types. `constants` are set by the caller and
    override the schedule. `scalars` contains the values of scalar parameters that the schedule specialises. `align`
    maps each tensor to the alignment of its pointer in bytes (16 by default). `absent` names the optional tensors that
    the caller does not pass.

    `sms` (the number of multiprocessors) and `device` (a name) describe the device of the launch, if known.

    `index_bits` is 32 or 64. `index_bits=None` selects 32, unless a tensor has more elements than 32 bits can count.
    The caller must request 64 if elements of a view are farther apart than 32 bits can count. With `strict_bounds`, the
    kernel asserts that the indices in index tiles are in bounds. `marks` selects what a timeline records
    (`dsl/lowering/passes/marks.py`). If `marks` is empty, the kernel records no timeline.

    `choices` maps keys of compiler choices, such as `swizzle.s`, to options that override the schedule. The caller must
    check that the variant has a choice for each key. `strides` maps strided tensors to their stride classes (see
    `stride_class`). Strides of the same class have the same code. `follows` is None for the first launch of a call. For
    a later launch, it names the tensors that no earlier launch of the call writes. `leads` is True if another launch of
    the call follows (`dsl/lowering/passes/overlap.py`). `retreats` contains the options that replace those refused by a
    pass (`dsl/kernels/compile.py`).
    """

    kernel: str
    schedule: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    scalars: Mapping[str, Any] = field(default_factory=dict)
    align: Mapping[str, int] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    arch: str = "sm_90"
    sms: int | None = None
    device: str | None = None
    index_bits: int | None = None
    strict_bounds: bool = False
    marks: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    follows: tuple[str, ...] | None = None
    leads: bool = False
    retreats: Mapping[str, Forced] = field(default_factory=dict)


def stride_class(strides: Sequence[int]) -> tuple[int, ...]:
    """Maps strides, in elements, to the representative of their class. Calls whose strides are in the same class share
    a variant.

    The representative is 1 along the last axis with stride 1. Along other axes, the representative has the stride's
    sign. Its magnitude is the greatest power of two up to 16 that divides the stride, or 3 for an odd stride.

    >>> stride_class((72, 1)), stride_class((1, 40)), stride_class((67, -5))
    ((8, 1), (1, 8), (3, -3))
    """
    from dsl.values.arithmetic import pow2_divisor

    # An axis with one element may also have stride 1. In row-major order, the last axis with stride 1 has the
    # neighbouring elements.
    unit = max((axis for axis, stride in enumerate(strides) if stride == 1), default=None)
    powers = [min(pow2_divisor(stride), MAX_DIVISOR) for stride in strides]
    signs = [-1 if stride < 0 else 1 for stride in strides]
    return tuple(
        # 3 stands for odd strides, because 1 would mean that elements are neighbours.
        1 if axis == unit else sign * (power if power > 1 else 3)
        for axis, (power, sign) in enumerate(zip(powers, signs, strict=True))
    )
