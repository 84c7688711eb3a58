"""Draws rings of shared memory filled by copies, and products on tensor cores with every order of operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random_kernels.control import ControlDrawing
from tests.random_kernels.drawing import Variable
from tests.random_kernels.meaning import EXACT, FLOATS, NUMPY, Expr, State, literal
from tests.random_kernels.tree import Plain, Statement

SUMS = {"f16": ("f32", "f32", "f16"), "bf16": ("f32",), "s8": ("s32",), "u8": ("s32",), "tf32": ("f32",),
        "f64": ("f64",), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16")}  # fmt: skip
LEAST_K = {"f16": 3, "bf16": 3, "s8": 4, "u8": 4, "tf32": 2, "f64": 2, "e4m3": 5, "e5m2": 5}
MEMORY = {"tf32": "f32"}


def window(array: np.ndarray, row: int, rows: int, columns: int) -> np.ndarray:
    """A part that starts at a row, 0 past the edges."""
    out = np.zeros((rows, columns), array.dtype)
    part = array[max(row, 0) : max(row + rows, 0), :columns]
    out[max(-row, 0) : max(-row, 0) + part.shape[0], : part.shape[1]] = part
    return out


class PipelineDrawing(ControlDrawing):
    """Statements made of several: each brings its own memory."""

    def uniform(self) -> bool:
        return not (self.scope.threads or self.scope.loops or self.scope.branches)

    def pipeline(self) -> Statement | None:
        """Copies that run ahead in a ring; each iteration reads one stage in another order than it was written."""
        if not self.uniform():
            return None
        dtype = self.pick(["f32", "f16", "s32", "u8", "s64", "bf16", "s8"])
        stages, iterations = self.random.randint(2, 4), self.random.randint(0, 4)
        rows, columns = self.power(0, 2), self.power(3, 6)
        pitch = columns + self.pick([0, 0, -3, -4, 16])
        x = self.tensor(dtype, (max(1, rows * iterations + self.pick([0, 0, -1, 3])), pitch))
        s, i, v, t, at = (self.fresh(stem) for stem in ("s", "i", "v", "t", "n"))
        n = self.scalar_parameter("s32", iterations) if self.chance(0.7) else literal(iterations, "s32")
        scale = 1 if dtype in FLOATS else 2
        ahead = stages - 1
        most = self.random.randint(0, columns) if self.chance(0.25) else None
        mask = "" if most is None else f", mask=arange({columns})[None, :] < {most}"
        down = np.arange(columns)
        places, order = self.pick([("", down), (f"({columns - 1} - arange({columns}))", down[::-1]),
                                   (f"(arange({columns}) ^ 1)", down ^ 1)])  # fmt: skip
        part = f"arange({rows})[:, None], {places}[None, :]" if places else f"0 : {rows}, 0 : {columns}"

        def fetch(r: str) -> list[str]:
            first = f"{r} * {rows}"
            return [f"    copy({s}[{r}], {x.name}[{first} : {first} + {rows}, 0 : {columns}]{mask})", "    commit()"]

        read = f"    {v} = load({s}[{i}, {part}])"
        following = [f"    {at} = {i} + {ahead}", *fetch(at)]
        lines = [
            f"shared {s}: {dtype}[ring {stages}, {rows}, {columns}]",
            f"{t} = full({dtype}[{rows}, {columns}], 0)",
            f"for static {i} in range({ahead}):", *fetch(i),
            f"for {i} in range({n.text}):",
            f"    wait({stages - 2})",
            *([read, *following] if self.chance(0.5) else [*following, read]),
            f"    {t} = {t} * {scale} + {v}",
            "wait(0)",
        ]  # fmt: skip
        if self.chance(0.3):
            self.program.schedule.append(f"unroll {i}: {self.pick([2, 3, 4])}")
            self.note("unroll of a pipeline")
        if self.chance(0.2):
            self.swizzle(s, rows * columns * np.dtype(NUMPY[dtype]).itemsize)
        if self.chance(0.2) and rows * columns >= 32 * self.program.warps:
            self.note("layout of copies")
            self.program.schedule.append(f"layout {s}.copy: {self.spread((rows, columns))}")

        def act(state: State) -> None:
            total = np.zeros((rows, columns), NUMPY[dtype])
            for r in range(iterations):
                piece = window(state.arrays[x.name], r * rows, rows, columns)
                if most is not None:
                    piece = np.where(down < most, piece, NUMPY[dtype](0))
                total = (total * NUMPY[dtype](scale) + piece[:, order]).astype(NUMPY[dtype])
            state.names[t] = total

        bound = 9.0 * max(1, iterations) if dtype in FLOATS else 0.0
        self.scope.variables.append(Variable(t, dtype, (rows, columns), bound))
        self.note("pipeline")
        return Plain(lines, act)

    def swizzle(self, name: str, size: int) -> None:
        """A pinned one that leaves 16 bytes whole and stays in a stage of `size` bytes, or none."""
        self.note("swizzle")
        shift = self.pick([3, 3, 4])
        room = size.bit_length() - 1 - 4 - shift
        if room < 1 or self.chance(0.3):
            self.program.schedule.append(f"swizzle {name}: none")
        else:
            self.program.schedule.append(f"swizzle {name}: {self.random.randint(1, min(3, room))}, 4, {shift}")

    def spread(self, shape: tuple[int, ...]) -> str:
        """vector, lanes and warps along the axes."""
        rank = len(shape)

        def split(product: int) -> list[int]:
            out, left = [1] * rank, product
            while left > 1:
                axis = self.random.randrange(rank)
                out[axis] *= 2
                left //= 2
            return out

        vector = [1] * rank
        vector[-1] = self.pick([1, 1, 2, 4])
        vector = [min(v, e) for v, e in zip(vector, shape, strict=True)]
        return f"vector {vector}, lanes {split(32)}, warps {split(self.program.warps)}"

    # ---- products ----

    def operand_of(self, kind: str, rows: int, columns: int) -> tuple[str, list[str], Any, int]:
        """A tile [rows, columns] for a product: its text, the lines before it, its meaning, its bound."""
        dtype = MEMORY.get(kind, kind)
        turned = self.chance(0.5)
        shape = (columns, rows) if turned else (rows, columns)
        have = tuple(max(1, e + self.pick([0, 0, 0, 0, -1, -5, 8])) for e in shape)
        x = self.tensor(dtype, have, self.array(dtype, have, None if dtype[0] == "e" else 2))
        start = self.scalar_number(-1, 2) if self.chance(0.2) else Expr("0", lambda s: np.int64(0), "s64")
        low = "0" if start.text == "0" else start.text
        high = str(shape[0]) if low == "0" else f"{low} + {shape[0]}"
        source = f"{x.name}[{low} : {high}, 0 : {shape[1]}]"
        way = self.pick(["load", "shared", "copy", "ldmatrix"] if kind not in ("f64",) else ["load", "shared", "copy"])
        s = self.fresh("s")
        word = f"shared {s}: {dtype}[{shape[0]}, {shape[1]}]"
        if way == "load":
            text, lines = f"load({source})", []
        elif way == "copy":
            text, lines = f"{s}[:, :]", [word, f"copy({s}, {source})", "commit()", "wait(0)"]
        else:
            plain = way == "shared" or dtype not in ("f16", "bf16") or min(shape) < 16
            text, lines = (f"{s}[:, :]" if plain else f"ldmatrix({s}[:, :])"), [word, f"{s} = load({source})"]
        if way != "load" and self.chance(0.15):
            self.swizzle(s, shape[0] * shape[1] * np.dtype(NUMPY[dtype]).itemsize)
        if kind == "tf32":
            text = f"({text}).to(tf32)" if text.startswith("load") else f"load({text}).to(tf32)"
        self.note(f"operand by {way}{' turned' if turned else ''}")

        def of(state: State) -> np.ndarray:
            part = window(state.arrays[x.name], int(start.value(state)), *shape).astype(np.float64)
            return part.T if turned else part

        return f"{text}.T" if turned else text, lines, of, 2

    def product(self) -> Statement | None:
        """A product in small integers: its types, extents, orders, warps, neighbours and instruction."""
        if not self.uniform():
            return None
        number = int(self.program.arch.removeprefix("sm_").rstrip("a"))
        kinds = ["f16", "f16", "f16", "bf16", "s8", "s8", "u8", "tf32", "f64"]
        kinds += ["e4m3", "e5m2"] if number >= 89 else []
        kind = self.pick(kinds)
        pairs = [p for p in (("s8", "u8"), ("e4m3", "e5m2")) if kind in p]
        other = self.pick(pairs[0]) if pairs else kind
        sums = self.pick(SUMS[kind])
        warps = self.program.warps
        m, n = self.power(4, 6), self.power(3, 7)
        n = min(n, 4096 // m)
        k = self.power(LEAST_K[kind], max(LEAST_K[kind], 6))
        if kind == "f64":
            m, n, k = self.power(3, 4), self.power(3, 4), self.power(2, 4)
        a, before_a, of_a, low = self.operand_of(kind, m, k)
        b, before_b, of_b, high = self.operand_of(other, k, n)
        acc, left, right = self.fresh("acc"), self.fresh("a"), self.fresh("b")
        bound = float(k * low * high)
        zero = f"zeros({sums}[{m}, {n}])"
        call = f"{left} @ {right}" if sums != "f16" and self.chance(0.4) else f"dot({left}, {right}, {zero})"
        lines = [*before_a, *before_b, f"{left} = {a}", f"{right} = {b}", f"{acc} = {call}"]
        twice = self.chance(0.2) and bound * 2 <= EXACT.get(sums, 1 << 30)
        if twice:
            lines.append(f"{acc} = dot({left}, {right}, {acc})")
            bound *= 2
        near = [1, 1]
        ways = [r for r in (1, 2, 4, 8) if r <= warps and 16 * r <= m and 8 * (warps // r) <= n]
        if ways and kind != "f64" and self.chance(0.85):
            rows = self.pick(ways)
            near = [self.pick([e for e in (1, 2, 4, 8) if e <= m // (8 * rows)]),
                    self.pick([e for e in (1, 2, 4, 8) if e <= n // (4 * (warps // rows))])]  # fmt: skip
            self.program.schedule.append(f"layout {acc}: warps [{rows}, {warps // rows}], contiguous {near}")
            self.note(f"contiguous {near}")
        shapes = {"f16": ["m16n8k16", "m16n8k8"], "bf16": ["m16n8k16", "m16n8k8"], "s8": ["m16n8k32", "m16n8k16"],
                  "u8": ["m16n8k32", "m16n8k16"], "tf32": ["m16n8k8", "m16n8k4"]}  # fmt: skip
        fits = [s for s in shapes.get(kind, []) if int(s.partition("k")[2]) <= k]
        if fits and self.chance(0.3):
            self.program.schedule.append(f"instruction {acc}: mma.sync.{self.pick(fits)}")
            self.note("instruction")
        self.note(f"product {kind} {sums}")

        def act(state: State) -> None:
            value = of_a(state) @ of_b(state) * (2 if twice else 1)
            state.names[acc] = value.astype(NUMPY[sums])

        self.scope.variables.append(Variable(acc, sums, (m, n), bound, fixed=True))
        if (m, n) not in self.shapes:
            self.shapes.append((m, n))
        self.note("product")
        made = Plain(lines, act)
        return made if self.chance(0.5) else self.epilogue(made, acc, sums, (m, n), bound)

    def epilogue(self, before: Plain, acc: str, sums: str, shape: tuple[int, int], bound: float) -> Statement:
        """The sums go through shared memory, or are an operand of the next product."""
        m, n = shape
        narrow = self.pick(["f16", "bf16"]) if sums in FLOATS and sums != "f64" else self.pick(["s32", "s8"])
        v, out, s = self.fresh("v"), self.fresh("t"), self.fresh("s")
        limit = 2 if narrow != "s32" else 100
        number = f"{float(limit)}" if sums in FLOATS else str(limit)
        small = f"clamp({acc}, -{number}, {number})"
        lines = [f"{v} = {small}" if sums == narrow else f"{v} = ({small}).to({narrow})"]
        again = narrow in ("f16", "bf16") and n >= 16 and self.chance(0.4)
        if again:
            p = self.power(3, 5)
            b, lines_b, of_b, high = self.operand_of(narrow, n, p)
            lines += [*lines_b, f"{out} = dot({v}, {b}, zeros(f32[{m}, {p}]))"]
            result, to = ("f32", (m, p)), float(limit * high * n)
            self.note("product of a product")
        else:
            turned = self.chance(0.4)
            lines += [f"shared {s}: {narrow}[{m}, {n}]", f"{s} = {v}"]
            lines.append(f"{out} = load({s}[:, :]){'.T' if turned else ''}")
            result, to = (narrow, (n, m) if turned else (m, n)), float(limit)
            self.note("result through shared memory")

        def act(state: State) -> None:
            before.act(state)
            x = state.names[acc].astype(np.float64)
            x = np.minimum(np.maximum(x, -limit), limit)
            x = x @ of_b(state) if again else x.T if turned else x
            state.names[out] = x.astype(NUMPY[result[0]])

        self.scope.variables.append(Variable(out, *result, to, fixed=True))
        return Plain([*before.texts, *lines], act)

    def chain(self) -> Statement | None:
        """Products over iterations of a ring: the main loop of a matrix product."""
        if not self.uniform():
            return None
        kind = self.pick(["f16", "bf16", "s8"])
        sums = "s32" if kind == "s8" else self.pick(["f32", "f16"] if kind == "f16" else ["f32"])
        m, n = self.power(4, 5), self.power(4, 5)
        iterations, stages = self.random.randint(1, 3), self.random.randint(2, 3)
        ks = (32 if kind == "s8" else 16) << self.random.randint(0, 1)
        depth = ks * iterations - self.pick([0, 0, 0, 8, 3])
        b_turned = kind == "s8" or self.chance(0.5)
        a = self.tensor(kind, (m, depth), self.array(kind, (m, depth), 2))
        b = self.tensor(kind, (n, depth) if b_turned else (depth, n), None)
        x = self.program.parameters[-1].value
        x[...] = self.array(kind, x.shape, 2)
        sa, sb, i, acc, fa, fb, at = (self.fresh(c) for c in ("s", "s", "i", "acc", "a", "b", "n"))
        ahead = stages - 1

        def fetch(r: str) -> list[str]:
            part = f"{b.name}[0 : {n}, {r} * {ks} : {r} * {ks} + {ks}]" if b_turned else (
                f"{b.name}[{r} * {ks} : {r} * {ks} + {ks}, 0 : {n}]")  # fmt: skip
            return [f"    copy({sa}[{r}], {a.name}[0 : {m}, {r} * {ks} : {r} * {ks} + {ks}])",
                    f"    copy({sb}[{r}], {part})", "    commit()"]  # fmt: skip

        count = self.scalar_parameter("s32", iterations)
        lines = [
            f"shared {sa}: {kind}[ring {stages}, {m}, {ks}]",
            f"shared {sb}: {kind}[ring {stages}, {f'{n}, {ks}' if b_turned else f'{ks}, {n}'}]",
            f"{acc} = zeros({sums}[{m}, {n}])",
            f"for static {i} in range({ahead}):", *fetch(i),
            f"for {i} in range({count.text}):",
            f"    wait({stages - 2})",
            f"    {fa} = {sa}[{i}, :, :]",
            f"    {fb} = {sb}[{i}, :, :]{'.T' if b_turned else ''}",
            f"    {acc} = dot({fa}, {fb}, {acc})",
            f"    {at} = {i} + {ahead}", *fetch(at),
            "wait(0)",
        ]  # fmt: skip
        if self.chance(0.3):
            self.program.schedule.append(f"unroll {i}: {self.pick([2, 3])}")

        def act(state: State) -> None:
            right = state.arrays[b.name].astype(np.float64)
            left = state.arrays[a.name].astype(np.float64)
            state.names[acc] = (left @ (right.T if b_turned else right)).astype(NUMPY[sums])

        self.scope.variables.append(Variable(acc, sums, (m, n), 4.0 * ks * iterations, fixed=True))
        if (m, n) not in self.shapes:
            self.shapes.append((m, n))
        self.note("main loop of products")
        return Plain(lines, act)
