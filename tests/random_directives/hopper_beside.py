"""Random kernels of Hopper with loops of products one after another, as an LSTM cell has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.random_directives.drawing import Array, Drawn
from tests.random_directives.hopper import ARRAYS, MEMORY, SIZE, HopperDrawing, rounded, sums_of


@dataclass
class Beside:
    """Loop number l multiplies rows of a{l} by rows of b{l}, both in steps of tks[l] along ks[l]. between: what is done
    with the sums behind each loop; inside: all loops stand in one over g matrices; known: extents along k are numbers
    in the text; same: all loops have one counter's name."""

    dtype: str
    out: str
    warps: int
    tm: int
    tn: int
    m: int
    n: int
    g: int
    tks: list[int]
    ks: list[int]
    between: str
    inside: bool
    known: bool
    same: bool

    @property
    def counters(self) -> list[str]:
        return (["p"] * 3 if self.same else ["p", "q", "r"])[: len(self.ks)]


class BesideDrawing(HopperDrawing):
    """Draws loops one after another."""

    def beside_one_another(self) -> Drawn:
        r = self.loops_beside()
        lead = "g, " if r.inside else ""
        shapes = {f"a{l}": (lead + f"m, k{l}", (r.m, k)) for l, k in enumerate(r.ks)}
        shapes |= {f"b{l}": (lead + f"n, k{l}", (r.n, k)) for l, k in enumerate(r.ks)}
        args = {name: self.digits((r.g, *shape) if r.inside else shape, r.dtype) for name, (_, shape) in shapes.items()}
        args = {"c": np.full((*([r.g] if r.inside else []), r.m, r.n), 7).astype(ARRAYS[r.out]), **args}
        params = [f"c: {r.out}[{lead}m, n]", *(f"{name}: {r.dtype}[{dims}]" for name, (dims, _) in shapes.items())]
        text = [f"kernel k({', '.join(params)}):", f"    grid cdiv(m, {r.tm}), cdiv(n, {r.tn})"]
        text.append(f"    i, j = block(0) * {r.tm}, block(1) * {r.tn}")
        text += ["    for z in range(g):"] * r.inside
        text += ["    " * (1 + r.inside) + line for line in self.body_beside(r)]
        return self.of_kernel(text, r.warps, self.said_beside(r), args, {"c": rounded(exact(r, args), r.out)})

    def loops_beside(self) -> Beside:
        dtype, warps = self.pick(["f16", "f16", "bf16", "s8", "e4m3"]), self.pick([4, 4, 8])
        tm, tn, count = 16 * warps, self.pick([16, 32, 64, 64, 128]), self.pick([2, 2, 2, 3])
        tks = [self.pick([32, 64, 128]) // SIZE[dtype]] * count
        if self.chance(0.3):
            tks = [self.pick([32, 64, 128]) // SIZE[dtype] for _ in range(count)]
        ks = [0 if self.chance(0.03) else self.rows(self.covered(tk, 4), dtype) for tk in tks]
        out = self.pick(["s32", "s8"] if dtype == "s8" else ["f32", "f32", "f16"])
        n, inside = self.rows(self.covered(tn, 2), "f16"), self.chance(0.2)
        g = self.random.randint(1, 3) if inside else 1
        m, between, known, same = self.covered(tm), self.pick(["", "", "relu"]), self.chance(0.3), self.chance(0.2)
        ks = [min(k, tk) if known and self.chance(0.5) else k for k, tk in zip(ks, tks, strict=True)]
        return Beside(dtype, out, warps, tm, tn, m, n, g, tks, ks, between, inside, known, same)

    def body_beside(self, r: Beside) -> list[str]:
        lead, lines = "z, " if r.inside else "", [f"acc = zeros({sums_of(r.dtype)}[{r.tm}, {r.tn}])"]
        for l, (counter, tk) in enumerate(zip(r.counters, r.tks, strict=True)):
            along = f"{counter} : {counter} + {tk}"
            left, right = f"a{l}[{lead}i : i + {r.tm}, {along}]", f"b{l}[{lead}j : j + {r.tn}, {along}].T"
            end = r.ks[l] if r.known else f"k{l}"
            lines += [f"for {counter} in range(0, {end}, {tk}):", f"    acc = dot({left}, {right}, acc)"]
            lines += ["acc = maximum(acc, 0)"] if r.between else []
        cast = {"s8": ".to(s8, saturate)", "f16": ".to(f16)"}.get(r.out, "")
        return [*lines, f"c[{lead}i : i + {r.tm}, j : j + {r.tn}] = acc{cast}"]

    def said_beside(self, r: Beside) -> list[str]:
        """Operands of each loop come by TMA, by threads, or as the rule has them."""
        lines, tma = [], self.chance(0.7)
        for l in range(len(r.ks)):
            word = self.pick(["tma"] * 5 + ["shared"] if tma else ["shared", "shared", "registers", "tma", ""])
            lines += [f"stage a{l}, b{l}: {word}"] if word else []
        if self.chance(0.5):
            lines.append("instruction acc: wgmma")
        if self.chance(0.5):
            lines.append(f"stage c: {self.pick(['tma', 'tma', 'shared', 'registers'])}")
        room = MEMORY // len(r.ks)
        for counter, tk in zip(r.counters, r.tks, strict=True):
            most = max(1, min(5, room // ((r.tm + r.tn) * tk * SIZE[r.dtype])))
            named = any(line.startswith(f"pipeline {counter}:") for line in lines)
            lines += [f"pipeline {counter}: {self.random.randint(1, most)}"] if self.chance(0.3) and not named else []
        if self.chance(0.2):
            lines.append(f"unroll {self.pick(r.counters)}: {self.pick([2, 3])}")
        if self.chance(0.1):
            lines.append(f"peel {self.pick(r.counters)}")
        lines += [f"persistent {self.pick([1, 1, 2])}"] if self.chance(0.5) else []
        lines += ["cluster 2"] if self.chance(0.25) else []
        lines += [f"l2_group {self.pick([1, 2, 4])}"] if self.chance(0.2) else []
        return [*lines, *self.chosen(["issue.c: block", 'registers.roles: "none"', "chained_mma.acc: behind"])]


def exact(r: Beside, args: dict[str, Array]) -> Array:
    """The exact sums."""
    sums = np.zeros((r.g, r.m, r.n), np.int64)
    for l in range(len(r.ks)):
        a, b = (args[f"{name}{l}"].astype(np.int64) for name in "ab")
        sums = sums + a @ np.swapaxes(b, -1, -2)
        sums = np.maximum(sums, 0) if r.between else sums
    return sums if r.inside else sums[0]
