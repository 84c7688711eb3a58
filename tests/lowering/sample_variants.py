"""The variants of the samples' kernels that the compiler's tests take: a few dims and all types of each schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dsl.kernels.compile import settled
from dsl.kernels.variant import Request, Variant, build_variant, stride_class
from dsl.lowering.layouts.layout import row_major
from dsl.text.program import Program, dim_names, load
from dsl.text.tree import KernelDef, Name, TensorAnnotation

SETTLED: dict[tuple[Case, str], Request] = {}
SAMPLES = Path(__file__).parents[2] / "samples"


def square(extent: int) -> dict[str, int]:
    """The dims of a product of square matrices."""
    return dict.fromkeys(("m", "n", "k"), extent)


def images(c: int, extent: int, k: int, taps: int) -> dict[str, int]:
    """Dims and scalars of a convolution in blocks of channels: two square images, padded to keep their size."""
    same = {"h": extent, "w": extent, "p": extent, "q": extent, "r": taps, "s": taps, "ph": taps // 2, "pw": taps // 2}
    return {"n": 2, "k": k, "kb": k // 32, "cb": c // 32, "cg": c // 32, **same} | dict.fromkeys(
        ("sh", "sw", "dh", "dw"), 1
    )


def innermost(c: int, extent: int, k: int, taps: int) -> dict[str, int]:
    """The same with channels innermost."""
    return {name: v for name, v in images(c, extent, k, taps).items() if name not in ("kb", "cb")} | {"c": c, "cg": c}


def heads(s: int, t: int, d: int) -> dict[str, int]:
    """Dims of attention: two heads of q use one of k and v."""
    return {"batch": 2, "heads": 4, "kv_heads": 2, "s": s, "t": t, "d": d}


def backward(s: int, t: int, d: int) -> dict[str, int]:
    """Rows of the sums have multiples of four places."""
    return heads(s, t, d) | {"n": -s // 4 * -4}


def few(p: int, d: int, window: int, count: int = 2) -> dict[str, int]:
    """Dims of attention of two queries: four heads of q use one of k and v."""
    return {"batch": 2, "heads": 8, "kv_heads": 2, "s": 2, "d": d, "count": count, "p": p, "window": window}


FUSED = {"fused": 1}
"""The product with its bias and residual, and without scales of rows beside, the softmax with its dropout."""
PACKED = {"sizes": 4, "places": 24}
"""Attention of sequences that lie one behind the other."""
PAGES = {"most": 16}
"""Attention of few queries with pages, lengths and scales."""
ARGMAX = {"argmax": 1}
LAUNCHED = {
    ("layer_norm.tile", "normalise"): (("VECTORS", 2), ("MEETS", 2)),
    ("rmsnorm.tile", "normalise"): (("VECTORS", 1),),
}
"""The constants that the launch of a kernel sets for all of its schedules."""
"""Reductions to the index of the greatest element."""
ANY_IMAGE = {"any_image": 1}
"""Convolutions whose images have extents that are no constants."""
ALONG_K = {"along_k": 1}
"""b lies along k, and is row-major otherwise."""

# (kernel, schedule) → dims: the first for wide accesses without a tail, others for a masked edge, for narrow accesses.
DIMS: dict[tuple[str, str | None], list[dict[str, int]]] = {
    ("matmul_global", "element"): [{"m": 256, "n": 256, "k": 64}, {"m": 33, "n": 17, "k": 5}],
    ("matmul_global", "registers"): [{"m": 256, "n": 256, "k": 64}, {"m": 33, "n": 17, "k": 5}],
    ("matmul_shared", "cooperative"): [{"m": 256, "n": 256, "k": 64}, {"m": 33, "n": 17, "k": 5}],
    ("matmul_mma", "cooperative"): [square(4096), square(77)],
    ("matmul_ring", "three"): [square(4096), square(77)],
    ("product", "mma_sync"): [
        *({**square(4096), **ALONG_K}, square(4096), square(1000), square(512), square(77)),
        *({**square(4096), **FUSED}, {**square(77), **FUSED}),
    ],
    ("product", "stream_k"): [{**square(8192), **ALONG_K}, square(8192), square(1000), {**square(8192), **FUSED}],
    ("product", "wgmma"): [
        {**square(4096), **ALONG_K},
        {**square(1004), **ALONG_K},
        square(512),
        {**square(512), **ALONG_K},
        {**square(1008), **ALONG_K},
        {**square(5120), **ALONG_K},
        square(3072),
        square(4096),
        {**square(4096), **FUSED},
        {"m": 192, "n": 1024, "k": 4096, **ALONG_K},
    ],
    **{("grouped", name): [{**square(512), "g": 3, "sizes": 4, "t": 35}] for name in ("tile", "tma")},
    ("deal", "lanes"): [{"g": 3, "sizes": 4, "t": 35}],
    ("list_tiles", "lanes"): [{"n": 3, "sizes": 4, "places": 24}],
    **{("by_blocks", name): [{**square(512), "kb": 4, "nb": 4}] for name in ("tile", "tma")},
    **{("quantised", name): [{**square(512), "k": 1024, "kh": 512, "groups": 8}] for name in ("tile", "tma")},
    ("attend", "attend_groups"): [
        *(heads(1024, 1024, 64), heads(1000, 1000, 128), {**heads(1000, 1000, 128), **PACKED})
    ],
    ("attend", "attend_four"): [heads(1024, 1024, 64)],
    ("attend", "attend_long"): [heads(1000, 1000, 256)],
    ("attend", "attend_tile"): [heads(1024, 1024, 64), heads(1000, 1000, 128), {**heads(77, 300, 40), **PACKED}],
    ("attend", "attend_small"): [heads(77, 300, 256)],
    ("decode", "parts"): [
        *(few(4096, 128, 0), few(1001, 72, 100), {**few(64, 64, 0, 40), **PAGES}, {**few(16, 128, 0, 40), **PAGES})
    ],
    ("of_queries", "groups"): [backward(1024, 1024, 64), backward(4096, 4096, 128)],
    ("of_keys", "groups"): [backward(1024, 1024, 64), backward(4096, 4096, 128)],
    ("of_queries", "rows"): [backward(1024, 1024, 64), backward(77, 300, 40)],
    ("of_queries", "long"): [backward(77, 300, 256)],
    ("of_queries", "wide"): [backward(301, 300, 256)],
    ("of_keys", "wide"): [backward(301, 300, 256)],
    ("of_keys", "columns"): [backward(1024, 1024, 128), backward(77, 300, 40)],
    ("conv", "blocks"): [
        *(images(128, 28, 128, 3), images(64, 56, 256, 1), images(96, 7, 96, 5), images(512, 7, 512, 3)),
        *({**images(128, 28, 128, 3), **ANY_IMAGE}, {**images(96, 7, 96, 5), **ANY_IMAGE}),
    ],
    ("conv_nhwc", "pixels"): [
        *(innermost(128, 28, 128, 3), innermost(64, 56, 256, 1), innermost(96, 7, 100, 5), innermost(512, 7, 100, 3)),
        *({**innermost(128, 28, 128, 3), **ANY_IMAGE}, {**innermost(96, 7, 100, 5), **ANY_IMAGE}),
    ],
    ("conv", "groups"): [images(256, 14, 256, 3), images(512, 7, 512, 3)],
    ("conv_nhwc", "tma"): [innermost(256, 14, 256, 3), innermost(512, 7, 1000, 3), innermost(256, 7, 512, 1)],
    ("conv_nhwc", "taps"): [innermost(64, 56, 64, 3), innermost(32, 13, 48, 5)],
    ("naive", "lanes"): [{"n": 1 << 14, "m": (1 << 14) + 2}, {"n": 1003, "m": 1005}],
    ("tiled", "lanes"): [{"n": 1 << 14, "m": (1 << 14) + 2}, {"n": 1003, "m": 1005}],
    ("along_rows", "lanes"): [
        *({"rows": 8, "cols": 1024}, {"rows": 3, "cols": 77}, {"rows": 8, "cols": 1024, **ARGMAX}),
        *({"rows": 3, "cols": 4001}, {"rows": 3, "cols": 4001, **ARGMAX}),
    ],
    ("along_rows", "wide"): [
        *({"rows": 1, "cols": 1 << 20}, {"rows": 1, "cols": 70001}, {"rows": 1, "cols": 1 << 20, **ARGMAX})
    ],
    ("along_axis", "columns"): [
        *({"outer": 1, "n": 8192, "inner": 256}, {"outer": 2, "n": 100, "inner": 33}),
        {"outer": 1, "n": 8192, "inner": 256, **ARGMAX},
    ],
    **{(f"v{i}", "ladder"): [{"blocks": 64, "n": 1 << 14}, {"blocks": 4, "n": 1003}] for i in range(6)},
    ("add", "wide"): [{"n": 1 << 20}, {"n": 1000003}],
    ("gelu_elements", "wide"): [{"n": 1 << 18}, {"n": 50001}],
    ("normalise", "row_piece"): [{"rows": 100, "cols": 45}],
    ("normalise", "row_lanes"): [{"rows": 8, "cols": 1024}, {"rows": 5, "cols": 1000}, {"rows": 3, "cols": 77}],
    ("normalise", "row_block"): [{"rows": 8, "cols": 8192}, {"rows": 5, "cols": 4097}],
    ("backward_rows", "turns"): [{"rows": 3000, "cols": 20000}],
    ("cross_entropy_rows", "turns"): [{"rows": 3000, "cols": 20000}],
    ("normalise", "turns"): [{"rows": 3000, "cols": 8192}, {"rows": 3000, "cols": 4097}],
    ("gradient", "piece"): [{"rows": 100, "cols": 45}],
    ("gradient", "lanes"): [{"rows": 8, "cols": 1024}, {"rows": 3, "cols": 77}],
    ("gradient", "block"): [{"rows": 8, "cols": 8192}, {"rows": 5, "cols": 4097}],
    ("sums", "columns"): [{"rows": 4096, "cols": 1024}, {"rows": 3, "cols": 77}],
    ("softmax_rows", "piece"): [{"rows": 100, "cols": 45}],
    ("softmax_rows", "lanes"): [{"rows": 8, "cols": 1024}, {"rows": 5, "cols": 1000}, {"rows": 3, "cols": 77}],
    ("softmax_rows", "block"): [{"rows": 8, "cols": 8192}, {"rows": 5, "cols": 4097}],
    ("softmax_rows", "whole"): [{"rows": 8, "cols": 20000}, {"rows": 5, "cols": 4097}],
    ("softmax_rows", "stream"): [{"rows": 8, "cols": 70000}, {"rows": 5, "cols": 4097}],
    ("cross_entropy_rows", "piece"): [{"rows": 100, "cols": 45}],
    ("backward_rows", "piece"): [{"rows": 100, "cols": 45}],
    ("backward_rows", "lanes"): [{"rows": 8, "cols": 1024}, {"rows": 3, "cols": 77}],
    ("backward_rows", "block"): [{"rows": 8, "cols": 8192}, {"rows": 5, "cols": 4097}],
    ("backward_rows", "whole"): [{"rows": 8, "cols": 20000}, {"rows": 5, "cols": 4097}],
    ("backward_rows", "stream"): [{"rows": 8, "cols": 70000}, {"rows": 5, "cols": 4097}],
    ("fused_rows", "piece"): [{"rows": 100, "cols": 45}, {"rows": 100, "cols": 24, **FUSED}],
    ("fused_rows", "lanes"): [{"rows": 8, "cols": 1024}, {"rows": 8, "cols": 1024, **FUSED}, {"rows": 3, "cols": 77}],
    ("fused_rows", "block"): [{"rows": 8, "cols": 8192}, {"rows": 8, "cols": 4096, **FUSED}],
    ("fused_rows", "whole"): [{"rows": 8, "cols": 16000}, {"rows": 5, "cols": 4097, **FUSED}],
    ("fused_rows", "stream"): [{"rows": 8, "cols": 70000}, {"rows": 5, "cols": 4097, **FUSED}],
    ("fused_gradient", "piece"): [{"rows": 100, "cols": 45}],
    ("fused_gradient", "lanes"): [{"rows": 8, "cols": 1024}, {"rows": 3, "cols": 77}],
    ("fused_gradient", "block"): [{"rows": 8, "cols": 4096}],
    ("fused_gradient", "whole"): [{"rows": 8, "cols": 16384}, {"rows": 5, "cols": 4097}],
    ("fused_gradient", "stream"): [{"rows": 8, "cols": 70000}, {"rows": 5, "cols": 4097}],
}


ABSENT: dict[str | tuple[str, str | None], set[str]] = {
    "attend": {"tiles"},
    "decode": {"pages", "lengths", "k_scale", "v_scale"},
    "product": {"scale", "bias", "residual", "row_scale"},
    "fused_rows": {"out"},
    ("of_keys", "wide"): {"dv"},
}
"""Optional tensors of kernels, or of one schedule, that are not given: with these the kernels do other work."""

TYPES = {
    ("product", "mma_sync"): [
        {"T": "bf16", "O": "bf16", "B": "bf16"},
        {"T": "f32", "O": "f32", "B": "f32"},
        {"T": "s8", "O": "s32", "B": "f32"},
        {"T": "s8", "O": "s8", "B": "f32"},
        {"T": "u8", "O": "s32", "B": "f32"},
        {"T": "e4m3", "O": "bf16", "B": "f32"},
    ],
    ("product", "wgmma"): [
        {"T": "s8", "O": "s32", "B": "f32"},
        {"T": "f32", "O": "f32", "B": "f32"},
        {"T": "e4m3", "O": "bf16", "B": "f32"},
    ],
    ("decode", "parts"): [{"T": "f16", "C": "s8"}, {"T": "bf16", "C": "e4m3"}],
    ("product", "stream_k"): [{"T": "s8", "O": "s32", "B": "f32"}, {"T": "f32", "O": "f32", "B": "f32"}],
}
"""Of kernels with several type parameters, those that are taken beside the first ones, by kernel and schedule."""

FIRST = {("conv", "groups"): 1, ("conv_nhwc", "tma"): 3, ("conv_nhwc", "taps"): 3}
"""How many of the first types a schedule takes, if not all: warp groups multiply no s4, nothing that is converted."""
OF_ARGMAX = {"OF": "with_index", "JOIN": "first_largest", "EMPTY": -math.inf, "DONE": "place", "PAIRS": True}
LEAST = {"e4m3": 89}
"""Types whose instructions not every target has, with the first that has them."""

# The dims of kernels that have no row there, by their names.
USUAL = {"rows": 8, "cols": 1024, "n": 1 << 14, "outer": 2, "inner": 64, "parts": 32, "groups": 4, "blocks": 64}


def by_name(kernel: KernelDef) -> dict[str, int]:
    """A product, which has a dim m, is of square matrices. A KeyError says that a dim's name has no usual extent."""
    names = dim_names(kernel)
    return dict.fromkeys(names, 512) if "m" in names else {name: USUAL[name] for name in names}


