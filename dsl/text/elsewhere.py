"""Words of CUDA C++, Triton and Python, and what to write instead: hints of errors, and rows of `dsl explain`."""

from __future__ import annotations

from collections.abc import Container

SCHEDULE = {
    "num_warps": "'warps = 4' is how many warps a block has",
    "num_stages": "'pipeline p: 3', of the loop over p: three stages of what its iterations copy",
    "num_ctas": "'cluster 2' launches blocks in clusters of two",
    "maxnreg": "a line of a schedule: maxnreg 128",
    "__launch_bounds__": "lines of a schedule: blocks_per_sm 2, maxnreg 128",
}
THREADS = {
    "threadIdx": "tiles are distributed over the threads: arange(N) counts their elements",
    "blockDim": "'warps = N' in a schedule sets the threads of a block, 32 a warp",
    "warpSize": "32",
    "blockIdx": "block(0)", "program_id": "block(0)", "num_programs": "grid(0)", "gridDim": "grid(0)",
    "__syncthreads": "barrier(); the compiler puts those between reads and writes of tiles",
    "debug_barrier": "barrier()", "__syncwarp": "barrier(warp)",
    **{f"__shfl_{kind}sync": f"shfl.{to}(tile, distance)" for kind, to in
       {"xor_": "xor", "up_": "up", "down_": "down", "": "idx"}.items()},
    **{f"__{kind}_sync": f"vote.{kind}(tile)" for kind in ("ballot", "any", "all")},
    "__threadfence": "an atomic with order=release after the writes, one with order=acquire before the reads",
    "grid_sync": "blocks meet by atomics, by 'split', or by the next launch",
}  # fmt: skip
MEMORY = {
    "__shared__": "shared s: T[M, N]", "__constant__": "a parameter 'delta: table s32[N]'",
    "__device__": "def name(parameters):", "__global__": "kernel name(parameters; constants):",
    "__restrict__": "a launch checks that arrays do not overlap", "extern": "shared s: T[M, N]",
    "constexpr": "a constant behind ';' of the kernel: BLOCK, BLOCK = 1024",
    "__ldg": "load(x[…], cache=…), or a line 'cache x: …' of a schedule",
    "__ldcs": "load(x[…], cache=streaming)", "__stcs": "store(x[…], v, cache=streaming)",
    "memcpy_async": "copy(s[…], x[…]), then commit() and wait(0)",
    "__pipeline_memcpy_async": "copy(s[…], x[…])", "__pipeline_commit": "commit()",
    "__pipeline_wait_prior": "wait(n): at most n groups stay in flight",
    "cp.async": "copy(s[…], x[…]), commit(), wait(n); or the lines 'stage a, b: shared' and 'pipeline p: 3'",
    "make_block_ptr": "x[i : i + N, j]", "make_tensor_descriptor": "x[i : i + N, j], and 'stage x: tma'",
    "advance": "x[i : i + N, j]", "multiple_of": "assert n % 16 == 0", "max_contiguous": "x[i : i + N]",
    "assume": "assert n % 16 == 0", "nullptr": "an optional tensor is x: f32[n]?; given(x) tests it",
    **{f"atomic{name}": f"atomic_{to}(x[…], v)" for name, to in
       {"Add": "add", "Min": "min", "Max": "max", "And": "and", "Or": "or", "Xor": "xor", "Exch": "exchange"}.items()},
    "atomicCAS": "atomic_cas(x[…], expected, v)", "atomic_xchg": "atomic_exchange(x[…], v)",
    **dict.fromkeys(("atomicSub", "atomic_sub"), "atomic_add(x[…], -v)"),
    **dict.fromkeys(("atomicInc", "atomicDec", "atomic_inc", "atomic_dec"), "atomic_add(x[…], 1), or of -1"),
}  # fmt: skip
TILES = {
    **dict.fromkeys(("mma", "wmma", "mma_sync"), "dot(a, b, acc), or mma.sync.m16n8k16(a, b, acc)"),
    "dot_scaled": "written out, as in samples/matmul_scaled.tile",
    "rand": "uniform(philox(seed, offset)[0])", "randint4x": "philox(seed, offset)",
    "dropout": "keep = uniform(philox(seed, offset)[0]) >= p, then where(keep, x / (1 - p), 0)",
    "trans": "t.T", "expand_dims": "t[:, None]", "broadcast_to": "tiles broadcast as in numpy: t[:, None] + u[None, :]",
    "ravel": "reshape(t, [N])", "permute": "transpose(t, axes)",
    "join": "stack(a, b)", "interleave": "reshape(stack(a, b), [2 * N])",
    "cat": "stack(a, b, axis=0), then reshape", "split": "t[0 : N], t[N : 2 * N]; the line 'split p: 4' is split-K",
    "associative_scan": "scan(f, t, axis=)", "inline_asm_elementwise": "asm(\"…\", T, a, b)",
    "static_range": "for static i in range(N):", "static_assert": "assert", "static_print": "print(\"{}\", x)",
    "device_print": "print(\"{}\", x)", "printf": "print(\"{}\", x)", "device_assert": "assert",
    "softmax": "e = exp(v - max(v, axis=1, keepdims=true)), then e / sum(e, axis=1, keepdims=true)",
    "std": "sqrt(sum(d * d, axis=1) / cols.to(f32))",
    "clip": "clamp(x, low, high)", "power": "x ** y",
    **{f"{name}f": f"{name}(…)" for name in ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "fma", "pow")},
    **{name: f"{name[2:-1]}.approx(…), or the line 'math {name[2:-1]}: fast'" for name in
       ("__expf", "__logf", "__sinf", "__cosf")},
    "fmaxf": "maximum(a, b)", "fminf": "minimum(a, b)",
    "fabsf": "abs(x)", "__popc": "popc(x)", "__clz": "clz(x)", "__brev": "brev(x)",
    "__float2half": "x.to(f16)", "__half2float": "x.to(f32)", "static_cast": "x.to(TYPE)",
    "reinterpret_cast": "bitcast(x, TYPE)", "sizeof": "size(T)",
}  # fmt: skip
PYTHON = {
    "break": "a loop has no 'break': bound it, or use 'while'",
    "continue": "a loop has no 'continue': put the rest of its body in an 'if'",
    "pass": "a block holds at least one statement",
    "lambda": "a 'def' ahead of the kernel, or within it",
    "len": "dims are named: x: f32[n] has n elements",
    "float": "x.to(f32); the literals inf and -inf need nothing",
    "int": "x.to(s32)",
    "astype": "x.to(TYPE)",
    "None": "t[:, None] adds an axis; an optional tensor is x: f32[n]?",
}

