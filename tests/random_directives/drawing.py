"""Random kernels with loops that load, and random lines of their schedules; what they compute, in numpy, is exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

NUMPY = {"f16": np.float16, "f32": np.float32, "s8": np.int8, "s32": np.int32}
Array = Any


@dataclass
class Drawn:
    """A kernel with its arrays and what it leaves in them. loops: counters, those in one another in one tuple; sms:
    multiprocessors of the device that it runs on; beside: what lies beside views, all of it 77, and stays so."""

    text: str
    args: dict[str, Any]
    wanted: dict[str, Array]
    loops: list[tuple[str, ...]]
    tensors: list[str]
    lines: list[str] = field(default_factory=list)
    arch: str = "sm_90"
    sms: int = 132
    beside: list[Array] = field(default_factory=list)

    @property
    def whole(self) -> str:
        return self.text + "".join(f"    {line}\n" for line in self.lines)


class Drawing:
    def __init__(self, seed: int):
        self.random = Random(seed)
        self.later = Random(seed + 1_000_003)  # what was added: the programs of a seed stay as they were
        self.rare = Random(seed + 2_000_081)  # what was added behind that
        self.parts = Random(seed + 7_000_003)  # tiles with more rows than the warps compute at a time
        self.clusters = Random(seed + 8_000_009)  # rows that several blocks share
        self.pieces = Random(seed + 9_000_011)  # more rows of a block
        self.values = np.random.default_rng(seed)

    def pick(self, options: Any) -> Any:
        return self.random.choice(list(options))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def extent(self, tile: int) -> int:
        """A dim that tiles of this extent cover: whole, odd, short, none."""
        whole = tile * self.random.randint(1, 3)
        return self.pick(
            [whole, whole, whole + self.random.randint(1, tile - 1), self.random.randint(1, tile), whole + 8]
        )

    def numbers(self, shape: tuple[int, ...], dtype: str) -> Array:
        return self.values.integers(-3, 4, shape).astype(NUMPY[dtype])

    # ---- a product ----

    def product(self) -> Drawn:
        """c = a @ b, both either way, with what stands in its loop and behind it."""
        dtype = self.pick(["f16", "f16", "s8"])
        sums = "s32" if dtype == "s8" else "f32"
        tm, tn, tk = (self.pick([16, 32, 64]) for _ in range(3))
        tk = max(tk, 32) if dtype == "s8" else tk
        m, n = self.extent(tm), self.extent(tn)
        k = 0 if self.chance(0.05) else self.extent(tk)
        if self.chance(0.5):
            k = -(-k // 8) * 8  # copies of 16 bytes
        a_turned, b_turned, batched = self.chance(0.2), self.chance(0.6), self.chance(0.2)
        batch = self.random.randint(1, 3) if batched else 1
        a, b = self.numbers((batch, m, k), dtype), self.numbers((batch, k, n), dtype)
        at, lead = ("z, ", "z, ") if batched else ("", "")
        dims = "batch, " if batched else ""
        loop, loops, iterations = self.loop(k, tk)
        load_a = f"a[{at}p : p + {tk}, i : i + {tm}].T" if a_turned else f"a[{at}i : i + {tm}, p : p + {tk}]"
        load_b = f"b[{lead}j : j + {tn}, p : p + {tk}].T" if b_turned else f"b[{lead}p : p + {tk}, j : j + {tn}]"
        doubled = self.chance(0.2)
        inner = [f"x = {load_a} * 2" if doubled else f"x = {load_a}", f"acc = dot(x, {load_b}, acc)"]
        also = self.chance(0.2)  # the operand is read by something else, too
        if also:
            inner.append(f"total = total + sum(x.to({sums}), axis=1)")
        head = [f"i, j = block(0) * {tm}, block(1) * {tn}"] + ["z = block(2)"] * batched
        head += [f"acc = zeros({sums}[{tm}, {tn}])"] + [f"total = zeros({sums}[{tm}])"] * also
        tail = [f"c[{at}i : i + {tm}, j : j + {tn}] = acc" + (" + total[:, None]" if also else "")]
        text = [
            f"kernel k(c: {sums}[{dims}m, n], a: {dtype}[{dims}{'k, m' if a_turned else 'm, k'}], "
            f"b: {dtype}[{dims}{'n, k' if b_turned else 'k, n'}]):",
            f"    grid cdiv(m, {tm}), cdiv(n, {tn})" + ", batch" * batched,
            *(f"    {line}" for line in head),
            *loop,
            *(" " * (4 + 4 * len(loops[0])) + line for line in inner),
            *(f"    {line}" for line in tail),
        ]
        wide_a, wide_b = a.astype(np.int64) * (2 if doubled else 1), b.astype(np.int64)
        wanted = np.zeros((batch, m, n), np.int64)
        for p in iterations:
            left = wide_a[:, :, p : p + tk]
            wanted += left @ wide_b[:, p : p + tk]
            if also:
                wanted += left.sum(2)[:, :, None]
        a = a.transpose(0, 2, 1) if a_turned else a
        b = b.transpose(0, 2, 1) if b_turned else b
        args = {
            "c": np.full((batch, m, n), 77, NUMPY[sums]),
            "a": np.ascontiguousarray(a),
            "b": np.ascontiguousarray(b),
        }
        if not batched:
            args, wanted = {name: array[0] for name, array in args.items()}, wanted[0]
        return self.scheduled(text, args, {"c": wanted}, loops, ["a", "b"])

    def loop(self, k: int, tk: int) -> tuple[list[str], list[tuple[str, ...]], list[int]]:
        """A loop over k, or two in one another: its lines, its counters, where its iterations begin."""
        way = self.pick(["plain", "plain", "plain", "late", "skips", "nest", "ragged"])
        if way == "late":
            return [f"    for p in range({tk}, k, {tk}):"], [("p",)], list(range(tk, k, tk))
        if way == "skips":
            return [f"    for p in range(0, k, {2 * tk}):"], [("p",)], list(range(0, k, 2 * tk))
        if way == "nest":
            lines = [
                f"    for u in range(cdiv(k, {2 * tk})):",
                f"        for p in range(u * {2 * tk}, u * {2 * tk} + {2 * tk}, {tk}):",
            ]
            return lines, [("u", "p")], list(range(0, -(-k // (2 * tk)) * 2 * tk, tk))
        if way == "ragged":  # the last inner loop may be shorter, never empty
            lines = [
                f"    for u in range(0, k, {2 * tk}):",
                f"        for p in range(u, minimum(k, u + {2 * tk}), {tk}):",
            ]
            return lines, [("u", "p")], list(range(0, k, tk))
        return [f"    for p in range(0, k, {tk}):"], [("p",)], list(range(0, k, tk))

    # ---- a convolution ----

    def gather(self) -> Drawn:
        """Sums over channels and taps, of places that hang on both, under a mask."""
        tn, tm = self.pick([16, 32]), self.pick([16, 32])
        c, taps, n = (
            32 * self.random.randint(0 if self.chance(0.1) else 1, 3),
            self.random.randint(1, 5),
            self.extent(tn),
        )
        k = self.extent(tm)
        x, f = self.numbers((c // 32, n, 32), "s8"), self.numbers((c // 32, taps, k, 32), "s8")
        shift = self.random.randint(0, 2)
        text = [
            "kernel k(y: s32[n, k], x: s8[cb, n, 32], f: s8[cb, taps, k, 32]):",
            f"    grid cdiv(n, {tn}), cdiv(k, {tm})",
            f"    i, j = block(0) * {tn}, block(1) * {tm}",
            f"    pixel = i + arange({tn})",
            f"    acc = zeros(s32[{tn}, {tm}])",
            "    for u in range(cb):",
            "        for t in range(taps):",
            f"            at = pixel + t * 2 - {shift}",
            "            inside = (0 <= at) & (at < n)",
            "            pixels = load(x[u, at[:, None], arange(32)[None, :]], mask=inside[:, None])",
            f"            acc = dot(pixels, f[u, t, j : j + {tm}, 0 : 32].T, acc)",
            f"    y[i : i + {tn}, j : j + {tm}] = acc",
        ]
        wanted = np.zeros((n, k), np.int64)
        for u in range(c // 32):
            for t in range(taps):
                at = np.arange(n) + 2 * t - shift
                on = (at >= 0) & (at < n)
                rows = np.where(on[:, None], x[u, np.clip(at, 0, n - 1)].astype(np.int64), 0)
                wanted += rows @ f[u, t].astype(np.int64).T
        args = {"y": np.full((n, k), 77, np.int32), "x": x, "f": f}
        drawn = self.scheduled(text, args, {"y": wanted}, [("u", "t")], ["x", "f"])
        if self.chance(0.5):
            drawn.lines += ["specialize taps", "precompute inside: t"]
        return drawn

    # ---- two products in a loop ----

    def chained(self) -> Drawn:
        """As attention: what the first product made is an operand of the second; iterations have an end of their
        own."""
        tm, tn, d = self.pick([16, 32, 64]), self.pick([16, 32]), self.pick([16, 32])
        s, t = self.extent(tm), self.extent(tn)
        q, keys, values = (self.numbers(shape, "f16") for shape in ((s, d), (t, d), (t, d)))
        causal = self.chance(0.4)
        text = [
            f"kernel k(o: f32[s, {d}], q: f16[s, {d}], k: f16[t, {d}], v: f16[t, {d}]):",
            f"    grid cdiv(s, {tm})",
            f"    i = block(0) * {tm}",
            f"    qs = q[i : i + {tm}, 0 : {d}]",
            f"    acc = zeros(f32[{tm}, {d}])",
            f"    for j in range(0, {f'minimum(t, i + {tm})' if causal else 't'}, {tn}):",
            f"        x = dot(qs, k[j : j + {tn}, 0 : {d}].T)",
            f"        seen = j + arange({tn})[None, :] < t",
            *([f"        seen = seen & (j + arange({tn})[None, :] <= i + arange({tm})[:, None])"] * causal),
            "        e = where(seen, clamp(x, -4, 4), 0)",
            f"        acc = dot(e.to(f16), v[j : j + {tn}, 0 : {d}], acc)",
            f"    o[i : i + {tm}, 0 : {d}] = acc",
        ]
        x = np.clip(q.astype(np.int64) @ keys.astype(np.int64).T, -4, 4)
        if causal:
            x = np.where(np.arange(t)[None, :] <= np.arange(s)[:, None], x, 0)
        args = {"o": np.full((s, d), 77, np.float32), "q": q, "k": keys, "v": values}
        drawn = self.scheduled(text, args, {"o": x @ values.astype(np.int64)}, [("j",)], ["k", "v"])
        if self.chance(0.5) and not any(line.startswith("peel") for line in drawn.lines):
            drawn.lines.append("peel j: seen")
        return drawn

    # ---- rows ----

    def rows(self) -> Drawn:
        """A row at once: what is joined of it goes into each of its elements, and is joined again."""
        rows, cols = self.pick([1, 2, 4]), self.pick([64, 256, 512])
        if self.pieces.random() < 0.3:
            rows, cols = 8 * rows, min(cols, 256)
        m, n = self.extent(max(rows, 2)), self.random.randint(1, cols)
        dtype, loaded = self.pick(["f16", "f32"]), self.pick([0, -5])
        x = self.numbers((m, n), dtype)
        text = [
            f"kernel k(y: f32[m, n], top: f32[m], x: {dtype}[m, n], w: f32[n]):",
            f"    grid cdiv(m, {rows})",
            f"    i = block(0) * {rows}",
            f"    v = load(x[i : i + {rows}, 0 : {cols}], other={loaded}).to(f32)",
            "    most = max(v, axis=1, keepdims=true)",
            "    d = v - most",
            "    total = sum(d, axis=1)",
            f"    weights = w[0 : {cols}]",
            f"    y[i : i + {rows}, 0 : {cols}] = d * weights[None, :] + total[:, None]",
            f"    top[i : i + {rows}] = reshape(most, [{rows}])",
        ]
        w = self.numbers((n,), "f32")
        wide = np.pad(x.astype(np.int64), ((0, 0), (0, cols - n)), constant_values=loaded)
        most = wide.max(1, keepdims=True, initial=-100)
        total = (wide - most).sum(1, keepdims=True)
        wanted = {"y": (wide - most)[:, :n] * w.astype(np.int64) + total, "top": most[:, 0]}
        args = {"y": np.zeros((m, n), np.float32), "top": np.zeros(m, np.float32), "x": x, "w": w}
        drawn = self.scheduled(text, args, wanted, [("none",)], [])
        drawn.lines = [line for line in drawn.lines if line.startswith("persistent")]
        staged = self.chance(0.4)
        if self.chance(0.8):
            drawn.lines.append(f"loop v, 1: {self.pick(['', 'static '])}{self.pick([32, 64, 128])}")
            drawn.lines += [f"stage {self.pick(['v', 'd'])}: shared"] * staged
        if self.chance(0.3):
            drawn.lines.append(f"choose recompute.{self.pick(['v', 'd'])}: anew")
        if self.rare.random() < 0.25:
            self.of_short_parts(drawn, cols)
        if self.later.random() < 0.6:
            drawn.lines.append(f"align {self.later.choice(['v', 'd'])}: {self.later.choice([1, 2, 4, 8, 16])}")
        if self.clusters.random() < 0.4:
            self.of_clusters(drawn)
        return drawn

    def of_clusters(self, drawn: Drawn) -> None:
        """Rows of which each block of a cluster has a part."""
        warps = int(drawn.text.rsplit("warps = ", 1)[1])
        blocks, vector = self.clusters.choice([2, 2, 4, 8]), self.clusters.choice([1, 2, 4])
        lanes = self.clusters.choice([[1, 32], [2, 16], [4, 8]])
        drawn.lines = [line for line in drawn.lines if not line.startswith("persistent")]
        drawn.lines.append(
            f"layout {self.clusters.choice('vd')}: vector [1, {vector}], lanes {lanes}, warps [1, {warps}], "
            f"blocks [1, {blocks}]"
        )

    def of_short_parts(self, drawn: Drawn, cols: int) -> None:
        """Parts that may be shorter than 16 bytes, of tensors that go through shared memory or leave by boxes."""
        rare = self.rare
        part = cols // rare.choice([4, 8, 16, 32])
        drawn.lines = [line for line in drawn.lines if not line.startswith(("loop", "stage"))]
        drawn.lines.append(f"loop {rare.choice(['v', 'd'])}, 1: {rare.choice(['', 'static '])}{part}")
        drawn.lines += [f"stage x: {rare.choice(['shared', 'shared', 'registers'])}"] * (rare.random() < 0.5)
        drawn.lines += ["stage y: tma"] * (rare.random() < 0.4)
        drawn.lines += ["persistent 1"] * (
            rare.random() < 0.3 and not any("persistent" in line for line in drawn.lines)
        )

    # ---- no product ----

    def summed(self) -> Drawn:
        """Rows added up in a loop or behind it, what is masked off is not 0; or the places of the greatest elements."""
        rows, cols = self.pick([1, 4, 16]), self.pick([32, 128])
        m, n = self.extent(max(rows, 2)), self.extent(cols)
        x = self.numbers((m, n), "f32")
        other = self.pick([0, 2])
        way = self.later.choice(["inside", "behind", "place"])
        loaded = f"load(x[i : i + {rows}, p : p + {cols}], other={other if way != 'place' else -1000})"
        carried, turn, result = {
            "inside": (f"v = zeros(f32[{rows}])", f"v = v + sum({loaded}, axis=1)", "v"),
            "behind": (f"v = zeros(f32[{rows}, {cols}])", f"v = v + {loaded}", "sum(v, axis=1)"),
            "place": (
                f"v, k = full(f32[{rows}, {cols}], -inf), zeros(index[{rows}, {cols}])",
                f"v, k = first(v, k, {loaded}, (p + arange({cols}))[None, :])",
                "second(v, k)",
            ),
        }[way]
        text = [
            "def first(v, k, w, j):",
            "    take = (w > v) | ((w == v) & (j < k))",
            "    return where(take, w, v), where(take, j, k)",
            "",
            "def second(v, k):",
            "    best, place = reduce(first, (v, k), axis=1)",
            "    return place.to(s32).to(f32)",
            "",
            "kernel k(y: f32[m], x: f32[m, n]):",
            f"    grid cdiv(m, {rows})",
            f"    i = block(0) * {rows}",
            f"    {carried}",
            f"    for p in range(0, n, {cols}):",
            f"        {turn}",
            f"    y[i : i + {rows}] = {result}",
        ]
        missing = -(-n // cols) * cols - n
        wanted = x.astype(np.int64).sum(1) + other * missing if way != "place" else x.argmax(1)
        return self.scheduled(text, {"y": np.zeros(m, np.float32), "x": x}, {"y": wanted}, [("p",)], ["x"])

    # ---- schedules ----

    def scheduled(
        self,
        text: list[str],
        args: dict[str, Any],
        wanted: dict[str, Array],
        loops: list[tuple[str, ...]],
        tensors: list[str],
    ) -> Drawn:
        warps = self.pick([1, 2, 4])
        whole = "\n".join([*text, "", "schedule s of k:", f"    warps = {warps}", ""])
        drawn = Drawn(whole, args, wanted, loops, tensors)
        lines = drawn.lines
        staged = [t for t in tensors if self.chance(0.4)]
        words = [self.pick(["shared", "shared", "registers"]) for _ in staged]
        words = [word if word == "shared" else self.rare.choice(["registers", "ahead", "ahead"]) for word in words]
        lines += [f"stage {t}: {word}" for t, word in zip(staged, words, strict=True)]
        nest = loops[0]
        if self.chance(0.6):
            named = nest[-1:] if self.chance(0.4) else nest
            lines.append(f"pipeline {', '.join(named)}: {self.random.randint(1, 5)}")
        if self.chance(0.3):
            lines.append(f"unroll {self.pick(nest)}: {self.pick([2, 3, 4])}")
        if self.chance(0.15):
            lines.append(f"peel {self.pick(nest)}")
        if self.chance(0.4):
            lines.append(f"persistent {self.pick([1, 2])}")
        if self.chance(0.3) and "block(1)" in whole:
            lines.append(f"l2_group {self.pick([1, 2, 3, 8])}")
        if self.chance(0.35):
            parts = self.pick([1, 2, 3, 5, "stream", "2, cluster", "3, cluster", "4, cluster"])
            lines.append(f"split {nest[0] if self.chance(0.9) else nest[-1]}: {parts}")
        lines += self.of_products(whole, nest[-1])
        return drawn

    def of_products(self, text: str, loop: str) -> list[str]:
        """Lines about a product's sums, its fragments and its results."""
        later, lines = self.later, []
        if "dot" not in text:
            return lines
        if later.random() < 0.4:
            lines.append(f"subtile acc: {later.choice([8, 16, 32])}, {later.choice([8, 16, 32])}")
        if later.random() < 0.5:
            lines.append(f"prefetch_fragments {loop}: {later.choice(['whole', 'early', 'late'])}")
        if later.random() < 0.2:
            lines.append(f"stage {later.choice(['c', 'o', 'y'])}: {later.choice(['shared', 'registers'])}")
        return lines

    def drawn(self) -> Drawn:
        way: Callable[[], Drawn] = self.pick(
            [*[self.product] * 3, self.gather, self.chained, self.rows, self.rows, self.summed]
        )
        return way()
