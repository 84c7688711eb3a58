"""Kernels of the samples at random shapes, against torch and a lower limit of the same bytes.

    python3 benchmarks/random_shapes.py products --count 300 --types bf16,f16
    python3 benchmarks/random_shapes.py reductions --seed 5 --json reductions.json
    python3 benchmarks/random_shapes.py rows --seconds 120
    python3 benchmarks/random_shapes.py convolutions --count 30 --images 8,128
    python3 benchmarks/random_shapes.py kinds --types bf16
    python3 benchmarks/random_shapes.py decoding --count 20
    python3 benchmarks/random_shapes.py gradients --count 20

"products" draws extents from 2^5 to 2^13, log-uniform, in multiples of 64, of 8, or any, with b, b.T or a.T.
"reductions" draws sums, maxima and indices of maxima: of a vector, of rows, and along the first or middle axis, with up
to `--most` elements. "rows" draws softmax, its logarithm, RMS and layer normalisation, the gradients of all but the
RMS, and softmax with mask and dropout. Triton and quack are peers of some. "convolutions" draws layers of eleven nets
in bytes, with channels innermost and one or 32 images (`--images`). "kinds" draws the products of matmul_kinds.py: in
bf16 with groups, in e4m3 with scales, in f16 with weights of four bits. "distances" draws calls of
docs/examples/distances.tile. "decoding" draws one query of each head to 1,024 to 65,536 keys, in 1 to 64 sequences.
Half of them have keys and values in pages of 16, 64 or 256 rows; "flat" is the same call without pages. `--types
s8,e4m3` draws caches of bytes, without peers but "read". "attention" draws 1,024 to 32,768 tokens, causal or not, with
heads of 64, 128 and 256 that may share keys, and "gradients" its backward pass. "varlen" and "varlen_gradients" draw
sequences of 64 to 8192 tokens, one behind the other, and "windows" calls of docs/examples/window_attention.tile, where
a query sees 128 to 4096 keys.

Every result is checked first. Then the variants of a shape are timed in one interleaved run. "read" loads every element
and writes nothing, and "copy" moves as many bytes as the operation. torch multiplies by cuBLAS, and convolutions have
cuDNN as their peer. If cuBLAS refuses a shape with scales, it multiplies without scales. The summary has the geometric
means of the peers' times divided by ours, and the slowest shapes.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from attention_cases import attention, decoding, gradients, varlen, varlen_gradients, windows
from cases import CUDA, ROOT, ROUNDING, SAMPLES, Case, close, log_uniform, numbers
from harness import Call, Interval, LeftOut, interleaved
from harness.intervals import geometric_mean
from harness.launches import facts_of
from harness.record import save
from harness.rows import OURS, Row
from harness.table import console, constants
from harness.timing import copy_of
from int8_conv_shapes import NETS, Operands, Shape
from matmul_kinds import BENCHMARKS, without_scales

import dsl
from dsl.runtime import device_facts

ROUNDS = 11
SLOWEST = 15
LAUNCH = 10.0
"""Microseconds. Below this time of the peer, ratios mostly compare launches. The summary has them apart."""


# ---- products ----


def product(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    import torch

    step = source.choice((64, 16, 16) if dtype in ("s8", "e4m3") else (64, 8, 1))
    m, n, k = (max(step, int(log_uniform(source, 32, 8192)) // step * step) for _ in range(3))
    order = "b.T" if dtype in ("s8", "e4m3") else source.choice(("b", "b.T", "a.T"))
    m = max(m, 32) if dtype == "s8" else m
    a = numbers(dtype, k, m).t() if order == "a.T" else numbers(dtype, m, k)
    b = numbers(dtype, n, k).t() if order == "b.T" else numbers(dtype, k, n)
    c = torch.empty(
        m, n, device="cuda", dtype=getattr(torch, {"s8": "int32", "e4m3": "bfloat16"}.get(dtype, CUDA[dtype]))
    )
    one = torch.ones((), device="cuda")
    peer = {
        "s8": lambda: torch._int_mm(a, b, out=c),
        "e4m3": lambda: torch._scaled_mm(a, b, one, one, out_dtype=c.dtype, out=c),
    }.get(dtype, lambda: torch.matmul(a, b, out=c))
    sample = dsl.load(SAMPLES / "matmul.tile")
    wanted: list[Any] = []

    def right() -> bool:
        if not wanted:
            wanted.append(a.double() @ b.double() if m * n * k <= 1 << 36 else a.float() @ b.float())
        return close(c, wanted[0], {"s8": 1e-7, "f32": 4e-3, "f16": 2e-3}.get(dtype, 1e-2))

    return Case(
        f"a @ {order}" if order != "a.T" else "a.T @ b",
        dtype,
        {"m": m, "n": n, "k": k, "step": step},
        sum(x.numel() * x.element_size() for x in (a, b, c)),
        {"torch": peer},
        right,
        sample,
        Call("matmul"),
        (c, a, b),
    )


# ---- reductions ----

WHAT = {"sum": {}, "amax": {"JOIN": "maximum", "EMPTY": -math.inf}, "argmax": {}}


def reduction(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    import torch

    what, form = source.choice(tuple(WHAT)), source.choice(("everything", "rows", "axis", "axis"))
    total = log_uniform(source, 1, options.most)
    along = total if form == "everything" else log_uniform(source, 1, total)
    outer = source.choice((1.0, log_uniform(source, 1, total / along)))
    inner, outer = (total / along / outer, outer) if form == "axis" else (1.0, total / along)
    outer, along, inner = (max(1, round(x)) for x in (outer, along, inner))
    x = numbers(dtype, outer, along, inner)
    kind = "s64" if what == "argmax" else "s32" if dtype == "s32" else "f32"
    out = torch.empty(outer, inner, device="cuda", dtype=torch.int64 if kind == "s64" else getattr(torch, CUDA[kind]))
    sample = dsl.load(SAMPLES / "reduce.tile")
    arrays = (out, x) if form == "axis" else (out.view(-1), x.view(outer, along))
    name = ("arg_" if what == "argmax" else "") + ("axis" if form == "axis" else "rows")
    theirs = torch.empty(outer, inner, device="cuda", dtype=x.dtype if what == "amax" else out.dtype)
    peer = {
        "sum": lambda: torch.sum(x, 1, dtype=theirs.dtype, out=theirs),
        "amax": lambda: torch.amax(x, 1, out=theirs),
        "argmax": lambda: torch.argmax(x, 1, out=theirs),
    }[what]

    def right() -> bool:
        peer()
        if what == "argmax":
            return bool((x.gather(1, out[:, None]) == x.gather(1, theirs[:, None])).all())
        if what == "amax" or dtype == "s32":
            return bool((out.double() == theirs.double()).all())
        size = float(x.float().abs().sum(1).max()) if x.numel() else 1.0
        return bool((out - x.sum(1, dtype=torch.float64)).abs().max() <= 1e-5 * size + 1e-30)

    each, peers = 4 // x.element_size(), {"torch": peer}
    if words := x.numel() // each * each:
        reading, found = dsl.load(ROOT / "peers" / "read.tile").read, torch.zeros(1, dtype=torch.int32, device="cuda")
        peers["read"] = lambda: reading(found, x.view(-1)[:words].view(torch.int32))
    return Case(
        f"{what} {form}",
        dtype,
        {"outer": outer, "along": along, "inner": inner},
        x.numel() * x.element_size() + out.numel() * out.element_size(),
        peers,
        right,
        sample,
        Call(name, WHAT[what]),
        arrays,
    )


# ---- rows ----

ROWS = (
    "softmax",
    "log_softmax",
    "softmax_backward",
    "log_softmax_backward",
    "cross_entropy",
    "rmsnorm",
    "layer_norm",
    "layer_norm_backward",
    "scale_mask_softmax",
    "scale_mask_softmax_dropout",
    "scale_mask_softmax_dropout_backward",
)


def row_wise(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    what, total = source.choice(ROWS), log_uniform(source, 1 << 14, min(options.most, 1 << 28))
    cols = int(log_uniform(source, 16, min(total, 1 << 17)))
    cols = max(8, cols // 8 * 8) if source.random() < 0.5 else cols
    return (fused_rows if "mask" in what else plain_rows)(what, dtype, max(1, int(total / cols)), cols)


def plain_rows(what: str, dtype: str, rows: int, cols: int) -> Case:
    import torch

    aten = torch.ops.aten
    x, g, out, theirs = (numbers(dtype, rows, cols) for _ in range(4))
    w, b, dw, db = (numbers(dtype, cols) for _ in range(4))
    mean, rstd = torch.empty(rows, device="cuda"), torch.empty(rows, device="cuda")
    file = what.removesuffix("_backward") if "softmax" not in what else None
    sample = dsl.load(SAMPLES / f"{file or ('softmax_backward' if 'backward' in what else 'softmax')}.tile")
    log, arrays = what.startswith("log"), 2
    if what in ("softmax", "log_softmax"):
        arguments: tuple[Any, ...] = (out, x)
        peer: Callable[[], Any] = partial(torch.log_softmax if log else torch.softmax, x, 1, out=theirs)
    elif "softmax" in what:
        y, arrays = (torch.log_softmax if log else torch.softmax)(x, 1), 3
        arguments = (out, y, g)
        backward = aten._log_softmax_backward_data.out if log else aten._softmax_backward_data.out
        peer = partial(backward, g, y, 1, g.dtype, **{"out" if log else "grad_input": theirs})
    elif what == "cross_entropy":
        target = torch.randint(0, cols, (rows,), device="cuda")
        arguments = (torch.empty(rows, device="cuda"), out, None, x, target, 1.0, -100)
        peer = partial(cross_entropy, x.detach().requires_grad_(), target)
    elif what == "rmsnorm":
        arguments = (out, x, w, 1e-5)
        peer = partial(torch.nn.functional.rms_norm, x, (cols,), w, 1e-5)
    elif what == "layer_norm":
        arguments = (out, x, 1e-5, w, b, mean, rstd)
        peer = partial(aten.native_layer_norm, x, [cols], w, b, 1e-5)
    else:
        _, m, r = aten.native_layer_norm(x, [cols], w, b, 1e-5)
        mean.copy_(m.view(-1)), rstd.copy_(r.view(-1))
        arguments, arrays = (out, g, x, mean, rstd, w, dw, db), 3
        peer = partial(aten.native_layer_norm_backward, g, x, [cols], m, r, w, b, [True, True, True])

    def right() -> bool:
        wanted = peer()
        wanted = wanted[0] if isinstance(wanted, (tuple, list)) else wanted
        return close(out, wanted, ROUNDING[dtype])

    moves = arrays * x.numel() * x.element_size()
    peers = {"torch": peer, "copy": copy_of(moves)}
    others = {"quack": quack_rows(what, x, g, w, b, arguments), "triton": triton_rows(what, arguments)}
    peers |= {name: other for name, other in others.items() if other is not None}
    return Case(what, dtype, {"rows": rows, "cols": cols}, moves, peers, right, sample, Call(what), arguments)


def cross_entropy(x: Any, target: Any) -> Any:
    """torch's gradient of the sum of all losses, from a forward and a backward pass."""
    import torch

    loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
    return torch.autograd.grad(loss, x, torch.ones_like(loss))


