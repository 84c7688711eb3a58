"""Reads torch's tensors. Recognises tensors with equal types, shapes and strides by the guards of torch.compile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any

from dsl.runtime.arrays import Array
from dsl.runtime.dtypes import DTYPES
from dsl.runtime.frameworks.framework import Framework, Recogniser, dtype_name, refuse, unrecognised
from dsl.runtime.recorded import NO_GRADIENT, WITH_GRADIENT, is_recorded


class Torch(Framework):
    name = "torch"
    modules = ("torch",)
    types = ("Tensor",)

    def probe(self, x: Any) -> tuple[int, Hashable]:
        # The signature contains `is_neg` and `is_recorded`, because `describe` refuses such tensors.
        return x.data_ptr(), (x.dtype, x.shape, x.stride(), x.get_device(), x.is_neg(), is_recorded(x))

    @staticmethod
    def reader(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
        for x in arrays:
            pointers.append(x.data_ptr())
            signatures.append((x.dtype, x.shape, x.stride(), x.get_device(), x.is_neg(), is_recorded(x)))

    def recogniser(self, arrays: Sequence[Any]) -> Recogniser:
        if not guards_work():
            return unrecognised
        guards = tensor_guards(arrays)
        if not any(getattr(x, "requires_grad", False) for x in arrays):
            return guards
        records = sys.modules["torch"].is_grad_enabled
        return lambda *tensors: not records() and guards(*tensors)  # the guards do not test whether torch records

    def pointer(self) -> Callable[[Any], int]:
        return sys.modules["torch"].Tensor.data_ptr

    def describe(self, x: Any) -> Array:
        if getattr(x, "is_nested", False):
            raise refuse(x, "that is nested cannot be passed to a kernel", "to_padded_tensor(0.0), or one of unbind()")
        if x.device.type not in ("cuda", "cpu"):
            raise refuse(x, f"on {x.device.type} cannot be passed to a kernel")
        if str(x.layout) != "torch.strided":
            raise refuse(x, f"with layout {x.layout} cannot be passed to a kernel", "to_dense()")
        if is_recorded(x):
            raise refuse(
                x,
                f"that requires a gradient {NO_GRADIENT}",
                WITH_GRADIENT,
            )
        # torch negates lazily, so the numbers in memory have the opposite sign.
        if x.is_neg():
            raise refuse(x, "with its negative bit set cannot be passed to a kernel", "resolve_neg()")
        dtype = dtype_name(x, str(x.dtype).removeprefix("torch."))
        shape, device = tuple(x.shape), x.device.index if x.device.type == "cuda" else None
        array = Array(self.name, address_of(x), shape, tuple(x.stride()), dtype, device)
        if not array.pointer and array.size:
            raise refuse(x, "without storage cannot be passed to a kernel")
        return array

    def changed(self) -> Callable[[list[Any]], object] | None:
        return version_counter()

    def current_stream(self) -> Callable[[int], int]:
        return sys.modules["torch"]._C._cuda_getCurrentRawStream

    def clear(self, x: Any) -> None:
        x.zero_()

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, DTYPES[dtype].numpy), device=x.device)

    def lying(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return x.as_strided(shape, strides)


@cache
def version_counter() -> Callable[[list[Any]], object] | None:
    """Returns a function that increments the version numbers of tensors. Returns None if this version of torch has no
    such function.

    With these numbers, torch detects that a tensor has changed since it was saved for a gradient."""
    torch = sys.modules["torch"]
    bump = getattr(torch._C, "_increment_version", None)
    if bump is None:
        return None
    try:
        bump([torch.zeros(1)])
    except TypeError:  # before torch 2.6: one tensor at a time
        return lambda tensors: [bump(x) for x in tensors]
    return bump


def address_of(x: Any) -> int:
    """Returns the address of a tensor. Raises LaunchError if the tensor has no memory of its own.

    Inside `vmap`, `grad` and `jvp` of torch, some tensors have no memory, because they only wrap other tensors."""
    try:
        return x.data_ptr()
    except RuntimeError:
        hint = "call the kernel outside of torch.func, or make it an operator (torch.library.custom_op) with a rule"
        raise refuse(x, "without memory of its own cannot be passed to a kernel", hint) from None


def tensor_guards(tensors: Sequence[Any]) -> Recogniser:
    """Returns torch's own function that checks whether other tensors have the same properties as `tensors`.

    The function compares types, dtypes, devices, dispatch keys, sizes, strides, and whether a tensor requires a
    gradient. torch.compile calls it before each run of compiled code. For two tensors, one call takes 150 ns. Reading
    five attributes of each tensor would take 1200 ns. The function keeps no reference to the tensors."""
    guards = sys.modules["torch"]._C._dynamo.guards.TensorGuards
    sizes, strides = [list(x.shape) for x in tensors], [list(x.stride()) for x in tensors]
    return guards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check


@cache
def guards_work() -> bool:
    """Returns whether this version of torch has usable tensor guards.

    The guards are not a public interface. So this function tests whether they distinguish all tensors that
    `Torch.probe` distinguishes."""
    torch = sys.modules["torch"]
    try:
        x = torch.zeros(4, 6)
        same, check = torch.ones(4, 6), tensor_guards([x, x])
        others = [x[:3], x[:, :5], x.reshape(6, 4), x.view(24), x.T, x[:, ::2], x.int(), x.half(), x.to("meta")]
        # A tensor with the negative bit set.
        others.append(torch.zeros(4, 6, dtype=torch.complex64).conj().imag)
        with torch.enable_grad():
            others.append(torch.zeros(4, 6, requires_grad=True))
            return check(same, x) and not any(check(x, other) or check(other, x) for other in others)
    except (AttributeError, TypeError, RuntimeError):
        return False