INSTEAD = {**SCHEDULE, **THREADS, **MEMORY, **TILES, **PYTHON}
"""Word → what to write, or where it is said. Words that differ from ours by case or an underscore alone need no row."""

OTHER_NAMES = {"amax": "max", "amin": "min", "fabs": "abs", "absolute": "abs", "fmax": "maximum", "fmin": "minimum"}
"""Functions of numpy and torch that have another name here."""

MODULES = frozenset(
    ("tl", "triton", "libdevice", "math", "np", "numpy", "torch", "std", "cuda", "cub", "cg", "cute", "cutlass", "ptx")
)
"""What other languages write in front of their functions."""


def instead_of(name: str, known: Container[str] = ()) -> str | None:
    """Returns what to write instead of a foreign word, such as `threadIdx.x` or `tl.rand`. `known` contains the names
    of the language's functions: for `tl.exp` the hint is that `exp` stands alone. Returns None for other words."""
    if name in INSTEAD:
        return INSTEAD[name]
    words = name.replace("::", ".").split(".")
    rest = words[:]
    while rest and rest[0] in (*MODULES, "language", "extra", "nn", "functional"):
        rest = rest[1:]
    if rest and len(rest) < len(words) and rest[0] in known:
        return f"{rest[0]}(…), without '{'.'.join(words[: len(words) - len(rest)])}.'"
    if rest and OTHER_NAMES.get(rest[0]) in known:
        return f"{OTHER_NAMES[rest[0]]}(…)"
    if rest and (found := INSTEAD.get(".".join(rest)) or INSTEAD.get(rest[0])) is not None:
        return found
    if words[0] not in MODULES:
        return None
    return "functions have no module in front: exp(x), sum(x, axis=0)"