@dataclass(frozen=True)
class Case:
    """One variant of a sample's kernel."""

    file: str
    kernel: str
    schedule: str | None
    dims: tuple[tuple[str, int], ...]  # and scalars
    types: tuple[tuple[str, str], ...] = field(default=())
    constants: tuple[tuple[str, Any], ...] = field(default=())

    def __str__(self) -> str:
        flags = FUSED | ALONG_K | ARGMAX | ANY_IMAGE
        dims = "x".join(f"{extent}{name if name in flags else ''}" for name, extent in self.dims)
        return "-".join([self.kernel, self.schedule or "", dims, *(t for _, t in self.types)])

    def build(self, arch: str = "sm_90") -> Variant:
        names, node = dict(self.dims), program(self.file).kernels[self.kernel]
        dims = {name: names[name] for name in dim_names(node) if name in names}
        absent = frozenset(ABSENT.get((self.kernel, self.schedule), ABSENT.get(self.kernel, ())))
        if "fused" in names or "most" in names or (self.kernel == "attend" and "places" in names):
            absent = absent & {"row_scale"}
        types = dict(self.types)
        strides = {
            p.name: stride_class(row_major([names[d.id] for d in p.type.dims if isinstance(d, Name)]))
            for p in node.params
            if isinstance(p.type, TensorAnnotation) and p.type.strided
        }
        if "along_k" in names:
            strides["b"] = strides["b"][::-1]
        constants: dict[str, Any] = dict(self.constants) | ({"ANY_IMAGE": True} if "any_image" in names else {})
        request = Request(
            self.kernel, self.schedule, dims, types, constants, names, absent=absent, arch=arch, strides=strides
        )
        # One case is built in several tests, and to settle a request takes all passes.
        key = (self, arch)
        if key not in SETTLED:
            SETTLED[key] = settled(program(self.file), request)
        return build_variant(program(self.file), SETTLED[key])


