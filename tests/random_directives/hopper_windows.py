"""Random kernels of boxes that overlap: taps of images, of rows, and windows, with products and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.random_directives.drawing import Array, Drawn
from tests.random_directives.hopper import ARRAYS, SIZE, HopperDrawing, sums_of


@dataclass
class Taps:
    """A convolution. high: rows of a tile of eight columns, or 0: pixels one after another."""

    dtype: str
    warps: int
    tn: int
    tm: int
    tk: int
    high: int
    shape: tuple[int, int, int, int]
    taps: tuple[int, int]
    pads: tuple[int, int]
    apart: tuple[int, int]
    strides: tuple[int, int]
    filters: int

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a result."""
        each = zip(self.shape[1:3], self.taps, self.pads, self.apart, self.strides, strict=True)
        p, q = (max(1, (extent + 2 * pad - far * (n - 1) - 1) // step + 1) for extent, n, pad, far, step in each)
        return p, q


@dataclass
class Rows:
    """Rows of which a tile sees several windows. before: rows of the first one that lie ahead of the tile."""

    dtype: str
    warps: int
    tm: int
    tn: int
    tk: int
    n: int
    columns: int
    channels: int
    taps: int
    apart: int
    before: int
    product: bool

    @property
    def bytes(self) -> int:
        """Of a stage for one tap."""
        return (self.tm + self.tn * self.product) * self.tk * SIZE[self.dtype]


class WindowDrawing(HopperDrawing):
    """Draws sums over taps."""

    def convolution(self) -> Drawn:
        """Taps of images: tiles of eight columns, whose boxes overlap, or windows of pixels in a row."""
        c = self.taps_of()
        x = self.digits(c.shape, c.dtype)
        f = self.digits((c.filters, *c.taps, c.shape[3]), c.dtype)
        wanted = convolved(x, f, c)
        sums = sums_of(c.dtype)
        text = [
            f"kernel k(y: {sums}[n, p, q, m], x: {c.dtype}[n, h, w, c], f: {c.dtype}[m, r, s, c]):",
            *(f"    {line}" for line in self.pixels_of(c)),
            f"    acc = zeros({sums}[{c.tn}, {c.tm}])",
            f"    for u in range(0, c, {c.tk}):",
            "        for t in range(r * s):",
            *(f"            {line}" for line in self.tap_of(c)),
            *(f"    {line}" for line in self.results_of(c)),
        ]
        args = {"y": np.full(wanted.shape, 77, ARRAYS[sums]), "x": x, "f": f}
        return self.of_kernel(text, c.warps, self.said_of_taps(c), args, {"y": wanted})

    def taps_of(self) -> Taps:
        dtype, high = self.pick(["s8", "s8", "f16", "bf16"]), self.pick([8, 8, 16, 0, 0])
        tn = 8 * high if high else self.pick([64, 64, 64, 128])
        warps = max(4, tn // 16) if self.chance(0.95) else 4
        tm, tk = self.pick([16, 32, 64, 64]), self.pick([32, 64, 64, 128]) // SIZE[dtype]
        channels = tk * self.random.randint(1, 2) if self.chance(0.9) else tk + 16 // SIZE[dtype]
        n, h, w = self.random.randint(1, 3), self.random.randint(1, 19), self.random.randint(1, 19)
        taps = (self.random.randint(1, 3), self.random.randint(1, 4))
        pads, apart = (
            (self.random.randint(0, 2), self.random.randint(0, 2)),
            self.pick([(1, 1), (1, 1), (2, 1), (1, 3)]),
        )
        strides = (1, 1) if self.chance(0.8) else self.pick([(2, 2), (1, 2), (3, 1)])
        least = [far * (many - 1) + 1 - 2 * pad for far, many, pad in zip(apart, taps, pads, strict=True)]
        shape = (n, max(h, *least[:1]), max(w, *least[1:]), channels)
        filters = self.covered(tm, 2)
        return Taps(dtype, warps, tn, tm, tk, high, shape, taps, pads, apart, strides, self.rows(filters, dtype))

    def pixels_of(self, c: Taps) -> list[str]:
        """The grid, and where a block's pixels are."""
        (ph, pw), (sh, sw) = c.pads, c.strides
        if c.high:
            lines = [
                f"grid n * cdiv(p, {c.high}) * cdiv(q, 8), cdiv(m, {c.tm})",
                f"wide, place = cdiv(q, 8), arange({c.tn})",
                f"all = cdiv(p, {c.high}) * wide",
                "image, spot = block(0) // all, block(0) % all",
                f"row, col = spot // wide * {c.high} + place // 8, spot % wide * 8 + place % 8",
            ]
        else:
            lines = [
                f"grid cdiv(n * p * q, {c.tn}), cdiv(m, {c.tm})",
                f"pixel = block(0) * {c.tn} + arange({c.tn})",
                "image, spot = pixel // (p * q), pixel % (p * q)",
                "row, col = spot // q, spot % q",
            ]
        first, second = (f"{name}{'' if step == 1 else f' * {step}'}{f' - {pad}' if pad else ''}"
                         for name, step, pad in (("row", sh, ph), ("col", sw, pw)))  # fmt: skip
        out = f"out = block(1) * {c.tm} + arange({c.tm})"
        return [*lines, f"first, second = {first}, {second}", f"at, {out}".replace(" =", f" = arange({c.tk}),", 1)]

    def tap_of(self, c: Taps) -> list[str]:
        """An iteration: what one tap sees, and its filters."""
        (dh, dw), image = c.apart, "image" if c.high else "image[:, None]"
        there = "" if c.high else "(image < n) & "
        lines = [
            f"i, j = first + t // s{f' * {dh}' if dh > 1 else ''}, second + t % s{f' * {dw}' if dw > 1 else ''}",
            f"inside = {there}(0 <= i) & (i < h) & (0 <= j) & (j < w)",
            f"seen = load(x[{image}, i[:, None], j[:, None], (u + at)[None, :]], "
            "mask=inside[:, None] & (u + at < c)[None, :])",
            "many = load(f[out[:, None], t // s, t % s, (u + at)[None, :]], "
            "mask=(out < m)[:, None] & (u + at < c)[None, :])",
            "acc = dot(seen, many.T, acc)",
        ]
        return lines

    def results_of(self, c: Taps) -> list[str]:
        image = "image" if c.high else "image[:, None]"
        there = "(row < p) & (col < q)" if c.high else "(image < n)"
        place = f"y[{image}, row[:, None], col[:, None], out[None, :]]"
        return [f"store({place}, acc, mask=({there})[:, None] & (out < m)[None, :])"]

    def said_of_taps(self, c: Taps) -> list[str]:
        lines = ["instruction acc: wgmma"] if self.chance(0.92) else []
        whole = self.chance(0.6 if c.high else 0.25)
        lines += ["unroll t: all"] * whole
        lines.append(f"stage x, f: {self.pick(['tma', 'tma', 'tma', 'tma', 'shared'])}")
        if self.chance(0.5):
            lines.append(f"stage y: {self.pick(['tma', 'tma', 'shared'])}")
        many = c.taps[0] * c.taps[1] if whole else 1
        most = max(1, min(4, 200 * 1024 // ((c.tn + c.tm) * c.tk * SIZE[c.dtype] * many)))
        lines.append(f"pipeline {'u' if whole else self.pick(['u, t', 'u, t', 't'])}: {self.random.randint(1, most)}")
        lines += [f"persistent {self.pick([1, 1, 2])}"] if self.chance(0.5) else []
        lines += ["cluster 2"] if self.chance(0.2) else []
        if c.tm > 16 and self.chance(0.2):
            lines.append(f"subtile acc: {c.tn}, {c.tm // 2}")
        if self.chance(0.15):
            lines.append(
                self.pick(["precompute inside: t", "l2_group 2", "unroll t: 2", "split u: 2", "blocks_per_sm 2"])
            )
        lines += self.chosen(["halo.x: apart", "reload.f: always", "issue.y: block", 'multicast.f: "none"'])
        return [*lines, f"specialize {'n, ' if self.chance(0.2) else ''}h, w, p, q, c, m, r, s"]

    # ---- rows ----

    def neighbours(self) -> Drawn:
        """Rows that overlap: sums over taps of products with filters, or of what is loaded."""
        r = self.rows_of()
        sums = sums_of(r.dtype)
        x, f = self.digits((r.n, r.channels), r.dtype), self.digits((r.taps, r.columns, r.channels), r.dtype)
        wanted = of_neighbours(x, f if r.product else None, r)
        args: dict[str, Any] = {"y": np.full(wanted.shape, 77, ARRAYS[sums]), "x": x} | ({"f": f} if r.product else {})
        text = self.products_of_rows(r, sums) if r.product else self.sums_of_rows(r, sums)
        return self.of_kernel(text, r.warps, self.said_of_rows(r), args, {"y": wanted})

    def rows_of(self) -> Rows:
        dtype, warps = self.pick(["f16", "f16", "s8", "bf16"]), self.pick([4, 4, 8])
        tm, tn, tk = 16 * warps, self.pick([16, 32, 64]), self.pick([32, 64, 128]) // SIZE[dtype]
        columns = self.rows(self.covered(tn, 2), dtype)
        n, channels = self.covered(tm), self.rows(self.covered(tk), dtype)
        taps, apart, before = self.random.randint(1, 5), self.pick([1, 1, 2, 8]), self.random.randint(0, 9)
        return Rows(dtype, warps, tm, tn, tk, n, columns, channels, taps, apart, before, self.chance(0.75))

    def products_of_rows(self, r: Rows, sums: str) -> list[str]:
        seen, filters = f"x[place : place + {r.tm}, u : u + {r.tk}]", f"f[t, j : j + {r.tn}, u : u + {r.tk}].T"
        return [
            f"kernel k(y: {sums}[n, m], x: {r.dtype}[n, c], f: {r.dtype}[{r.taps}, m, c]):",
            f"    grid cdiv(n, {r.tm}), cdiv(m, {r.tn})",
            f"    i, j = block(0) * {r.tm}, block(1) * {r.tn}",
            f"    acc = zeros({sums}[{r.tm}, {r.tn}])",
            f"    for u in range(0, c, {r.tk}):",
            f"        for t in range({r.taps}):",
            f"            place = i + t * {r.apart} - {r.before}",
            f"            acc = dot({seen}, {filters}, acc)",
            f"    y[i : i + {r.tm}, j : j + {r.tn}] = acc",
        ]

    def sums_of_rows(self, r: Rows, sums: str) -> list[str]:
        seen = f"x[place : place + {r.tm}, u : u + {r.tk}].to({sums})"
        return [
            f"kernel k(y: {sums}[n, c], x: {r.dtype}[n, c]):",
            f"    grid cdiv(n, {r.tm})",
            f"    i = block(0) * {r.tm}",
            f"    for u in range(0, c, {r.tk}):",
            f"        acc = zeros({sums}[{r.tm}, {r.tk}])",
            f"        for t in range({r.taps}):",
            f"            place = i + t * {r.apart} - {r.before}",
            f"            acc = acc + {seen} * (t + 1).to({sums})",
            f"        y[i : i + {r.tm}, u : u + {r.tk}] = acc",
        ]

    def said_of_rows(self, r: Rows) -> list[str]:
        lines = ["instruction acc: wgmma"] if r.product and self.chance(0.9) else []
        whole = self.chance(0.6)
        lines += ["unroll t: all"] * whole
        lines.append(f"stage {'x, f' if r.product else 'x'}: {self.pick(['tma', 'tma', 'tma', 'shared'])}")
        if self.chance(0.5):
            lines.append(f"stage y: {self.pick(['tma', 'tma', 'shared']) if r.product else 'shared'}")
        stages = self.random.randint(1, max(1, min(4, 200 * 1024 // (r.bytes * (r.taps if whole else 1)))))
        lines.append(f"pipeline {'u' if whole else self.pick(['u, t', 'u, t', 't'])}: {stages}")
        lines += [f"persistent {self.pick([1, 1, 2])}"] if self.chance(0.5) else []
        lines += ["cluster 2"] if self.chance(0.25) else []
        if self.chance(0.2):
            lines.append(self.pick(["unroll u: 2", "split u: 2", "peel u", "blocks_per_sm 2", "l2_group 2"]))
        lines += self.chosen(["halo.x: apart", "reload.f: always", "issue.y: block", 'multicast.f: "none"'])
        lines += ["specialize c"] if self.chance(0.6) else []
        return lines


def of_neighbours(x: Array, f: Array | None, r: Rows) -> Array:
    """The exact sums."""
    n = len(x)
    wanted = np.zeros((n, x.shape[1] if f is None else f.shape[1]), np.int64)
    for t in range(r.taps):
        at = np.arange(n) + t * r.apart - r.before
        seen = np.where(((at >= 0) & (at < n))[:, None], x[np.clip(at, 0, n - 1)].astype(np.int64), 0)
        wanted += seen * (t + 1) if f is None else seen @ f[t].astype(np.int64).T
    return wanted


def convolved(x: Array, f: Array, c: Taps) -> Array:
    """The exact sums."""
    (n, h, w, _), (p, q) = c.shape, c.size
    (ph, pw), (dh, dw), (sh, sw) = c.pads, c.apart, c.strides
    out = np.zeros((n, p, q, c.filters), np.int64)
    for r in range(c.taps[0]):
        for s in range(c.taps[1]):
            i, j = np.arange(p) * sh - ph + r * dh, np.arange(q) * sw - pw + s * dw
            on = ((i >= 0) & (i < h))[:, None] & ((j >= 0) & (j < w))[None, :]
            seen = x[:, np.clip(i, 0, h - 1)][:, :, np.clip(j, 0, w - 1)].astype(np.int64)
            out += np.where(on[None, :, :, None], seen, 0) @ f[:, r, s].astype(np.int64).T
    return out
