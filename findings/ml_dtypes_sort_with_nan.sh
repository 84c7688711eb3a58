#!/usr/bin/env bash
# np.sort of bfloat16 with a NaN in it: one would expect NaN last and the others in order, as of numpy's floats. They
# stay as they are around the NaN, since ml_dtypes' comparison calls it equal to all: [1, nan, -1, 0] comes back.
# It hurts who sorts, or takes medians, percentiles or unique values of bfloat16 with NaN in it.
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
given = [1.0, np.nan, -1.0, 0.0]
wrong = 0
for dtype, known in ((ml_dtypes.bfloat16, given), (np.float16, [-1.0, 0.0, 1.0, np.nan])):
    found = np.sort(np.array(given, dtype)).astype(float).tolist()
    print(f"{np.dtype(dtype)}: {found} (known: {known})")
    wrong += not np.array_equal(found, known, equal_nan=True)
sys.exit(wrong != 0)
EOF
"$work/venv/bin/python" "$work/try.py"