def quack_rows(what: str, x: Any, g: Any, w: Any, b: Any, arguments: tuple[Any, ...]) -> Callable[[], Any] | None:
    """quack's operation on rows, compiled by one call. None if it is not installed, or refuses the operation."""
    import torch

    try:
        from quack.cross_entropy import cross_entropy_fwd_out
        from quack.rmsnorm import _rmsnorm_fwd
        from quack.softmax import _softmax_backward, _softmax_fwd
    except ImportError:
        return None
    theirs = torch.empty_like(x)
    peers: dict[str, Callable[[], Any]] = {
        "softmax": partial(_softmax_fwd, x, theirs),
        "softmax_backward": partial(_softmax_backward, g, arguments[1], theirs),
        "cross_entropy": lambda: cross_entropy_fwd_out(
            x, arguments[4], None, torch.empty_like(arguments[0]), None, theirs, None
        ),
        "rmsnorm": partial(_rmsnorm_fwd, x, w, theirs, eps=1e-5),
        "layer_norm": partial(_rmsnorm_fwd, x, w.float(), theirs, b.float(), eps=1e-5, is_layernorm=True),
    }
    if what not in peers:
        return None
    try:
        peers[what]()
        torch.cuda.synchronize()
    except Exception:  # its compiler refuses some lengths, and its errors have no common class
        return None
    return peers[what]


