"""Every error code: what it means and what leads to it. `dsl explain CODE` shows it; a test holds that none is missing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """`meaning`: what is wrong and what to do; `example`: what leads to it, and after an arrow what is right."""

    meaning: str
    example: str


CODES = {
    # ---- files and the command line ----
    "argument": Code(
        "A NAME=VALUE or an option of the command line means nothing here, or could mean two things. Prefixes tell apart: "
        "dim. and const. and sched. and option.",
        "dsl run softmax.tile colls=1000  →  dsl run softmax.tile cols=1000",
    ),
    "file": Code("A file cannot be read, or is no UTF-8 text.", "dsl run missing.tile"),
    "import": Code(
        "An import finds no file, or one outside the folder of the file that is compiled.",
        'import "../other.tile"  →  a file beside this one or below it',
    ),
    "example": Code("The file has no example to run, or none of that name.", "dsl run FILE --example NAME"),
    "memory": Code("The host's memory does not suffice.", "an example with arrays of 100 GiB"),
    "time-limit": Code("A launch did not end in time and was stopped.", "while true: …  →  --time-limit SECONDS for more"),
    # ---- text ----
    "syntax": Code("The text does not follow the grammar, or a statement stands where it has no meaning.", "kernel f(x f16[n])  →  kernel f(x: f16[n])"),
    "indentation": Code("A line is indented like no block above it, or without a reason.", "a suite of 4 spaces, then a line of 3"),
    "limit": Code(
        "Something is larger than the language allows: a file of 1 MiB, nesting of 200, a tile of 2^20 elements, "
        "unrolled code, an array in an example.",
        "for static i in range(1000000): …",
    ),
    "name": Code("A name is unknown here, or is defined twice.", "y = lod(x)  →  y = load(x)"),
    # ---- values and types ----
    "type": Code(
        "Values of these types do not go together. Conversions are explicit.",
        "f16 tile + f32 tile  →  (f16 tile).to(f32) + f32 tile",
    ),
    "shape": Code("Shapes do not fit: they broadcast as in numpy.", "zeros(f32[4]) + zeros(f32[8])"),
    "extent": Code("An extent is negative or zero, or no integer known at compile time; in registers a power of two.", "zeros(f32[100])  →  zeros(f32[128]) with a mask"),
    "constant": Code(
        "A compile-time expression has no value, or something that must be known at compile time is not.",
        "7 / 2  →  7 // 2 or cdiv(7, 2)",
    ),
    "call": Code("A function, kernel or launch gets arguments that it does not take.", "max(x, y)  →  maximum(x, y); max reduces one tile"),
    # ---- schedules and layouts ----
    "schedule": Code("A line of a schedule sets something unknown, or a value that it cannot have.", "warps = 3  →  a power of two up to 32"),
    "layout": Code(
        "A layout does not cover its tile, or an operation cannot be done under it.",
        "layout v: vector [1, 8], lanes [4, 4]  →  lanes whose product is 32",
    ),
    "copy": Code("A copy cannot be asynchronous: it needs 4, 8 or 16 aligned bytes a thread.", "require async for rows of odd length"),
    "hazard": Code("A shared tile is read while a copy into it may be in flight.", "copy(s, x[…]); v = s[0]  →  commit() and wait(0) before"),
    "shared": Code("A block needs more shared memory than the target has.", "shared s: f32[65536]  →  smaller tiles, or fewer stages"),
    "target": Code("The target is unknown, or does not have what the kernel uses.", "--arch sm_75"),
    "instruction": Code("An instruction is unknown, or not one of the target.", "mma.sync.m16n8k64 on sm_80"),
    # ---- calls and launches ----
    "dispatch": Code("No branch of the dispatch serves these arguments.", "add an 'otherwise:' branch"),
    "require": Code("A dispatch's 'require' does not hold for these arguments.", "require cols % 8 == 0, called with cols = 1000003"),
    "requires": Code(
        "A compiled variant is called with dims or alignment that it was not compiled for.",
        "a kernel compiled for cols = 1000, called with cols = 2000  →  call the dispatch, or compile again",
    ),
    "arguments": Code("A launch gets too many or too few arguments, or a name that is none.", "kernel(y)  →  kernel(y, x)"),
    "array": Code("An argument is no array, or one that cannot be passed.", "kernel(y, [1, 2, 3])  →  an array of torch, CuPy, JAX or numpy"),
    "rank": Code("An array has another number of axes than its parameter.", "x: f16[rows, cols], called with an array of shape [1000]"),
    "dim": Code("Two arrays give a dim different extents, or a literal dim is another.", "y[4, 8] with x[4, 9]"),
    "dtype": Code("An array has another element type than its parameter.", "x: f16[n], called with float32  →  convert the array"),
    "contiguous": Code("An array is not row-major, and the parameter is not strided.", "x.T  →  a contiguous copy, or declare x: f16[m, n; strided]"),
    "align": Code("An array's address is not aligned as the variant needs it.", "x[1:] of an array of f16"),
    "overlap": Code("An array that is written shares memory with another argument.", "softmax(x, x)  →  softmax(y, x)"),
    "output": Code("An output cannot be written or made.", "a JAX array as an output  →  pass one of torch, CuPy or numpy"),
    "index": Code("An array is too large for the variant's 32-bit indices.", "2^31 elements or more  →  compile for these dims"),
    "scalar": Code("A scalar argument is no number of its type, or does not fit.", "n: s8, called with 300"),
    "table": Code("A table argument has another length or type.", "offsets: table s32[9], called with 8 numbers"),
    "grid": Code("The grid is malformed or larger than CUDA allows.", "grid 0x80000000"),
    "expression": Code("A grid or a condition of a launch has no value for these dims.", "grid 100 / n, called with n = 0"),
    "stream": Code("A stream is none, or of another device.", 'kernel(y, x, stream="default")'),
    "expect": Code("An 'expect' line cannot be evaluated.", "expect y ~= x within -1"),
    # ---- PTX text ----
    "header": Code("PTX text has no //dsl header, or a malformed one.", "dsl run nvcc.ptx  →  PTX that dsl compile wrote"),
    "entry": Code("PTX text has no such entry, or several of which none was chosen.", "dsl run k.ptx --example NAME"),
    "ptx": Code("PTX text is refused by the emulator, or holds other kernels than the example launches.", "an instruction that no target has"),
    "ptxas": Code("ptxas refuses the PTX; its log names the lines.", "a body that was edited by hand"),
    "jit": Code("The driver refuses the PTX.", "a driver that is older than the PTX version"),
    "tool": Code("A program of the CUDA toolkit is not installed, or fails.", "dsl compile --emit sass without nvdisasm"),
    # ---- devices ----
    "device": Code("A device's name is none, or arrays are on the wrong device.", "--device gpu  →  auto, cuda, cuda:1 or emulator"),
    "no-gpu": Code("There is no GPU, or no driver for it.", "--device cuda on a machine without one  →  --device emulator"),
    "arch": Code("The kernel is compiled for another architecture than the device has.", "sm_90a PTX on sm_100"),
    "cuda": Code("A call of the CUDA driver failed.", "an illegal address"),
    "poisoned": Code("The device failed in an earlier launch, and no more can be launched in this process.", "start again; dsl run names the line on the emulator"),
    "fork": Code("CUDA was used before a fork, and cannot be used after it.", 'multiprocessing  →  the start method "spawn"'),
    "time": Code("Nothing was measured.", "a measurement of no runs"),
    "finding": Code(
        "The strict emulator found a fault: a race, a read of what was never written, an access out of bounds or misaligned, "
        "a missing lane, a deadlock.",
        "a dropped barrier between a store to shared memory and a load of it",
    ),
    "device-assert": Code("An assert of the kernel was false on the device.", "assert n < 100, where it is not"),
}  # fmt: skip
"""In groups, as an error is met on the way from the text to the device."""
