"""Adds rows for the reference functions `ref.NAME(…)` that examples compare with.

`reference.py` implements these functions. `axis` is the last axis by default. Without `axis`, reductions such as `max`
reduce all elements."""

from __future__ import annotations

from typing import Any

from dsl.lowering.ir.location import Loc
from dsl.values.host import Host
from dsl.values.later import on_arrays
from dsl.values.table import Meaning, rows

row = rows("References")

ELEMENTWISE = "the function of elements of that name"
REDUCTION = "of all elements, or along an axis"
REFERENCES = {
    "softmax(x, [axis=])": "along an axis",
    "log_softmax(x, [axis=])": "along an axis",
    "softmax_backward(y, dy, [axis=])": "dx, from the result y and its gradient dy",
    "log_softmax_backward(y, dy, [axis=])": "dx, from the result y and its gradient dy",
    "rmsnorm(x, [weight=], [eps=], [axis=])": "defaults: weight 1, eps 1e-5",
    "layernorm(x, [weight=], [bias=], [eps=], [axis=])": "defaults: weight 1, bias 0, eps 1e-5",
    "erf(x)": ELEMENTWISE,
    "gelu(x)": ELEMENTWISE,
    "gelu_tanh(x)": ELEMENTWISE,
    "sigmoid(x)": ELEMENTWISE,
    "silu(x)": ELEMENTWISE,
    "relu(x)": ELEMENTWISE,
    "sum(x, [axis=], [keepdims=])": REDUCTION,
    "mean(x, [axis=], [keepdims=])": REDUCTION,
    "max(x, [axis=], [keepdims=])": REDUCTION,
    "min(x, [axis=], [keepdims=])": REDUCTION,
    "argmax(x, [axis=], [keepdims=])": REDUCTION,
    "argmin(x, [axis=], [keepdims=])": REDUCTION,
    "logsumexp(x, [axis=], [keepdims=])": "log(sum(exp(x)))",
    "cumsum(x, [axis=])": "running sums",
    "sort(x, [axis=])": "ascending, NaN last",
    "matmul(a, b)": "a[…, m, k] @ b[…, k, n]",
    "attention(q, k, v, [scale=], [causal=])": "softmax(q @ kᵀ · scale) @ v; default scale 1/√d",
    "conv2d(x, weight, [bias=], [stride=], [pad=], [dilation=], [groups=])":
        "x[N, C, H, W], weight[K, C/groups, R, S]; stride, pad and dilation: a number or (height, width)",
    "nc32hw32(x)": "[N, C, H, W] as [N, C/32, H, W, 32]",
    "nchw(x)": "[N, C/32, H, W, 32] as [N, C, H, W]",
}  # fmt: skip


def _reference(name: str) -> Meaning:
    def arrays(host: Host, loc: Loc, *values: Any, **named: Any) -> Any:
        return on_arrays.refer(host, loc, name, values, named)

    return arrays


for _usage, _means in REFERENCES.items():
    row(f"ref.{_usage}", _means, arrays=_reference(_usage.partition("(")[0]))