def triton_rows(what: str, arguments: tuple[Any, ...]) -> Callable[[], Any] | None:
    """Triton's kernel of an operation on rows. None if Triton is not installed, or there is no kernel."""
    try:
        from peers.triton_rows import launch_of
    except ImportError:
        return None
    return launch_of(what, arguments)


def fused_rows(what: str, dtype: str, rows: int, cols: int) -> Case:
    """Softmax of masked rows, with dropout, and the gradients. torch calls one operation after another, and its dropout
    draws other elements than ours. So rows of equal elements show which ones ours keeps."""
    import torch

    aten, scale, p, seed = torch.ops.aten, 0.125, 0.1, 20240913
    x, g, out, theirs = (numbers(dtype, rows, cols) for _ in range(4))
    keep = torch.empty(rows, cols, device="cuda", dtype=torch.uint8).bernoulli_(0.9)
    hidden, is_kept = keep == 0, torch.ones_like(keep, dtype=torch.bool)
    sample = dsl.load(SAMPLES / "softmax_fused.tile")
    if dropout := "dropout" in what:
        sample.scale_mask_softmax_dropout(out, None, 0 * x, torch.ones_like(keep), scale, p, seed)
        is_kept = out != 0

    def softmax() -> Any:
        return torch.softmax((x * scale).masked_fill_(hidden, -math.inf), 1, out=theirs)

    def dropped() -> Any:
        return aten.native_dropout(softmax(), p, True)

    y = softmax().clone()

    def gradient(g: Any = g, y: Any = y) -> Any:
        return aten._softmax_backward_data(aten.native_dropout_backward(g, is_kept, 1 / (1 - p)), y, 1, y.dtype) * scale

    def right() -> bool:
        if "backward" in what:
            # Of 60,000 columns, f16 numbers are subnormal: torch rounds three times, which is 0.006 of the largest one.
            return close(out, gradient(g.float(), y.float()), ROUNDING[dtype])
        share = is_kept.double().mean() if dropout else 1
        wanted = softmax().double() * is_kept / (1 - p) if dropout else softmax()
        return close(out, wanted, ROUNDING[dtype]) and (not dropout or bool((share - (1 - p)).abs() < 0.02))

    arguments: tuple[Any, ...] = (out, x, keep, scale)
    arrays, peer = 2, softmax
    if dropout:
        arguments, arrays, peer = (out, torch.empty_like(x), x, keep, scale, p, seed), 3, dropped
    if "backward" in what:
        arguments, arrays, peer = (out, y, g, scale, p, seed), 3, gradient
    moves = arrays * x.numel() * x.element_size() + ("backward" not in what) * keep.numel()
    peers = {"torch": peer, "copy": copy_of(moves)}
    return Case(what, dtype, {"rows": rows, "cols": cols}, moves, peers, right, sample, Call(what), arguments)


