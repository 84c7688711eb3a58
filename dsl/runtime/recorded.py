"""Tensors that torch records for gradients, which a kernel does not have."""

from __future__ import annotations

import sys
from typing import Any

from dsl.runtime.errors import LaunchError

NO_GRADIENT = (
    "cannot be passed while torch records: a kernel has no gradient, so everything before it would be trained as if it "
    "were a constant"
)
WITH_GRADIENT = "x.detach(), with torch.no_grad(), or a torch.autograd.Function around the call and its backward"


def refuse_recorded(x: Any) -> None:
    """LaunchError for a tensor that torch records and whose number would be taken by value."""
    if getattr(x, "requires_grad", False) and is_recorded(x):
        raise LaunchError("array", f"a number of torch that requires a gradient {NO_GRADIENT}", WITH_GRADIENT)


def is_recorded(x: Any) -> bool:
    """Whether torch records operations on a tensor for gradients: not inside an operator, which has a gradient of its
    own. Forward-mode gradients are recorded, too."""
    if getattr(x, "requires_grad", False):
        # Not imported: a tensor exists, so torch is loaded.
        torch = sys.modules["torch"]
        return torch.is_grad_enabled() and not is_below_autograd(torch)
    forward: Any = sys.modules.get("torch.autograd.forward_ad")
    return getattr(forward, "_current_level", -1) >= 0 and forward.unpack_dual(x).tangent is not None


def is_below_autograd(torch: Any) -> bool:
    """Whether this code runs inside an operator whose caller records it."""
    # A private function of torch: without it every tensor that requires a gradient is refused.
    try:
        return torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradFunctionality)
    except AttributeError:
        return False
