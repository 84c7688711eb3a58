"""What CONTRIBUTING.md says is all that a new elementwise operation takes, is all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRY = """
from dsl.lowering.ops.elementwise.declare import function, neutral
from dsl.lowering.ops.spec import Algebra
{file}
import numpy as np
from click.testing import CliRunner
from dsl.command import cli
from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.ir.types import S32
from tests.compile_and_run import run
from tests.run_meaning import meant

TEXT = "kernel k(y: u8[n], a: u8[n], b: u8[n]):\\n    grid 1\\n    y[0 : 256] = andnot(a[0 : 256], b[0 : 256])\\n"
a, b = (np.random.default_rng(seed).integers(0, 256, 256, dtype=np.uint8) for seed in (0, 1))
for how in (run, meant):
    args = {{"y": np.zeros(256, np.uint8), "a": a, "b": b}}
    how(TEXT, args)
    assert (args["y"] == a & ~b).all(), how
ir = Builder(Loc(Source("test", ""), 0, 0))
assert constant_of(ir.value("andnot", ir.constant(7, S32), ir.constant(2, S32))) == 5
assert "the bits of a that b has not" in CliRunner().invoke(cli, ["explain", "andnot"]).output
print("it is all")
"""


def test_an_elementwise_operation_is_one_file() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (file,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.S) if '"andnot"' in block)
    command = [sys.executable, "-c", TRY.format(file=file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout == "it is all\n", done.stderr
