"""`python -m tests.ptxas_versions`: which versions of ptxas make which fault that is written around, a line each.

Each wheel goes to a temporary folder. Ends with 1 where a version makes a fault that `tests/lowering/ptxas_texts.py`
does not say of it, or does not make one that it says.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lowering"))
from ptxas_texts import FAULTS, HEAD, entry, kernels_of

from dsl.runtime.tools import sass

VERSIONS = (
    *("12.0.140", "12.3.107", "12.4.131", "12.5.82", "12.6.85", "12.8.93", "12.9.86"),
    *("13.0.88", "13.1.115", "13.2.86", "13.3.73", "13.4.92", "13.5.37"),
)


def machine_code(version: str, ptx: str) -> dict[str, str]:
    """Of each kernel of a text, by that version's ptxas."""
    wheel = "nvidia-cuda-nvcc" + ("-cu12" if version.startswith("12.") else "")
    with tempfile.TemporaryDirectory(prefix="ptxas-") as folder:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, f"{wheel}=={version}"]
        subprocess.run(pip, check=True, timeout=300)
        (program,) = Path(folder).rglob("bin/ptxas")
        source, made = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(ptx)
        subprocess.run([program, "-arch=sm_90a", source, "-o", made], check=True, timeout=120)
        return kernels_of(sass(made.read_bytes()))


def main() -> int:
    ptx, surprises = HEAD + "".join(entry(name, fault.body) for name, fault in FAULTS.items()), 0
    for version in VERSIONS:
        major, minor = re.findall(r"\d+", version)[:2]
        code = machine_code(version, ptx)
        made = {name: fault.shows(code[name]) for name, fault in FAULTS.items()}
        said = {name: fault.is_known((int(major), int(minor))) for name, fault in FAULTS.items()}
        surprises += made != said
        line = ", ".join(name for name in FAULTS if made[name]) or "none"
        print(f"ptxas {version}: {line}" + (" (not as the tests say)" if made != said else ""), flush=True)
    return int(surprises > 0)


if __name__ == "__main__":
    sys.exit(main())
