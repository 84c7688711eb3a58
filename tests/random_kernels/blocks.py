"""Draws what blocks do together: loops that `split` divides, whose parts join by a function, and rows that a cluster
shares; and what came with them: boxes whose places a table says, `gather`, products of batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.random_kernels.drawing import Shape, Variable, size_of
from tests.random_kernels.meaning import EXACT, FLOATS, INTEGERS, NUMBERS, NUMPY, Expr, State, lowest, whole_number
from tests.random_kernels.pipelines import LEAST_K, MEMORY, SUMS, PipelineDrawing
from tests.random_kernels.tree import Assign, Parameter, Plain, Program, Statement

SHARE = 0.3
"""Of all programs. The others are those that the seeds had before."""
NEWER = ("sm_90", "sm_90a", "sm_100", "sm_100a")
"""Targets with clusters."""
MAPS = "def then(a, b):\n    return a[0] * b[0], a[1] * b[0] + b[1]\n"
"""Affine maps, the earlier one first: does not commute."""
TOPS = """\
def met(a, b):
    top = maximum(a[0], b[0])
    p, q = a[0] == top, b[0] == top
    parts = where(p[:, None], a[2], 0) + where(q[:, None], b[2], 0)
    return top, where(p, a[1], 0) + where(q, b[1], 0), parts
"""
"""The greatest numbers, how often they are there, and sums beside them: as online softmax, in integers."""
PAIRS = """\
def sooner(v, i, w, j):
    take = (w > v) | ((w == v) & (j < i))
    return where(take, w, v), where(take, j, i)
