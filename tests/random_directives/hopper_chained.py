"""Random kernels of two products in an iteration, as attention: turns, tiles ahead, heads, iterations that end
early."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.random_directives.drawing import Drawn
from tests.random_directives.hopper import ARRAYS, SIZE, HopperDrawing, rounded


@dataclass
class Rows:
    """Queries by keys. heads: along the grid, or in a loop of each block; sums: what is kept of the weights, too."""

    dtype: str
    out: str
    warps: int
    tm: int
    tn: int
    d: int
    s: int
    t: int
    heads: int
    inside: bool
    causal: bool
    masked: bool
    sums: str


class ChainedDrawing(HopperDrawing):
    """Draws what multiplies weights that a product has made."""

    def attention(self) -> Drawn:
        """o = weights(q @ k.T) @ v, with what is summed beside."""
        r = self.of_rows()
        shape = (r.heads,)
        q, keys, values = (self.digits((*shape, rows, r.d), r.dtype) for rows in (r.s, r.t, r.t))
        text = [self.head_of(r), *self.places_of(r), *self.round_of(r), *self.ends_of(r)]
        x = q.astype(np.int64) @ keys.astype(np.int64).transpose(0, 2, 1)
        seen = np.arange(r.t)[None, :] <= np.arange(r.s)[:, None] if r.causal else np.ones((r.s, r.t), bool)
        x = np.where(seen, x, -1000)
        e = np.where(seen, np.clip(x, -4, 4), 0)
        wanted = {"o": rounded(e @ values.astype(np.int64), r.out)}
        if r.sums == "sum":
            wanted["l"] = e.sum(2)
        if r.sums == "max":
            wanted["l"] = x.max(2, initial=-1000)
        args = {name: np.full(each.shape, 77, ARRAYS[r.out if name == "o" else "f32"]) for name, each in wanted.items()}
        return self.of_kernel(text, r.warps, self.said_of(r), args | {"q": q, "k": keys, "v": values}, wanted)

    def of_rows(self) -> Rows:
        dtype, warps = self.pick(["f16", "f16", "bf16"]), self.pick([4, 8, 8, 8, 16])
        tm = 16 * warps if self.chance(0.93) else self.pick([32, 64, 128])
        tn, d = self.pick([16, 32, 32, 64]), self.pick([16, 32, 64, 64, 128])
        s, t = self.covered(tm, 2), self.covered(tn, 4)
        causal, heads = self.chance(0.35), self.random.randint(1, 3)
        masked = causal or t % tn > 0 or self.chance(0.5)
        sums, inside = self.pick(["none", "sum", "max"]), self.chance(0.2)
        return Rows(dtype, self.pick(["f32", "f16"]), warps, tm, tn, d, s, t, heads, inside, causal, masked, sums)

    def head_of(self, r: Rows) -> str:
        also = "l: f32[h, s], " if r.sums != "none" else ""
        tensors = ", ".join(
            f"{name}: {r.dtype}[h, {rows}, {r.d}]" for name, rows in (("q", "s"), ("k", "t"), ("v", "t"))
        )
        return f"kernel k(o: {r.out}[h, s, {r.d}], {also}{tensors}):"

    def places_of(self, r: Rows) -> list[str]:
        """From the grid to what is there before the iterations."""
        lines = [f"    grid cdiv(s, {r.tm})" + ("" if r.inside else ", h"), f"    i = block(0) * {r.tm}"]
        lines.append("    for z in range(h):" if r.inside else "    z = block(1)")
        rest = [f"qs = q[z, i : i + {r.tm}, 0 : {r.d}]", f"acc = zeros(f32[{r.tm}, {r.d}])"]
        if r.sums != "none":
            rest.append(f"kept = zeros(f32[{r.tm}])" if r.sums == "sum" else f"kept = full(f32[{r.tm}], -1000.0)")
        return lines + ["    " * (1 + r.inside) + each for each in rest]

    def round_of(self, r: Rows) -> list[str]:
        end = f"minimum(t, i + {r.tm})" if r.causal else "t"
        lines = [f"x = dot(qs, k[z, j : j + {r.tn}, 0 : {r.d}].T)"]
        weights = "clamp(x, -4, 4)"
        if r.masked:
            lines.append(f"seen = j + arange({r.tn})[None, :] < t")
            if r.causal:
                lines[-1] = f"seen = j + arange({r.tn})[None, :] < minimum(t, i + arange({r.tm})[:, None] + 1)"
            weights = f"where(seen, {weights}, 0)"
        if r.sums == "max":
            what = "where(seen, x, -1000.0)" if r.masked else "x"
            lines.append(f"kept = maximum(kept, max({what}, axis=1))")
        lines.append(f"e = {weights}")
        if r.sums == "sum":
            lines.append("kept = kept + sum(e, axis=1)")
        lines += [f"w = e.to({r.dtype})", f"acc = dot(w, v[z, j : j + {r.tn}, 0 : {r.d}], acc)"]
        depth = 1 + r.inside
        return ["    " * depth + f"for j in range(0, {end}, {r.tn}):", *("    " * (depth + 1) + each for each in lines)]

    def ends_of(self, r: Rows) -> list[str]:
        cast = "" if r.out == "f32" else f".to({r.out})"
        lines = [f"o[z, i : i + {r.tm}, 0 : {r.d}] = acc{cast}"]
        if r.sums != "none":
            lines.append(f"l[z, i : i + {r.tm}] = kept")
        return ["    " * (1 + r.inside) + each for each in lines]

    def said_of(self, r: Rows) -> list[str]:
        """Queries lie in registers, in shared memory, or come a tile ahead; groups take turns."""
        tma = self.chance(0.85)
        lines = [f"stage k, v: {'tma' if tma else 'shared'}"]
        persistent = self.chance(0.5)
        several = persistent or r.inside
        queries = self.pick(
            ["shared", "shared", "registers", *["tma"] * (3 if several else 0)]
            if tma
            else ["shared", "shared", "shared", "tma"]
        )
        lines.append(f"stage q: {queries}")
        if queries == "registers":
            lines.append("instruction acc: wgmma")
        else:
            lines.append(f"instruction {self.pick(['x, acc', 'x, acc', 'x, acc', 'x', 'acc'])}: wgmma")
        stages = max(1, (200 * 1024 - 2 * r.tm * r.d * SIZE[r.dtype]) // (2 * r.tn * r.d * SIZE[r.dtype]))
        lines.append(f"pipeline j: {min(stages, self.random.randint(1, 4))}")
        if persistent:
            lines.append(f"persistent {self.pick([1, 1, 2])}")
        if queries == "tma" and self.chance(0.6):
            lines.append(f"pipeline {'tile' if not r.inside else 'z'}: {self.pick([1, 2, 2, 3])}")
        if r.warps > 4 and tma and self.chance(0.5):
            lines.append(f"pingpong {self.pick(['e', 'e', 'w', 'x'])}")
        if tma and self.chance(0.5):
            lines.append(f"delay acc{self.pick(['', '', ': false'])}")
        if self.chance(0.5):
            lines.append(f"stage o: {self.pick(['tma', 'tma', 'shared']) if not r.inside else 'shared'}")
        if r.masked and self.chance(0.5):
            lines.append("peel j: seen")
        return lines + self.of_blocks(r)

    def of_blocks(self, r: Rows) -> list[str]:
        lines = []
        if self.chance(0.2):
            lines.append("cluster 2")
        if not r.inside and self.chance(0.35):
            order = self.pick(["choose tile_columns.grid:", "choose tile_columns.grid:", "l2_group"])
            lines.append(f"{order} {self.pick([1, 2, 4])}")
        if self.chance(0.15):
            lines.append(f"choose tile_order.grid: {self.pick(['ascending', 'descending'])}")
        if self.chance(0.2):
            lines.append(f"unroll {'z' if r.inside and self.chance(0.5) else 'j'}: {self.pick([1, 2, 3])}")
        if self.chance(0.1):
            lines.append(f"subtile acc: {r.tm}, {max(8, r.d // 2)}")
        if self.chance(0.06):
            lines.append("split j: 2")
        return lines
