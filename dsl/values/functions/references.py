"""References of examples: `ref.NAME(…)`, in float64, or exact in int64 where all inputs are integers. Layouts and
formulas are PyTorch's; `axis` is the last one unless said."""

from __future__ import annotations

from typing import Any

from dsl.lowering.ir.location import Loc
from dsl.values.host import Host
from dsl.values.later import on_arrays
from dsl.values.table import Meaning, rows

row = rows("References")

REDUCTION = "of all elements unless an axis is given"
REFERENCES = {
    "softmax(x, [axis=])": "along an axis",
    "log_softmax(x, [axis=])": "along an axis",
    "softmax_backward(y, dy, [axis=])": "the gradient dx, of the result y and its gradient dy",
    "log_softmax_backward(y, dy, [axis=])": "the gradient dx, of the result y and its gradient dy",
    "rmsnorm(x, [weight=], [eps=], [axis=])": "weight is 1 unless given, eps 1e-5",
    "layernorm(x, [weight=], [bias=], [eps=], [axis=])": "weight is 1 and bias 0 unless given, eps 1e-5",
    "erf(x)": "the error function",
    "gelu(x)": "x·Φ(x)",
    "gelu_tanh(x)": "the tanh form",
    "sigmoid(x)": "1/(1+e^−x)",
    "silu(x)": "x·sigmoid(x)",
    "relu(x)": "x, or 0 where it is negative",
    "sum(x, [axis=], [keepdims=])": REDUCTION,
    "mean(x, [axis=], [keepdims=])": REDUCTION,
    "max(x, [axis=], [keepdims=])": REDUCTION,
    "min(x, [axis=], [keepdims=])": REDUCTION,
    "argmax(x, [axis=], [keepdims=])": REDUCTION,
    "argmin(x, [axis=], [keepdims=])": REDUCTION,
    "logsumexp(x, [axis=], [keepdims=])": "log(sum(exp(x)))",
    "cumsum(x, [axis=])": "running sums",
    "sort(x, [axis=])": "rising, NaN last",
    "matmul(a, b)": "a[…, m, k] @ b[…, k, n]",
    "attention(q, k, v, [scale=], [causal=])": "softmax(q @ kᵀ · scale) @ v; scale is 1/√d unless given",
    "conv2d(x, weight, [bias=], [stride=], [pad=], [dilation=], [groups=])":
        "x[N, C, H, W] with weight[K, C/groups, R, S]; a number or (height, width) each",
    "nc32hw32(x)": "[N, C, H, W] as [N, C/32, H, W, 32]",
    "nchw(x)": "[N, C/32, H, W, 32] as [N, C, H, W]",
}  # fmt: skip


def _reference(name: str) -> Meaning:
    def arrays(host: Host, loc: Loc, *values: Any, **named: Any) -> Any:
        return on_arrays.refer(host, loc, name, values, named)

    return arrays


for _usage, _means in REFERENCES.items():
    row(f"ref.{_usage}", _means, arrays=_reference(_usage.partition("(")[0]))
