"""`python -m tests.first_steps`: each command of README's "First steps", in order, as it stands, in a copy of the tree.

What the commands take for granted (a peer, a PTX text of somebody, a plug-in, a log of tuning) is made first. One that
asks for all devices is left out where there is no GPU. A line for each; ends with 1 where one fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dsl.runtime import gpu_reason

ROOT = Path(__file__).parents[1]
LIMIT = 900
"""Seconds for a command."""
PEER = """import numpy as np


def softmax(x):
    e = np.exp(x.astype(np.float32) - x.max(axis=1, keepdims=True).astype(np.float32))
    return (e / e.sum(axis=1, keepdims=True)).astype(x.dtype)
"""
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n)
{
.reg .pred %p;
.reg .b16 %h;
.reg .b32 %r<4>;
.reg .b64 %rd<3>;
ld.param.u64 %rd0, [x];
ld.param.u32 %r0, [n];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r3, %r2, %r0, %r1;
setp.ge.u32 %p, %r1, %r0;
@%p bra END;
mul.wide.u32 %rd1, %r3, 2;
add.u64 %rd2, %rd0, %rd1;
ld.global.b16 %h, [%rd2];
st.global.b16 [%rd2], %h;
END:
ret;
}
"""


def commands() -> list[str]:
    """The lines of the block, without what is said beside them."""
    block = re.search(r"^## First steps\n+```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert block is not None
    return [re.sub(r"\s+#.*", "", line) for line in block[1].splitlines()]


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dsl-first-steps-") as name:
        tree = Path(name, "dsl")
        subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)
        (tree / "peers.py").write_text(PEER)
        (tree / "k.ptx").write_text(PTX)
        shutil.copy(tree / "docs/examples/plugins/fewer_shuffles.py", tree / "mine.py")
        scripts = Path(name, "bin")
        scripts.mkdir()
        for program in ("dsl", "pytest"):
            options = " -p dsl.pytest_plugin" if program == "pytest" else ""
            script = f'#!/bin/sh\nexec "{sys.executable}" -m {program}{options} "$@"\n'
            (scripts / program).write_text(script)
            (scripts / program).chmod(0o755)
        environment = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "PYTHONPATH": str(tree)}
        for command in ["dsl tune samples/softmax.tile warps=2,4,8 --all --log log.jsonl", *commands()]:
            if "--devices all" in command and (reason := gpu_reason()) is not None:
                print(f"left out: {command} ({reason})", flush=True)
                continue
            start = time.monotonic()
            try:
                done = subprocess.run(
                    command, shell=True, cwd=tree, env=environment, capture_output=True, text=True, timeout=LIMIT
                )
                status, output = done.returncode, done.stdout[-1500:] + done.stderr[-1500:]
            except subprocess.TimeoutExpired:
                status, output = -1, f"no end in {LIMIT} s\n"
            print(f"{status}: {command} ({time.monotonic() - start:.0f} s)", flush=True)
            if status != command.startswith("dsl diff"):  # 1: they differ, as they should
                failed += 1
                print(output, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