"""


Parts = Callable[[State], list[np.ndarray]]
"""What the iterations of a loop load, in order."""


def part_of(array: np.ndarray, starts: tuple[int, ...], shape: Shape) -> np.ndarray:
    """A box of an array, 0 where it is outside."""
    places = [s + np.arange(e) for s, e in zip(starts, shape, strict=True)]
    out = array[np.ix_(*(np.clip(p, 0, n - 1) for p, n in zip(places, array.shape, strict=True)))]
    for axis, (p, n) in enumerate(zip(places, array.shape, strict=True)):
        inside = ((p >= 0) & (p < n)).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        out = np.where(inside, out, np.zeros(1, array.dtype))
    return out


class BlockDrawing(PipelineDrawing):
    """Statements and programs of several blocks."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.later = random.Random(seed + 13_000_027)
        self.is_of_blocks = self.later.random() < SHARE
        self.takes_clusters = False

    def plain(self, dtype: str, shape: Shape, bound: int | None = None) -> tuple[str, np.ndarray]:
        """A tensor that lies as most do, so that it may be copied in any way."""
        name, array = self.fresh("x"), self.array(dtype, shape, bound)
        self.program.parameters.append(Parameter(name, dtype, tuple(map(str, shape)), array))
        return name, array

    # ---- tiles ----

    def gather_along(self) -> Statement | None:
        """Elements of a tile along an axis, at indices of any size."""
        found = self.variables(None, lambda v: bool(v.shape) and size_of(v.shape) <= 512)
        v = self.pick(found)
        axis = self.random.randrange(len(v.shape))
        shape = tuple(self.power(0, 5) if i == axis else e for i, e in enumerate(v.shape))
        if size_of(shape) > 512:
            return None
        x, index, extent = self.of(v), self.expr(self.pick(INTEGERS), shape, 1), v.shape[axis]
        named = "" if axis == len(shape) - 1 and self.chance(0.5) else f", axis={axis}"

        def of(state: State) -> np.ndarray:
            return np.take_along_axis(x.value(state), index.value(state).astype(np.int64) % extent, axis)

        self.note("gather along an axis")
        expr = Expr(f"gather({x.text}, {index.text}{named})", of, v.dtype, shape, v.bound)
        return Assign(self.bind(expr)[0], expr)

    def batch(self) -> Statement | None:
        """A product of several matrices at once."""
        if not self.uniform():
            return None
        kind = self.pick(["f16", "f16", "bf16", "s8", "u8", "tf32"])
        sums, dtype = self.pick(SUMS[kind]), MEMORY.get(kind, kind)
        count, m, n = self.power(0, 3), self.power(4, 5), self.power(3, 5)
        k = self.power(LEAST_K[kind], max(LEAST_K[kind], 5))
        if count * m * n > 4096:
            return None
        texts, gets = [], []
        for shape in ((count, m, k), (count, k, n)):
            turned = self.chance(0.5)
            have = (shape[0], shape[2], shape[1]) if turned else shape
            odd = tuple(max(1, e + self.pick([0, 0, 0, -1, 8])) for e in have)
            name, _ = self.plain(dtype, odd, 2)
            text = f"load({name}[{', '.join(f'0 : {e}' for e in have)}]){'.to(tf32)' if kind == 'tf32' else ''}"
            texts.append(f"transpose({text}, [0, 2, 1])" if turned else text)
            gets.append((name, have, turned))
        acc = self.fresh("acc")
        zero = f"zeros({sums}[{count}, {m}, {n}])"
        plain = sums != "f16" and self.chance(0.4)
        line = f"{acc} = {texts[0]} @ {texts[1]}" if plain else f"{acc} = dot({texts[0]}, {texts[1]}, {zero})"
        if self.chance(0.4) and self.program.warps > 1:
            warps = self.pick([w for w in (1, 2, 4, 8) if w <= min(self.program.warps, count)])
            rest = self.program.warps // warps
            rows = self.pick([r for r in (1, 2, 4, 8) if r <= rest and 16 * r <= m and 8 * (rest // r) <= n] or [0])
            if rows:
                self.program.schedule.append(f"layout {acc}: warps [{warps}, {rows}, {rest // rows}]")

        def act(state: State) -> None:
            a, b = (part_of(state.arrays[name], (0, 0, 0), have).astype(np.float64) for name, have, _ in gets)
            a, b = (x.transpose(0, 2, 1) if turned else x for x, (_, _, turned) in zip((a, b), gets, strict=True))
            state.names[acc] = (a @ b).astype(NUMPY[sums])

        self.scope.variables.append(Variable(acc, sums, (count, m, n), 4.0 * k, fixed=True))
        self.note("product of a batch")
        return Plain([line], act)

    # ---- places that a table says ----

    def entries(self, count: int, most: int) -> tuple[str, Callable[[State, int], int], list[str]]:
        """Entry `j` of a table: its text, its meaning, and the tensors that are read. Some lie outside."""
        low, high = (-1, most + 1) if self.chance(0.2) else (0, most)
        values = np.random.default_rng(self.random.getrandbits(32)).integers(low, high, (count,))
        name, array = self.plain("s32", (count,))
        array[:] = values
        if self.chance(0.7):
            return f"{name}[j]", lambda s, j: int(s.arrays[name][j]), [name]
        far, order = self.plain("s32", (count,))
        order[:] = np.random.default_rng(self.random.getrandbits(32)).permutation(count)
        self.note("an entry of an entry")
        return f"{name}[{far}[j]]", lambda s, j: int(s.arrays[name][s.arrays[far][j]]), [name, far]

    def boxes(self) -> Statement | None:
        """Sums of boxes whose places a table says: pages of a cache, or rows that are gathered."""
        if not self.uniform():
            return None
        dtype = self.dtype(tuple(t for t in NUMBERS if t != "f64"))
        count, pages, rows, columns = (
            self.random.randint(1, 6),
            self.random.randint(1, 4),
            self.power(0, 3),
            self.power(3, 6),
        )
        entry, at, _ = self.entries(count, pages)
        near = self.random.randint(-1, 2)
        have = (pages, max(1, rows + self.pick([0, 0, 4, -1])), max(1, columns + self.pick([0, 0, 8, -3])))
        x, _ = self.plain(dtype, have, 3)
        low = "0" if near == 0 else whole_number(near)
        t = self.fresh("t")
        scale = 1 if dtype in FLOATS else 3
        lines = [
            f"{t} = full({dtype}[{rows}, {columns}], 0)",
            f"for j_{t} in range({count}):",
            f"    page_{t} = {entry.replace('[j]', f'[j_{t}]')}",
            f"    {t} = {t} * {scale} + {x}[page_{t}, {low} : {low} + {rows}, 0 : {columns}]",
        ]
        if self.chance(0.6):
            word = self.pick(["ahead", "ahead", "registers"])
            self.program.schedule.append(f"stage {x}: {word}")
            self.note(f"boxes of a table: {word}")
        if self.chance(0.3):
            self.program.schedule.append(f"unroll j_{t}: {self.pick([2, 3])}")

        def act(state: State) -> None:
            total = np.zeros((rows, columns), NUMPY[dtype])
            for j in range(count):
                box = part_of(state.arrays[x], (at(state, j), near, 0), (1, rows, columns))[0]
                total = (total * NUMPY[dtype](scale) + box).astype(NUMPY[dtype])
            state.names[t] = total

        self.scope.variables.append(Variable(t, dtype, (rows, columns), 3.0 * count if dtype in FLOATS else 0.0))
        self.note("boxes of a table")
        return Plain(lines, act)

    def product_of_boxes(self) -> Statement | None:
        """Products whose operands a table finds: whole pages, or a row for each index."""
        if not self.uniform():
            return None
        kind = self.pick(["f16", "f16", "bf16", "s8"])
        sums = "s32" if kind == "s8" else "f32"
        m, n, k = self.power(4, 6), self.power(3, 5), self.power(5, 6)
        count, pages = self.random.randint(1, 5), self.random.randint(1, 4)
        by_rows = self.chance(0.35)
        acc = self.fresh("acc")
        j = f"j_{acc}"
        if by_rows:
            x, _ = self.plain(kind, (pages * 8, k), 2)
            table, array = self.plain("s32", (count * m,))
            array[:] = np.random.default_rng(self.random.getrandbits(32)).integers(0, pages * 8, (count * m,))
            first = [f"    i_{acc} = {table}[{j} * {m} : {j} * {m} + {m}]"]
            a = f"load({x}[i_{acc}[:, None], arange({k})[None, :]])"
        else:
            entry, at, _ = self.entries(count, pages)
            x, _ = self.plain(kind, (pages, m, k), 2)
            first = [f"    i_{acc} = {entry.replace('[j]', f'[{j}]')}"]
            a = f"{x}[i_{acc}, 0 : {m}, 0 : {k}]"
        w, _ = self.plain(kind, (count, n, k), 2)
        lines = [
            f"{acc} = zeros({sums}[{m}, {n}])",
            f"for {j} in range({count}):",
            *first,
            f"    {acc} = dot({a}, {w}[{j}, 0 : {n}, 0 : {k}].T, {acc})",
        ]
        words = ["shared", "shared", "registers"] + ["tma"] * (4 * (self.program.arch in NEWER and not by_rows))
        if self.chance(0.8):
            word = self.pick(words)
            self.program.schedule.append(f"stage {x}, {w}: {word}")
            self.note(f"products of boxes: {word}")
            if word == "tma" or (word == "shared" and self.chance(0.7)):
                self.program.schedule.append(f"pipeline {j}: {self.random.randint(2, 4)}")

        def act(state: State) -> None:
            total = np.zeros((m, n))
            for step in range(count):
                if by_rows:
                    box = state.arrays[x][state.arrays[table][step * m : step * m + m]]
                else:
                    box = part_of(state.arrays[x], (at(state, step), 0, 0), (1, m, k))[0]
                total = total + box.astype(np.float64) @ state.arrays[w][step].astype(np.float64).T
            state.names[acc] = total.astype(NUMPY[sums])

        self.scope.variables.append(Variable(acc, sums, (m, n), 4.0 * k * count, fixed=True))
        self.note("products of gathered rows" if by_rows else "products of boxes")
        return Plain(lines, act)

    # ---- loops that blocks divide ----

    def divided(self) -> Statement:
        """A loop whose iterations several blocks share: sums, and values that a function joins."""
        dtype = self.pick(["s32", "s32", "u32", "s16", "u8", "s64"])
        rows, columns, count = self.power(0, 3), self.power(3, 6), self.random.randint(0, 9)
        way: Callable[..., Statement] = self.pick([self.sums, self.maps, self.tops, self.places, self.attends])
        if way == self.attends:
            rows, columns = self.power(4, 5), self.power(4, 6)
        if self.chance(0.35):
            n, x, parts = self.pages(dtype, rows, columns, count)
        else:
            n, x, parts = self.columns(dtype, rows, columns, count)
        made = way(dtype, rows, columns, n, parts)
        self.divide(x)
        return made

    def columns(self, dtype: str, rows: int, columns: int, count: int) -> tuple[int, str, Parts]:
        """An iteration loads the next columns: the last index, the tensor, and what the iterations load."""
        n = max(1, count * columns - self.pick([0, 0, 1, 5]))
        x, _ = self.plain(dtype, (rows * self.program.grid, n), 9)
        self.ahead = [f"{{v}} = {x}[block(0) * {rows} : block(0) * {rows} + {rows}, {{j}} : {{j}} + {columns}]"]

        def parts(state: State) -> list[np.ndarray]:
            first = state.block * rows
            return [part_of(state.arrays[x], (first, j), (rows, columns)) for j in range(0, n, columns)]

        return n, x, parts

    def pages(self, dtype: str, rows: int, columns: int, count: int) -> tuple[int, str, Parts]:
        """An iteration loads a part of a page that a table names."""
        pages, count = self.random.randint(1, 4), max(1, count)
        entry, at, _ = self.entries(count, pages)
        x, _ = self.plain(dtype, (pages, rows * self.program.grid, columns), 9)
        self.ahead = [
            f"e_{{v}} = {entry.replace('[j]', f'[{{j}} // {columns}]')}",
            f"{{v}} = {x}[e_{{v}}, block(0) * {rows} : block(0) * {rows} + {rows}, 0 : {columns}]",
        ]
        self.note("pages of a loop that blocks divide")

        def parts(state: State) -> list[np.ndarray]:
            first = state.block * rows
            boxes = (part_of(state.arrays[x], (at(state, j), first, 0), (1, rows, columns)) for j in range(count))
            return [box[0] for box in boxes]

        return count * columns, x, parts

    def divide(self, tensor: str) -> None:
        """The lines of a schedule about such a loop."""
        ways = ["1", "2", "3", "5", "16", "stream"]
        if self.program.arch in NEWER:
            ways += ["2, cluster", "3, cluster", "4, cluster", "8, cluster"] * 2
        parts = self.pick(ways)
        self.takes_clusters = "cluster" in parts
        self.program.schedule.append(f"split {self.counter_of}: {parts}")
        self.note(f"split {'cluster' if self.takes_clusters else 'stream' if parts == 'stream' else 'memory'}")
        if self.chance(0.3):
            self.program.schedule.append(self.pick([f"unroll {self.counter_of}: 2", f"peel {self.counter_of}"]))
        if self.chance(0.3):
            self.program.schedule.append(f"stage {tensor}: ahead")

    def loop_of(
        self, start: list[str], body: list[str], behind: list[str], columns: int, n: int
    ) -> tuple[list[str], str]:
        """The text of a loop: `{v}` is what an iteration loads, `{j}` its counter."""
        v, j = self.fresh("v"), self.fresh("j")
        self.counter_of = j
        inner = [line.format(v=v, j=j) for line in (*self.ahead, *body)]
        return [*start, f"for {j} in range(0, {n}, {columns}):", *(f"    {line}" for line in inner), *behind], v

    def sums(self, dtype: str, rows: int, columns: int, n: int, parts: Parts) -> Statement:
        """What each operation adds."""
        a, b = self.fresh("t"), self.fresh("t")
        op, f = self.pick([("+", np.add), ("^", np.bitwise_xor), ("|", np.bitwise_or), ("*", np.multiply)])
        first = 1 if op == "*" else 0
        least = whole_number(lowest(dtype))
        lines, _ = self.loop_of(
            [f"{a}, {b} = full({dtype}[{rows}, {columns}], {first}), full({dtype}[{rows}], {least})"],
            [f"{a}, {b} = {a} {op} {{v}}, maximum({b}, max({{v}}, axis=1))"],
            [],
            columns,
            n,
        )

        def act(state: State) -> None:
            x, y = np.full((rows, columns), first, NUMPY[dtype]), np.full(rows, lowest(dtype), NUMPY[dtype])
            for v in parts(state):
                x, y = f(x, v), np.maximum(y, v.max(1))
            state.names[a], state.names[b] = x.astype(NUMPY[dtype]), y

        self.scope.variables += [Variable(a, dtype, (rows, columns), 0), Variable(b, dtype, (rows,), 0)]
        self.note("loop of sums that blocks divide")
        return Plain(lines, act)

    def maps(self, dtype: str, rows: int, columns: int, n: int, parts: Parts) -> Statement:
        """Affine maps, which join in their order alone."""
        p, q = self.fresh("t"), self.fresh("t")
        self.function(MAPS)
        lines, _ = self.loop_of(
            [f"{p}, {q} = full({dtype}[{rows}], 1), full({dtype}[{rows}], 0)"],
            [f"{p}, {q} = {p} * (max({{v}}, axis=1) * 2 + 1), {q} * (max({{v}}, axis=1) * 2 + 1) + sum({{v}}, axis=1)"],
            [f"{p}, {q} = joined(then, ({p}, {q}))"],
            columns,
            n,
        )

        def act(state: State) -> None:
            to = NUMPY[dtype]
            x, y = np.full(rows, 1, to), np.full(rows, 0, to)
            for v in parts(state):
                w = v.max(1) * to(2) + to(1)
                x, y = x * w, y * w + v.sum(1, dtype=to)
            state.names[p], state.names[q] = x, y

        self.scope.variables += [Variable(p, dtype, (rows,), 0), Variable(q, dtype, (rows,), 0)]
        self.note("joined maps")
        return Plain(lines, act)

    def tops(self, dtype: str, rows: int, columns: int, n: int, parts: Parts) -> Statement:
        """As online softmax: a tile of two axes beside tiles of one."""
        top, often, beside = self.fresh("t"), self.fresh("t"), self.fresh("t")
        self.function(TOPS)
        least, wide = whole_number(lowest(dtype)), f"{dtype}[{rows}, {columns}]"
        is_top = f"({{v}} == n_{top}[:, None])"
        lines, _ = self.loop_of(
            [f"{top}, {often} = full({dtype}[{rows}], {least}), zeros(s32[{rows}])", f"{beside} = full({wide}, 0)"],
            [
                f"n_{top} = maximum({top}, max({{v}}, axis=1))",
                f"{often} = where({top} == n_{top}, {often}, 0) + sum({is_top}.to(s32), axis=1)",
                f"{beside} = where(({top} == n_{top})[:, None], {beside}, 0) + where({is_top}, {{v}} * 3 + 1, 0)",
                f"{top} = n_{top}",
            ],
            [f"{top}, {often}, {beside} = joined(met, ({top}, {often}, {beside}))"],
            columns,
            n,
        )

        def act(state: State) -> None:
            to = NUMPY[dtype]
            a, b, c = np.full(rows, lowest(dtype), to), np.zeros(rows, np.int32), np.zeros((rows, columns), to)
            for v in parts(state):
                new = np.maximum(a, v.max(1))
                here = v == new[:, None]
                b = np.where(a == new, b, 0) + here.sum(1)
                c = np.where((a == new)[:, None], c, to(0)) + np.where(here, v * to(3) + to(1), to(0))
                a = new
            state.names[top], state.names[often], state.names[beside] = a, b.astype(np.int32), c.astype(to)

        self.scope.variables += [Variable(top, dtype, (rows,), 0), Variable(often, "s32", (rows,), 0)]
        self.scope.variables.append(Variable(beside, dtype, (rows, columns), 0))
        self.note("joined tops")
        return Plain(lines, act)

    def attends(self, dtype: str, rows: int, columns: int, n: int, parts: Parts) -> Statement:
        """As attention: a product with what the greatest numbers choose, whose sums join with them."""
        top, often, beside, d = self.fresh("t"), self.fresh("t"), self.fresh("t"), self.power(3, 5)
        self.function(TOPS)
        w, _ = self.plain("f16", (n, d), 2)
        least = whole_number(lowest(dtype))
        is_top = f"({{v}} == n_{top}[:, None])"
        lines, _ = self.loop_of(
            [
                f"{top}, {often} = full({dtype}[{rows}], {least}), zeros(s32[{rows}])",
                f"{beside} = zeros(f32[{rows}, {d}])",
            ],
            [
                f"n_{top} = maximum({top}, max({{v}}, axis=1))",
                f"{often} = where({top} == n_{top}, {often}, 0) + sum({is_top}.to(s32), axis=1)",
                f"{beside} = dot({is_top}.to(f16), {w}[{{j}} : {{j}} + {columns}, 0 : {d}], "
                f"where(({top} == n_{top})[:, None], {beside}, 0.0))",
                f"{top} = n_{top}",
            ],
            [f"{top}, {often}, {beside} = joined(met, ({top}, {often}, {beside}))"],
            columns,
            n,
        )
        word = self.pick(["", "registers", "shared", "shared"] + ["tma"] * (2 * (self.program.arch in NEWER)))
        if word:
            self.program.schedule.append(f"stage {w}: {word}")
        if word in ("shared", "tma"):
            self.program.schedule.append(f"pipeline {self.counter_of}: {self.random.randint(2, 3)}")

        def act(state: State) -> None:
            a, b = np.full(rows, lowest(dtype), NUMPY[dtype]), np.zeros(rows, np.int32)
            c, weights = np.zeros((rows, d)), state.arrays[w]
            for number, v in enumerate(parts(state)):
                new = np.maximum(a, v.max(1))
                here = v == new[:, None]
                beside_it = here @ part_of(weights, (number * columns, 0), (columns, d)).astype(np.float64)
                b = np.where(a == new, b, 0) + here.sum(1)
                c, a = np.where((a == new)[:, None], c, 0) + beside_it, new
            state.names[top], state.names[often], state.names[beside] = a, b.astype(np.int32), c.astype(np.float32)

        self.scope.variables += [Variable(top, dtype, (rows,), 0), Variable(often, "s32", (rows,), 0)]
        self.scope.variables.append(Variable(beside, "f32", (rows, d), 2.0 * n))
        self.note("joined products")
        return Plain(lines, act)

    def places(self, dtype: str, rows: int, columns: int, n: int, parts: Parts) -> Statement:
        """The greatest numbers and their places, which the reduction behind the loop joins."""
        best, place = self.fresh("t"), self.fresh("t")
        self.function(PAIRS)
        least, wide = whole_number(lowest(dtype)), f"[{rows}, {columns}]"
        at = f"full(s32{wide}, 0) + ({{j}} + arange({columns})).to(s32)[None, :]"
        lines, _ = self.loop_of(
            [f"{best}, {place} = full({dtype}{wide}, {least}), full(s32{wide}, 2147483647)"],
            [f"{best}, {place} = sooner({best}, {place}, {{v}}, {at})"],
            [f"{best}, {place} = reduce(sooner, ({best}, {place}), axis=1)"],
            columns,
            n,
        )

        def act(state: State) -> None:
            start = np.full((rows, columns), lowest(dtype), NUMPY[dtype])
            whole = np.concatenate([start, *parts(state)], 1)
            numbers = np.concatenate([np.full(columns, 2147483647), np.arange(whole.shape[1] - columns)])
            tops = whole.max(1)
            state.names[best] = tops
            state.names[place] = np.where(whole == tops[:, None], numbers, 2147483647).min(1).astype(np.int32)

        self.scope.variables += [Variable(best, dtype, (rows,), 0), Variable(place, "s32", (rows,), 0)]
        self.note("joined places")
        return Plain(lines, act)

    # ---- rows that a cluster shares ----

    def row(self) -> Statement:
        """Rows of which each block of a cluster has a part, with what is joined of them."""
        dtype = self.pick(["s32", "f32", "u32", "f16", "s16", "u8", "s64"])
        blocks, rows, vector = self.pick([2, 2, 4, 8]), self.power(0, 2), self.pick([1, 2, 4])
        columns = blocks * self.power(5, 7)
        cols = max(1, columns - self.pick([0, 0, 1, 7, columns // 2]))
        x, _ = self.plain(dtype, (rows * self.program.grid, cols), 3)
        v = self.fresh("v")
        fill = self.pick([0, 0, 2])
        other = f", other={fill}" if fill else ""
        line = f"{v} = load({x}[block(0) * {rows} : block(0) * {rows} + {rows}, 0 : {columns}]{other})"
        lanes = self.pick([[1, 32], [1, 32], [2, 16], [4, 8]])
        warps = self.pick([w for w in (1, 2, 4, 8) if w <= self.program.warps and w <= rows])
        warps_text = f"warps [{warps}, {self.program.warps // warps}]"
        self.program.schedule.append(
            f"layout {v}: vector [1, {vector}], lanes {lanes}, {warps_text}, blocks [1, {blocks}]"
        )
        if self.chance(0.5):
            part, static = columns // blocks // self.pick([1, 2, 4]), self.chance(0.5)
            self.program.schedule.append(f"loop {v}, 1: {'static ' * static}{part}")
            if not static and self.chance(0.6):
                self.program.schedule.append(f"stage {v}: shared")
        self.takes_clusters = True

        def act(state: State) -> None:
            whole = np.full((rows, columns), fill, NUMPY[dtype])
            whole[:, :cols] = state.arrays[x][state.block * rows : state.block * rows + rows]
            state.names[v] = whole

        self.scope.variables.append(Variable(v, dtype, (rows, columns), 3.0 if dtype in FLOATS else 0.0, fixed=True))
        self.shapes = [(rows, columns), (rows, columns), (rows,), (rows, 1)]
        self.note("rows of a cluster")
        return Plain([line], act)

    def along_row(self) -> Statement | None:
        """A number for each row, which may go back into its elements."""
        found = self.variables(None, lambda v: len(v.shape) == 2 and v.shape[1] > 1 and v.dtype != "i1")
        v = self.pick(found)
        name = self.pick(["sum", "max", "min", "any", "argmax"])
        count, keep = v.shape[1], self.chance(0.6)
        x = self.of(v)
        if name == "sum" and v.dtype in FLOATS:
            x = self.small(x, max(1, EXACT[v.dtype] // (8 * count)))
        text, dtype, bound = x.text, v.dtype, x.bound * (count if name == "sum" else 1)
        if name == "any":
            text, dtype, bound = f"{x.text} > 1", "i1", 0.0
        if name == "argmax":
            dtype, bound = "s32", 0.0
        whole = f"{name}({text}, axis=1{', keepdims=true' if keep else ''}){'.to(s32)' if name == 'argmax' else ''}"

        def of(state: State) -> Any:
            a = x.value(state)
            a = a > 1 if name == "any" else a.astype(np.float64) if v.dtype in FLOATS else a
            more = {"dtype": a.dtype} if name == "sum" else {}
            return getattr(np, name)(a, axis=1, keepdims=keep, **more)

        self.note(f"number of a row: {name}")
        expr = Expr(whole, of, dtype, (v.shape[0], 1) if keep else (v.shape[0],), bound)
        return Assign(self.bind(expr)[0], expr)

    # ---- programs ----

    def of_blocks(self) -> Program:
        """A program of one of these kinds."""
        self.random = self.later
        program = self.program
        program.warps, program.grid = self.pick([1, 2, 4, 4]), self.pick([1, 2, 3])
        kind = self.pick(["tiles", "divided", "divided", "row"])
        program.arch = self.pick([*NEWER[:2], *NEWER] if kind != "tiles" else ["sm_80", "sm_89", *NEWER])
        self.note(program.arch)
        self.shapes = [(self.power(0, 3), self.power(1, 5)), (self.power(1, 5),), (self.power(3, 6),)]
        steps = {
            "tiles": [self.gather_along, self.batch, self.boxes, self.product_of_boxes, self.assign],
            "divided": [self.assign, self.reduction, self.scan, self.reshaped, self.gather_along, self.rebind],
            "row": [self.assign, self.assign, self.along_row, self.along_row],
        }[kind]
        self.now = steps
        if kind != "row":
            self.drawn_here(self.load)
        if kind == "divided":
            program.body.append(self.divided())
            if not self.takes_clusters:
                self.now = [*steps, self.store, self.augmented, self.loop, self.branch, self.atomic, self.with_function]
        if kind == "row":
            program.body.append(self.row())
        for _ in range(self.random.randint(2, 5)):
            program.body += self.step()
        if kind == "row":
            self.pinned.clear()
        return program

    def drawn_here(self, way: Callable[[], Statement | None]) -> None:
        made = way()
        self.program.body += [*self.before, *([made] if made else [])]
        self.before = []
