#!/usr/bin/env bash
# An array of JAX through DLPack in torch, which writes it: one would expect a copy, or a view that may not be written
# (as numpy's is), since arrays of JAX never change. torch 2.11 takes no notice of DLPack's flag of what may only be
# read: the array of JAX 0.10.2 changes.
# It hurts who passes arrays of JAX to functions that write into their arguments.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --no-compile --disable-pip-version-check jax==0.10.2 torch==2.11.0 numpy==2.4.6
cat >"$work/try.py" <<'EOF'
import sys

import jax
import jax.numpy as jnp
import numpy as np
import torch

print(f"jax {jax.__version__}, torch {torch.__version__}, numpy {np.__version__}")
array = jnp.zeros(4)
may_write = np.from_dlpack(array).flags.writeable
torch.from_dlpack(array)[0] = 9
found = array.tolist()
print(f"numpy's view may be written: {may_write} (known: False)")
print(f"the array behind torch's write: {found} (known: 9 first)")
sys.exit(may_write or found != [9, 0, 0, 0])
EOF
JAX_PLATFORMS=cpu "$work/venv/bin/python" "$work/try.py"