# ---- convolutions ----


def convolution(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    import torch
    from peers import cudnn

    layers = [(net, layer) for net, layers in NETS.items() for layer in layers]
    net, (c, h, k, r, stride) = source.choice(layers)
    shape = Shape(source.choice(options.images), c, h, k, r, stride)
    o = Operands(shape)
    y = torch.empty(shape.n, shape.p, shape.p, k, dtype=torch.int8, device="cuda")
    wanted = o.wanted(lambda v: v.clamp(min=0))
    del o.sums  # as large as four results
    extents = (shape.n, c, h, h), (k, c, r, r), (shape.n, k, shape.p, shape.p)
    theirs = torch.empty_like(y)
    return Case(
        net,
        dtype,
        {"n": shape.n, "c": c, "h": h, "k": k, "r": r, "stride": stride},
        shape.moves,
        {"cudnn": cudnn.convolution_s8(*extents, stride, shape.pad, o.alpha, (theirs, o.x, o.f, o.bias))},
        lambda: bool((y == wanted).all()),
        dsl.load(SAMPLES / "int8_conv.tile"),
        Call("conv2d_nhwc", {"ACT": "rectified"}),
        (y, o.x, o.f, o.bias, None, o.alpha, o.beta, 0.0, o.six, *shape.geometry),
    )


# ---- products with groups, scales or packed weights ----

KINDS = {"bf16": "grouped", "e4m3": "scaled", "f16": "w4"}


def kind(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    name, step = KINDS[dtype], 128
    if name == "grouped":
        step = source.choice((128, 8))
    shape = {"m": int(log_uniform(source, 1, 8193))}
    shape |= {extent: int(log_uniform(source, max(step, 64), 8192)) // step * step for extent in "nk"}
    if name == "grouped":
        groups = int(log_uniform(source, 1, 65))
        shape["g"] = max(1, min(groups, options.most // (shape["n"] * shape["k"])))
    benchmark = BENCHMARKS[name]
    problem: Any = benchmark.operations[name].problem(shape, dtype)
    peers = {peer: make(problem)[0] for peer, make in benchmark.peers.items()}
    if name == "scaled":
        try:
            peers["cublas"]()
        except RuntimeError:
            peers = {"without scales": without_scales(problem)}
    c = problem.c
    return Case(
        name,
        dtype,
        shape,
        problem.moves,
        peers,
        lambda: close(c, problem.reference, {"f16": 4e-3}.get(dtype, 1e-2)),
        dsl.load(benchmark.samples[0]),
        problem.call,
        problem.arguments,
    )


# ---- distances ----


def distance(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    import torch

    m, n, k = (int(log_uniform(source, 16, 4096)) for _ in range(3))
    a, b, c = numbers(dtype, k, m), numbers(dtype, k, n), torch.empty(m, n, device="cuda")
    rows, columns = a.t().float().contiguous(), b.t().float().contiguous()
    wanted = torch.cdist(rows, columns, p=1)
    return Case(
        "manhattan",
        dtype,
        {"m": m, "n": n, "k": k},
        (m + n) * k * a.element_size() + c.numel() * 4,
        {"torch": lambda: torch.cdist(rows, columns, p=1)},
        lambda: close(c, wanted, 1e-3),
        dsl.load(ROOT.parent / "docs" / "examples" / "distances.tile"),
        Call("manhattan"),
        (c, a, b),
    )


FAMILIES = {
    "attention": (attention, ("bf16", "f16")),
    "convolutions": (convolution, ("s8",)),
    "decoding": (decoding, ("bf16", "f16")),
    "distances": (distance, ("f32", "f16")),
    "gradients": (gradients, ("bf16", "f16")),
    "kinds": (kind, tuple(KINDS)),
    "products": (product, ("bf16", "f16")),
    "reductions": (reduction, ("f32", "f16", "s32")),
    "rows": (row_wise, ("f16", "bf16", "f32")),
    "varlen": (varlen, ("bf16", "f16")),
    "varlen_gradients": (varlen_gradients, ("bf16", "f16")),
    "windows": (windows, ("bf16", "f16")),
}


# ---- the runs ----


def measured(case: Case) -> Row:
    """Checks and times one case."""
    row = Row(case.name, case.dtype, case.shape, case.moves)
    case.ours()
    row.bound, row.errors = 0.5, {OURS: 0.0 if case.right() else 1.0}
    row.launches = facts_of(case.file, case.call, case.arguments)
    times = interleaved({OURS: case.ours} | case.peers, ROUNDS)
    row.times = {name: Interval.of(runs) for name, runs in times.items()}
    return row


def faster(row: Row, peer: str) -> float:
    """The peer's time divided by ours."""
    return row.times[peer].median / row.times[OURS].median


def first_peer(row: Row) -> str:
    return next(name for name in row.times if name != OURS)


def summary(rows: list[Row]) -> Iterator[str]:
    peers = dict.fromkeys(name for row in rows for name in row.times if name != OURS)
    kinds = dict.fromkeys((row.operation, row.dtype) for row in rows)
    for peer in peers:
        for kind in (*kinds, None):
            group = [row for row in rows if peer in row.times and kind in ((row.operation, row.dtype), None)]
            long = [ratio for row in group if (ratio := faster(row, peer)) and row.times[peer].median >= LAUNCH]
            if group:
                name = " ".join(kind) if kind else "all"
                line = f"{peer:6} {name:26} {len(group):4} shapes {geometric_mean(faster(r, peer) for r in group):.3f}"
                if long:
                    low = sorted(long)[len(long) // 20]
                    line += f"; {len(long)} of {LAUNCH:.0f} us and more {geometric_mean(long):.3f}, "
                    line += f"least {min(long):.3f}, 5% {low:.3f}"
                yield line


def whole_numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parser(description: str | None, count: int, most: int) -> argparse.ArgumentParser:
    """The options that say which shapes are drawn, with these defaults."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("family", choices=FAMILIES)
    options.add_argument("--types", type=lambda text: text.split(","))
    options.add_argument("--count", type=int, default=count)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=math.inf, help="start no other shape after this time")
    options.add_argument("--most", type=int, default=most, help="elements of a reduced array")
    options.add_argument("--images", type=whole_numbers, default=[1, 32], help="images of a convolution")
    return options


def main() -> None:
    options = parser(__doc__, 100, 1 << 28)
    options.add_argument("--json", type=Path, metavar="FILE")
    chosen = options.parse_args()
    make, types = FAMILIES[chosen.family]
    source, rows, begun = random.Random(chosen.seed), [], time.perf_counter()
    out, device = console(), device_facts("cuda").name
    for _ in range(chosen.count):
        if time.perf_counter() - begun > chosen.seconds:
            break
        try:
            case = make(source, source.choice(chosen.types or types), chosen)
        except LeftOut as reason:
            out.print(f"left out: {reason}")
            continue
        rows.append(measured(case))
    out.print(f"{device}, {chosen.family}, seed {chosen.seed}, {time.perf_counter() - begun:.0f} s")
    for row in sorted(rows, key=lambda row: faster(row, first_peer(row)))[:SLOWEST]:
        times = ", ".join(f"{name} {times.median:.1f}" for name, times in row.times.items())
        kernels = "; ".join(f"{facts.kernel} {constants(facts.constants)}" for facts in row.launches)
        out.print(f"{row.operation} {row.dtype} {constants(row.shape)}: {times} ({kernels})")
    for line in summary(rows):
        out.print(line)
    if chosen.json:
        save(chosen.json, rows, device, sorted(SAMPLES.glob("*.tile")), rounds=ROUNDS, seed=chosen.seed)
    wrong = [row for row in rows if row.is_wrong(OURS)]
    for row in wrong:
        out.print(f"WRONG: {row.operation} {row.dtype} {row.shape}")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
