"""Tensors that torch records, for gradients that a kernel has not."""

from __future__ import annotations

import sys
from typing import Any

from dsl.runtime.errors import LaunchError

NO_GRADIENT = (
    "cannot be passed while torch records: a kernel has no gradient, and what is behind it would be trained as if it "
    "were a constant"
)
WITH_GRADIENT = "x.detach(), with torch.no_grad(), or a torch.autograd.Function around the call and its backward"


def refuse_recorded(x: Any) -> None:
    """LaunchError for a tensor that torch records and whose numbers are to be taken as they are."""
    if getattr(x, "requires_grad", False) and is_recorded(x):
        raise LaunchError("array", f"a number of torch that requires a gradient {NO_GRADIENT}", WITH_GRADIENT)


def is_recorded(x: Any) -> bool:
    """Whether torch records what is done with a tensor, for gradients: not in an operator's own code, whose gradient is
    the operator's. Forward-mode gradients are recorded, too."""
    if getattr(x, "requires_grad", False):
        torch = sys.modules["torch"]
        return torch.is_grad_enabled() and not is_below_autograd(torch)
    forward: Any = sys.modules.get("torch.autograd.forward_ad")
    return getattr(forward, "_current_level", -1) >= 0 and forward.unpack_dual(x).tangent is not None


def is_below_autograd(torch: Any) -> bool:
    """Whether this is the code of an operator, called by what records it."""
    try:
        return torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradFunctionality)
    except AttributeError:
        return False
