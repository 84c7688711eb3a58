"""Small PTX kernels written by hand: a body is wrapped with parameters, registers and a `.loc` for each of its lines.

Parameters are the pointers `x` and `y`; 4 KiB of shared memory are called `buffer`.  The registers below are set:

    %r0 thread   %r1 4 * thread   %r2 buffer   %r3 own word of buffer   %r4 the neighbour's word (thread ^ 1)
    %r5 the word of thread ^ 32   %r6 lane     %rd0 x   %rd1 y   %rd3 own word of x   %rd4 own word of y
    %r7 block    %rd5 word of x of this thread in the whole grid   %p0 lane is 0   %p1 thread is below 32
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dsl.runtime.emulator import Finding, Result, emulate

HEADER = """
.version 8.6
.target sm_90
.address_size 64
.file 1 "kernel.src"
{module}
.visible .entry kernel(.param .u64 x, .param .u64 y)
{{
  .reg .pred %p<16>;
  .reg .b16 %h<16>;
  .reg .b32 %r<64>;
  .reg .f32 %f<32>;
  .reg .b64 %rd<32>;
  .shared .align 16 .b8 buffer[{shared}];
  mov.u32 %r0, %tid.x;
  shl.b32 %r1, %r0, 2;
  mov.u32 %r2, buffer;
  add.u32 %r3, %r2, %r1;
  xor.b32 %r4, %r1, 4;
  add.u32 %r4, %r4, %r2;
  xor.b32 %r5, %r1, 128;
  add.u32 %r5, %r5, %r2;
  and.b32 %r6, %r0, 31;
  ld.param.u64 %rd0, [x];
  ld.param.u64 %rd1, [y];
  cvt.u64.u32 %rd2, %r1;
  add.u64 %rd3, %rd0, %rd2;
  add.u64 %rd4, %rd1, %rd2;
  mov.u32 %r7, %ctaid.x;
  mov.u32 %r8, %ntid.x;
  mad.lo.u32 %r9, %r7, %r8, %r0;
  mul.wide.u32 %rd5, %r9, 4;
  add.u64 %rd6, %rd1, %rd5;
  add.u64 %rd5, %rd0, %rd5;
  setp.eq.u32 %p0, %r6, 0;
  setp.lt.u32 %p1, %r0, 32;
{body}
  ret;
}}
"""


def kernel(body: str, module: str = "", shared: int = 4096) -> str:
    """The whole PTX text; line n of the body (from 1) is line n of `kernel.src`."""
    lines = []
    for number, line in enumerate(body.strip("\n").splitlines(), 1):
        lines.append(f"  .loc 1 {number} 1\n{line}" if line.strip() else line)
    return HEADER.format(module=module, shared=shared, body="\n".join(lines))


def words(count: int = 1024) -> np.ndarray:
    return np.arange(count, dtype=np.uint32)


def run(body: str, block: Any = 64, grid: Any = 1, x: Any = None, y: Any = None, **options: Any) -> tuple[Result, Any]:
    """Runs a body; returns the result and y."""
    module = options.pop("module", "")
    x = words() if x is None else x
    y = np.zeros(1024, np.uint32) if y is None else y
    return emulate(kernel(body, module), "kernel", grid, block, [x, y], **options), y


def findings(body: str, block: Any = 64, grid: Any = 1, **options: Any) -> list[Finding]:
    return run(body, block, grid, on_finding="collect", **options)[0].findings