@cache
def program(file: str) -> Program:
    return load(SAMPLES / file, f"samples/{file}")


def cases() -> list[Case]:
    """Every schedule of every kernel: all dims at the first types, and the first dims at the other types."""
    out = []
    for path in sorted(SAMPLES.glob("*.tile")):
        for name, kernel in program(path.name).kernels.items():
            if kernel.loc.source is not program(path.name).source and not kernel.loc.source.name.startswith("std/"):
                continue  # of another sample
            parameters = {c.name: c.types for c in kernel.constants if c.types is not None}
            for schedule in program(path.name).schedules_of(name) or [None]:
                for i, dims in enumerate(DIMS.get((name, schedule)) or [by_name(kernel)]):
                    if "argmax" in dims:
                        each = [(("T", t), ("R", "s64")) for t in parameters["T"]]
                        constants = tuple(OF_ARGMAX.items())
                        out += [Case(path.name, name, schedule, tuple(dims.items()), t, constants) for t in each]
                        continue
                    several = i == 0 or not {"fused", "any_image"}.isdisjoint(dims)
                    several = several and len(parameters) == 1  # combinations of two types may have no meaning
                    choices = max((len(t) for t in parameters.values()), default=1) if several else 1
                    choices = min(choices, FIRST.get((name, schedule), choices))
                    set_by = LAUNCHED.get((path.name, name), ())
                    for choice in range(choices):
                        types = tuple((p, t[min(choice, len(t) - 1)]) for p, t in parameters.items())
                        out.append(Case(path.name, name, schedule, tuple(dims.items()), types, set_by))
                    if i < (3 if schedule == "wgmma" else 2):
                        more = [tuple(each.items()) for each in TYPES.get((name, schedule), ())]
                        out += [Case(path.name, name, schedule, tuple(dims.items()), each) for each in more]
    return out
