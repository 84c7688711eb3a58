#!/usr/bin/env bash
# y is saved for a gradient and then changed by somebody who has it through DLPack: one would expect the error that a
# change by torch itself gives ("modified by an inplace operation"). torch 2.11 counts no versions of what others write
# (y._version stays 0), and backward takes the new values: the gradient is 28 in place of 8, without a word.
# It hurts who calls kernels of other libraries on tensors in a model: a wrong gradient trains on.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check torch==2.11.0 numpy==2.4.6
cat >"$work/try.py" <<'EOF'
import sys

import numpy as np
import torch

print(f"torch {torch.__version__}, numpy {np.__version__}")


def gradient(change):
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    z = (y * y).sum()
    change(y)
    try:
        z.backward()
    except RuntimeError as error:
        return f"error: {str(error)[:80]}"
    return w.grad.tolist()


def by_torch(y):
    with torch.no_grad():
        y.fill_(7)


def by_dlpack(y):
    np.from_dlpack(y.detach())[...] = 7


found = {change.__name__: gradient(change) for change in (by_torch, by_dlpack, lambda y: None)}
for name, said in found.items():
    print(f"{name}: {said}")
known = found["by_torch"].startswith("error") and found["by_dlpack"] == [28.0] * 3 and found["<lambda>"] == [8.0] * 3
sys.exit(not known)
EOF
"$work/venv/bin/python" "$work/try.py"
