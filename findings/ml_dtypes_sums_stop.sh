#!/usr/bin/env bash
# np.sum of a thousand ones of bfloat16: one would expect 1000, or what bfloat16 has next to it. It is 256: numpy adds
# in the type itself, in which 256 + 1 is 256, and its pairwise sums are for its own floats alone (float16 gives 1000).
# np.mean is 0.256.
# It hurts who checks results or losses of bfloat16 by numpy's sums, means and norms.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check numpy==2.4.6 ml_dtypes==0.5.4
cat >"$work/try.py" <<'EOF'
import sys

import ml_dtypes
import numpy as np

print(f"ml_dtypes {ml_dtypes.__version__}, numpy {np.__version__}")
wrong = 0
for dtype, known in ((ml_dtypes.bfloat16, 256.0), (np.float16, 1000.0)):
    ones = np.ones(1000, dtype)
    total, mean = float(np.sum(ones)), float(np.mean(ones))
    print(f"{np.dtype(dtype)}: sum {total}, mean {mean} of 1000 ones (known: {known})")
    wrong += total != known
sys.exit(wrong != 0)
EOF
"$work/venv/bin/python" "$work/try.py"
