"""Random products for warp groups: types, orders of operands, loops around them, what is added behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.random_directives.drawing import Array, Drawn
from tests.random_directives.hopper import ARRAYS, SIZE, HopperDrawing, Named, rounded, sums_of

Round = tuple[int, int]
"""Where an iteration begins along k, and the counter of the loop around it."""
WEIGHED = ("apart", "weighed", "rows")
"""Bodies whose products begin at zero, and are added in registers."""


@dataclass
class Product:
    """c = a @ b. left, right: how operands lie; body: what stands in the loop; group: what chooses a matrix of b;
    lead: which matrix of c is stored."""

    dtype: str
    tm: int
    tn: int
    tk: int
    warps: int
    m: int
    n: int
    k: int
    left: str
    right: str
    body: str
    group: str
    groups: int = 1
    out: str = ""
    lead: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    params: list[str] = field(default_factory=list)

    @property
    def sums(self) -> str:
        return sums_of(self.dtype)

    def take(self, name: str, type: str, dims: str, array: Array) -> None:
        """One more tensor."""
        self.params.append(f"{name}: {type}[{dims}]")
        self.args[name] = array


@dataclass
class Loops:
    """The loops around a product: lines before the innermost body, counters, and the iterations of a tile at row i."""

    lines: list[str]
    nest: tuple[str, ...]
    iterations: Callable[[int], list[Round]]
    counter: str = "p"
    stored: bool = False


def indented(depth: int, lines: list[str]) -> list[str]:
    return ["    " * depth + line for line in lines]


class ProductDrawing(HopperDrawing):
    """Draws products of tiles."""

    def warp_groups(self) -> Drawn:
        """A product of two tensors, and what goes with it."""
        p = self.shape()
        loops = self.loops_of(p)
        grid, head = self.places(p)
        before, body, result, kind = self.body_of(p, loops)
        tail, wanted = self.tail(p, result, self.sums_of_tiles(p, loops, kind))
        outside, inside = ([], before) if loops.stored else (before, [])
        text = [f"kernel k({', '.join(p.params)}):", *indented(1, [f"grid {grid}", *head, *outside])]
        text += indented(1, loops.lines[:1]) + indented(2, inside)
        for at, line in enumerate(loops.lines[1:], 2):
            text += indented(at, [line])
        text += indented(1 + len(loops.lines), body) + indented(1 + loops.stored, tail)
        names = [each.split(":")[0] for each in p.params]
        self.apart(p, text)
        self.partly(p, text)
        return self.of_kernel(text, p.warps, self.said(p, loops), {name: p.args[name] for name in names}, wanted)

    def apart(self, p: Product, text: list[str]) -> None:
        """Now and then rows of a tensor lie further apart than they are long."""
        if not self.chance(0.1):
            return
        name = self.pick(["a", "b", "c"])
        array = p.args[name]
        wide = np.full((*array.shape[:-1], array.shape[-1] + self.pick([16, 32, 64])), 77).astype(array.dtype)
        wide[..., : array.shape[-1]] = array
        p.args[name] = wide[..., : array.shape[-1]]
        (old,) = (each for each in p.params if each.startswith(f"{name}:"))
        text[0] = text[0].replace(old, f"{old[:-1]}; strided]")

    def partly(self, p: Product, text: list[str]) -> None:
        """Now and then the result is a part of rows that begin at multiples of 16 bytes, and ends anywhere in them."""
        c = p.args["c"]
        if self.rare.random() > 0.12 or "strided" in p.params[0] or c.base is not None or not c.shape[-1]:
            return
        wide = np.full((*c.shape[:-1], -(-c.shape[-1] // 64) * 64 + 64), 77).astype(c.dtype)
        p.args["c"], self.beside = wide[..., : c.shape[-1]], [wide[..., c.shape[-1] :]]
        text[0] = text[0].replace(p.params[0], f"{p.params[0][:-1]}; strided]")

    def shape(self) -> Product:
        """Types, tiles and extents."""
        dtype = self.pick(["f16", "f16", "f16", "bf16", "s8", "s8", "u8", "e4m3", "f32"])
        size, warps = SIZE[dtype], self.pick([4, 4, 4, 4, 8, 8, 16])
        left = self.pick(["along", "along", "made", "across"] if size != 1 else ["along", "along", "made"])
        right = self.pick(["along", "along", "across"] if size != 1 else ["along"])
        tm, tn = 16 * warps, self.pick([16, 32, 32, 64, 64, 64, 128, 96, 8, 48])
        if size == 4 and right == "across":
            tm, tn = self.pick([32, 64]), 16 * warps
            left = "along" if self.chance(0.9) else left
        if self.chance(0.06):
            tm, left, right = self.pick([32, 64, 128]), *self.pick([("along", "across"), ("across", "along")])
        if warps <= 8 and tm * tn <= 64 * 64 and self.parts.random() < 0.12:
            tm *= self.parts.choice([2, 3])
        tk = self.pick([32, 64, 128, 128, 256]) // size
        body = self.pick(["sums", "sums", "sums", "apart", "weighed", "rows", "second", "twice", "read"])
        group = self.pick(["none", "none", "none", "block", "data", "search"])
        many = 2 if tm * tn > 8192 else 3
        m, n, k = self.covered(tm, many), self.covered(tn, many), self.covered(tk, 4)
        k = 0 if self.chance(0.02) else k
        m = self.rows(m, dtype) if left == "across" else m
        n = self.rows(n, "f16") if self.chance(0.8) or right == "across" else n
        k = self.rows(k, dtype)
        p = Product(dtype, tm, tn, tk, warps, m, n, k, left, right, body, group)
        p.out = self.pick(["s32", "s32", "s8"] if p.sums == "s32" else ["f32", "f32", "f16", "bf16"])
        p.groups = self.random.randint(1, 3) if group != "none" else 1
        p.params = ["c", "a"]
        p.args = {"a": self.digits((m, k), dtype)}
        p.take("b", dtype, "", self.digits((p.groups, k, n), dtype))
        return p

    # ---- where tiles are ----

    def places(self, p: Product) -> tuple[str, list[str]]:
        """The grid, and the lines that say which tile a block has."""
        tiles = [f"cdiv(m, {p.tm})", f"cdiv(n, {p.tn})"]
        turned = self.chance(0.25)
        i, j = ("block(1)", "block(0)") if turned else ("block(0)", "block(1)")
        head = [f"i, j = {i} * {p.tm}, {j} * {p.tn}"]
        grid = tiles[::-1] if turned else tiles
        if p.group == "block":
            grid.append("g")
            head.append("z = block(2)")
            p.lead = "z, "
        if p.group == "data":
            which = self.values.integers(0, p.groups, -(-p.m // p.tm)).astype(np.int32)
            p.take("which", "s32", "t", which)
            head.append(f"z = which[i // {p.tm}].to(index)")
        if p.group == "search":
            firsts = np.sort(self.values.integers(0, p.m, p.groups)).astype(np.int32)
            firsts[0] = 0
            p.take("firsts", "s32", "g", firsts)
            head += [
                "z, behind = 0, g",
                "while z + 1 < behind:",
                "    middle = (z + behind) // 2",
                "    here = firsts[middle].to(index) <= i",
                "    z, behind = where(here, middle, z), where(here, behind, middle)",
            ]
        return ", ".join(grid), head

    def matrix_of(self, p: Product, i: int, z: int, u: int) -> int:
        """Which matrix of b the tile of row i multiplies."""
        if p.group == "data":
            return int(p.args["which"][i // p.tm])
        if p.group == "search":
            return int(np.searchsorted(p.args["firsts"], i, side="right")) - 1
        return {"none": 0, "block": z, "outer": u}[p.group]

    # ---- loops ----

    def loops_of(self, p: Product) -> Loops:
        """Loops over k, some of them in another one."""
        ways = ["k", "k", "k", "k", "k", "causal", "causal", "stops", "stops", "moved"]
        if p.group == "none":
            ways += ["outer", "outer", "stored", "stored"]
        way = self.pick(ways)
        if self.rare.random() < 0.05:
            return self.no_round(p)
        if way in ("outer", "stored"):
            return self.loops_around(p, way == "stored")
        if way == "causal":
            line = f"for p in range(0, minimum(k, i + {p.tm}), {p.tk}):"
            return Loops([line], ("p",), lambda i: [(at, 0) for at in range(0, min(p.k, i + p.tm), p.tk)])
        if way == "stops":
            stops = self.values.integers(0, p.k + 1, -(-p.m // p.tm)).astype(np.int32)
            p.take("stops", "s32", "q", stops)
            line = f"for p in range(0, minimum(k, stops[i // {p.tm}].to(index)), {p.tk}):"
            return Loops([line], ("p",), lambda i: [(at, 0) for at in range(0, int(stops[i // p.tm]), p.tk)])
        if way == "moved":
            count = self.random.randint(1, 4)
            at = self.values.integers(0, max(1, -(-p.k // p.tk)), count).astype(np.int32)
            p.take("at", "s32", "iterations", at)
            lines = ["for p in range(iterations):"]
            return Loops(lines, ("p",), lambda i: [(int(each) * p.tk, 0) for each in at], "q")
        lines, loops, iterations = self.loop(p.k, p.tk)
        return Loops([each.strip() for each in lines], loops[0], lambda i: [(at, 0) for at in iterations])

    def no_round(self, p: Product) -> Loops:
        """A loop that does nothing, which the compiler knows, or an assembler may find out, or neither."""
        tk, behind = p.tk, -(-p.k // p.tk) * p.tk
        bounds = self.rare.choice([f"{tk}, {tk // 2}", f"{behind}, k", "0, minimum(k, 0)", f"k, k - {tk}", "k, k"])
        inner = f"for p in range({bounds}, {tk}):"
        if self.rare.random() < 0.3 and p.group == "none" and p.body not in ("rows", "weighed"):
            return Loops(["for u in range(2):", inner], ("u", "p"), lambda i: [])
        return Loops([inner], ("p",), lambda i: [])

    def loops_around(self, p: Product, stored: bool) -> Loops:
        """A loop over the matrices of b, whose products are added or stored one by one."""
        p.group, p.groups, p.lead = "outer", self.random.randint(1, 3), "u, " if stored else ""
        p.args["b"] = self.digits((p.groups, p.k, p.n), p.dtype)
        lines = ["for u in range(g):", f"for p in range(0, k, {p.tk}):"]
        starts, groups = range(0, p.k, p.tk), range(p.groups)
        return Loops(lines, ("u", "p"), lambda i: [(at, u) for u in groups for at in starts], stored=stored)

    # ---- what stands in the loop ----

    def operand_texts(self, p: Product, at: str) -> tuple[str, str, str]:
        """The loads of a and b, and of another matrix as b."""
        rows, along = f"i : i + {p.tm}", f"{at} : {at} + {p.tk}"
        columns = f"j : j + {p.tn}"
        left = f"a[{along}, {rows}].T" if p.left == "across" else f"a[{rows}, {along}]"
        lead = {"none": "", "outer": "u, "}.get(p.group, "z, ")
        right, other = (
            f"{name}[{lead}{along}, {columns}]" if p.right == "across" else f"{name}[{lead}{columns}, {along}].T"
            for name in ("b", "d")
        )
        if p.left == "made":
            left = f"({left}.to(f32) * 2.0).to(e4m3)" if p.dtype == "e4m3" else f"{left} * 2"
        if p.dtype == "f32":
            left, right, other = (f"bitcast({each}, tf32)" for each in (left, right, other))
        return left, right, other

    def body_of(self, p: Product, loops: Loops) -> tuple[list[str], list[str], str, str]:
        """Lines before the loop, its body, the value behind it, and which sums that is."""
        if p.body in ("rows", "weighed") and (loops.counter == "q" or loops.nest != ("p",)):
            p.body = "apart"
        left, right, other = self.operand_texts(p, loops.counter)
        self.declare(p)
        zero = f"zeros({p.sums}[{p.tm}, {p.tn}])"
        before, body = [f"acc = {zero}"], [f"x = {left}"]
        if loops.counter == "q":
            body.insert(0, f"q = at[p].to(index) * {p.tk}")
        if p.body in WEIGHED:
            part = f"part = dot(x, {right})"
            if p.body == "rows":
                p.take("w", p.sums, "iterations, m", self.digits((max(1, -(-p.k // p.tk)), p.m), p.sums))
                body += [f"weights = w[p // {p.tk}, i : i + {p.tm}][:, None]", part, "acc = acc + part * weights"]
            else:
                times = f" * (p // {p.tk} + 1).to({p.sums})" if p.body == "weighed" else ""
                body += [part, f"acc = acc + part{times}"]
            return before, body, "acc", p.body
        body.append(f"acc = dot(x, {right}, acc)")
        if p.body == "second":
            return [*before, f"more = {zero}"], [*body, f"more = dot(x, {other}, more)"], "(acc - more)", p.body
        if p.body == "twice":
            return before, [*body, f"acc = dot(x, {other}, acc)"], "acc", p.body
        if p.body == "read" and p.dtype != "f32":
            before.append(f"total = zeros({p.sums}[{p.tm}])")
            return before, [*body, f"total = total + sum(x.to({p.sums}), axis=1)"], "(acc + total[:, None])", p.body
        return before, body, "acc", "sums"

    def declare(self, p: Product) -> None:
        """The operands' dims, and their arrays as these lie."""
        more = "" if p.group == "none" else "g, "
        order = "k, n" if p.right == "across" else "n, k"
        p.params[1] = f"a: {p.dtype}[{'k, m' if p.left == 'across' else 'm, k'}]"
        p.params[2] = f"b: {p.dtype}[{more}{order}]"
        p.args["exact a"] = p.args["a"].astype(np.int64) * (2 if p.left == "made" else 1)
        for name in ("b", "d"):
            if name == "d":
                if p.body not in ("second", "twice"):
                    break
                p.take("d", p.dtype, more + order, self.digits((p.groups, p.k, p.n), p.dtype))
            p.args["exact " + name] = exact = p.args[name].astype(np.int64)
            lies = p.args[name] if p.right == "across" else p.args[name].transpose(0, 2, 1)
            p.args[name] = np.ascontiguousarray(lies if more else lies[0])
            assert exact.shape == (p.groups, p.k, p.n)
        if p.left == "across":
            p.args["a"] = np.ascontiguousarray(p.args["a"].T)

    # ---- what comes out ----

    def sums_of_tiles(self, p: Product, loops: Loops, kind: str) -> Array:
        """The exact sums, a matrix for each of those that are stored."""
        a, b = p.args["exact a"], p.args["exact b"]
        d = p.args.get("exact d", b)
        stored = p.groups if p.lead else 1
        wanted = np.zeros((stored, p.m, p.n), np.int64)
        for z in range(stored):
            for i in range(0, p.m, p.tm):
                rows = slice(i, i + p.tm)
                for at, u in loops.iterations(i):
                    if loops.stored and u != z:
                        continue
                    g, along = self.matrix_of(p, i, z, u), slice(at, at + p.tk)
                    left, right = a[rows, along], b[g, along]
                    right = right - d[g, along] if kind == "second" else right
                    right = right + d[g, along] if kind == "twice" else right
                    part = left @ right
                    part = part * (at // p.tk + 1) if kind == "weighed" else part
                    part = part * p.args["w"][at // p.tk, rows][:, None].astype(np.int64) if kind == "rows" else part
                    wanted[z, rows] += part + (left.sum(1)[:, None] if kind == "read" else 0)
        return wanted

    def tail(self, p: Product, result: str, exact: Array) -> tuple[list[str], dict[str, Array]]:
        """Lines behind the loop, which store, and what these leave."""
        lines, also = [f"v = {result}"], {}
        if self.chance(0.25):
            bias = self.digits((p.n,), p.sums)
            p.take("bias", p.sums, "n", bias)
            lines.append(f"v = v + bias[j : j + {p.tn}][None, :]")
            exact = exact + bias.astype(np.int64)
        if self.chance(0.15):
            more = self.digits((p.m, p.n), p.out)
            p.take("r", p.out, "m, n", more)
            lines.append(f"v = v + r[i : i + {p.tm}, j : j + {p.tn}].to({p.sums})")
            exact = exact + more.astype(np.int64)
        if self.chance(0.2):
            lines.append("v = maximum(v, 0)")
            exact = np.maximum(exact, 0)
        if self.chance(0.12) and not p.lead and p.body != "read":  # sums of columns beyond the edge, too
            sums = [exact[0][:, j : j + p.tn].sum(1) for j in range(0, p.n, p.tn)]
            also["s"] = np.array(sums)
            p.take("s", p.sums, "columns, m", np.full(also["s"].shape, 77, ARRAYS[p.sums]))
            lines.append(f"s[j // {p.tn}, i : i + {p.tm}] = sum(v, axis=1)")
        cast = f".to({p.out}, saturate)" if p.out == "s8" else "" if p.out == p.sums else f".to({p.out})"
        turned = self.chance(0.1)
        place = f"{p.lead}j : j + {p.tn}, i : i + {p.tm}" if turned else f"{p.lead}i : i + {p.tm}, j : j + {p.tn}"
        lines.append(f"c[{place}] = v{cast}{'.T' if turned else ''}")
        wanted = rounded(exact if p.lead else exact[0], p.out)
        wanted = wanted.swapaxes(-1, -2) if turned else wanted
        p.params[0] = f"c: {p.out}[{'g, ' if p.lead else ''}{'n, m' if turned else 'm, n'}]"
        p.args["c"] = np.full(wanted.shape, 77, ARRAYS[p.out])
        return lines, {"c": wanted, **also}

    # ---- its schedule ----

    def said(self, p: Product, loops: Loops) -> list[str]:
        """Lines of its schedule."""
        loaded = ["a", "b"] + [name for name in ("d", "w") if name in p.args]
        products = ["part"] if p.body in WEIGHED else ["acc", "more"] if p.body == "second" else ["acc"]
        operands = p.tm + p.tn * (2 if "d" in p.args else 1)
        stored = [name for name in ("c", "c", "c", "s") if name in p.args]
        named = Named(loaded, stored, loops.nest, products, operands * p.tk * SIZE[p.dtype], 2)
        lines = self.lines(named)
        value = "part" if p.body in WEIGHED else "acc"
        if p.tn & (p.tn - 1):
            lines.append(f"subtile {value}: {p.tm}, {p.tn & -p.tn}")
        elif p.tn >= 32 and self.chance(0.25):
            lines.append(f"subtile {value}: {p.tm}, {p.tn // self.pick([2, 2, 4])}")
        for name in ("bias", "r"):
            if name in p.args and self.chance(0.4):
                lines.append(f"stage {name}: shared")
        if self.chance(0.15):
            lines.append(f"specialize {self.pick(['m', 'n', 'k', 'm, n, k'])}")
        return lines
