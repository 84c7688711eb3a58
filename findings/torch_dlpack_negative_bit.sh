#!/usr/bin/env bash
# A tensor with the negative bit (torch._neg_view, the imaginary part of a conjugate) through DLPack: one would expect
# its values, or an error, as tensor.numpy() and the conjugate bit have. torch 2.11 exports the memory and drops the
# bit: every element has the other sign, without a word.
# It hurts who hands tensors of complex arithmetic to numpy, CuPy, JAX or a kernel language by DLPack.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.11.0 numpy==2.4.6
cat >"$work/try.py" <<'EOF'
import sys

import numpy as np
import torch

z = torch.tensor([1 + 2j, 3 - 4j]).conj()
part = z.imag
print(f"torch {torch.__version__}, numpy {np.__version__}")
found, values = np.from_dlpack(part).tolist(), part.tolist()
print(f"imaginary part of a conjugate: {values}, through DLPack {found} (known: the other sign)")
try:
    np.from_dlpack(z)
    conjugate = "exported"
except BufferError as error:
    conjugate = str(error)
print(f"the conjugate itself: {conjugate} (known: an error)")
sys.exit(found != [-value for value in values] or conjugate == "exported")
EOF
"$work/venv/bin/python" "$work/try.py"
