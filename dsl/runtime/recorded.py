"""Finds tensors whose operations torch records for gradients, and values that JAX traces. A launch refuses both: a
kernel has no gradient, and a traced value has no memory."""

from __future__ import annotations

import sys
from typing import Any

from dsl.runtime.errors import LaunchError

NO_GRADIENT = (
    "cannot be passed while torch records: a kernel has no gradient, so everything before it would be trained as if it "
    "were a constant"
)
WITH_GRADIENT = (
    'dsl.torch.op(m.softmax, "mylib::softmax", backward=…) is an operator with a gradient; or x.detach(), or call it '
    "with torch.no_grad()"
)
TRACED = "that JAX traces cannot be passed to a kernel, because it has no memory"
NOT_TRACED = (
    "dsl.jax.op(m.softmax) is a function for jax.jit, jax.grad and jax.vmap; or call the kernel outside of them"
)


def refuse_recorded(x: Any) -> None:
    """Raises LaunchError for a number that JAX traces, and for a tensor that is passed by value while torch records its
    operations for gradients."""
    if is_jax_tracer(x):
        raise LaunchError("array", f"a number {TRACED}", NOT_TRACED)
    if getattr(x, "requires_grad", False) and is_recorded(x):
        raise LaunchError("array", f"a number of torch that requires a gradient {NO_GRADIENT}", WITH_GRADIENT)


def is_recorded(x: Any) -> bool:
    """Returns whether torch records operations on the tensor `x` for backward-mode or forward-mode gradients.

    Inside a torch operator, `requires_grad` is ignored, because the operator defines its own gradient."""
    if getattr(x, "requires_grad", False):
        # A tensor exists, so torch is already loaded.
        torch = sys.modules["torch"]
        return torch.is_grad_enabled() and not is_below_autograd(torch)
    forward: Any = sys.modules.get("torch.autograd.forward_ad")
    return getattr(forward, "_current_level", -1) >= 0 and forward.unpack_dual(x).tangent is not None


def is_jax_tracer(x: Any) -> bool:
    """Returns whether `x` stands for a value inside of jax.jit, jax.grad or jax.vmap."""
    # By names, since importing JAX takes long. A tracer has all attributes of an array, and some raise errors of JAX.
    kind = type(x)
    return kind.__module__.startswith("jax") and any(base.__name__ == "Tracer" for base in kind.__mro__)


def is_below_autograd(torch: Any) -> bool:
    """Returns whether this code runs inside an operator of torch. In this case, torch records the operator as a
    whole."""
    # The function is private to torch. If it is missing, every tensor that requires a gradient is refused.
    try:
        return torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradFunctionality)
    except AttributeError:
        return False
