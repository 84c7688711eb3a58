#!/usr/bin/env bash
# An operator of torch.library whose backward pass registers a second operator when it is first traced: one would expect
# that torch.compile's caches on disk (AOTAutograd's and Inductor's) notice that a process lacks an operator of a kept
# graph, and trace again. torch 2.13 runs the kept code: the first process computes the gradient, and the second one,
# with the same text, ends with AttributeError in the backward pass.
# It hurts libraries that make operators when they need them. All operators must be registered before the first call.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cat >"$work/try.py" <<'EOF2'
import torch
from torch.library import custom_op

made = {}


@custom_op("finding::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@scaled.register_fake
def _(x):
    return torch.empty_like(x)


def gradient(ctx, g):
    if not made:
        name, schema = "finding::scaled_gradient", "(Tensor g) -> Tensor"
        made["op"] = custom_op(name, lambda g: 2 * g, mutates_args=(), schema=schema)
        made["op"].register_fake(torch.empty_like)
    return made["op"](g)


scaled.register_autograd(gradient)
x = torch.ones(4, requires_grad=True)
y = torch.compile(lambda x: scaled(x).sum(), fullgraph=True)(x)
try:
    y.backward()
    print(x.grad.tolist())
except AttributeError as error:
    print(f"AttributeError: {error}")
EOF2
export TORCHINDUCTOR_CACHE_DIR=$work/cache
first=$("$work/venv/bin/python" "$work/try.py")
second=$("$work/venv/bin/python" "$work/try.py")
"$work/venv/bin/python" -c 'import torch; print("torch", torch.__version__)'
echo "first process:  $first (known: [2.0, 2.0, 2.0, 2.0])"
echo "second process: $second (known: AttributeError, no attribute 'scaled_gradient')"
[[ $first == "[2.0, 2.0, 2.0, 2.0]" && $second == "AttributeError"*"scaled_gradient"* ]]
