"""Draws what threads do together: reductions, scans, shuffles, votes; and changes of shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.random_kernels.drawing import Shape, size_of
from tests.random_kernels.meaning import EXACT, FLOATS, INTEGERS, LIMIT, NUMPY, Expr, State
from tests.random_kernels.memory import MemoryDrawing
from tests.random_kernels.tree import Assign, Plain, Statement

AFTER = "def after(a, b, c, d):\n    return a * c, b * c + d\n"
"""Affine maps, one after the other: does not commute."""
LARGEST = "def largest(a, i, b, j):\n    return maximum(a, b), where(a == b, minimum(i, j), where(a > b, i, j))\n"


class AcrossDrawing(MemoryDrawing):
    """Statements whose threads exchange values."""

    def reduction(self) -> Statement | None:
        """Along an axis or all, in the tile's type."""
        shape = self.shape()
        name = self.pick(["sum", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
        dtype = "i1" if name in ("any", "all") else self.dtype(INTEGERS if name == "prod" else (*INTEGERS, *FLOATS))
        axis = self.pick([*range(len(shape)), None])
        keep = axis is not None and self.chance(0.4)
        count = size_of(shape) if axis is None else shape[axis]
        e = self.expr(dtype, shape, 1)
        if name == "sum" and dtype in FLOATS:
            e = self.small(e, max(1, min(EXACT[dtype], LIMIT[dtype] * 8) // count))
            if count > EXACT[dtype]:
                return None
        result, bound = ("s32", 0.0) if name.startswith("arg") else (dtype, e.bound * (count if name == "sum" else 1))
        arguments = "" if axis is None else f", axis={axis}"
        text = f"{name}({e.text}{arguments}{', keepdims=true' if keep else ''})"
        text += ".to(s32)" if name.startswith("arg") else ""
        self.note(f"reduction {name}")

        def of(state: State) -> Any:
            x = e.value(state)
            if dtype in FLOATS:
                x = x.astype(np.float64)
            f = getattr(np, name)
            if axis is None:
                x = x.reshape(-1)
            more = {"dtype": x.dtype} if name in ("sum", "prod") else {}
            return f(x, axis=axis or 0, keepdims=keep, **more)

        out = () if axis is None else tuple(1 if i == axis else n for i, n in enumerate(shape) if keep or i != axis)
        variable, _ = self.bind(Expr(text, of, result, out, bound))
        return Assign(variable, Expr(text, of, result, out, bound))

    def scan(self) -> Statement | None:
        """Running sums and the like, both ways, of all types."""
        shape = self.shape()
        name = self.pick(["cumsum", "cumsum", "cumprod", "cummax", "cummin"])
        dtype = self.dtype(INTEGERS if name == "cumprod" else (*INTEGERS, *FLOATS))
        axis = self.random.randrange(len(shape))
        back = self.chance(0.4)
        e = self.expr(dtype, shape, 1)
        if name == "cumsum" and dtype in FLOATS:
            if shape[axis] > EXACT[dtype]:
                return None
            e = self.small(e, max(1, min(EXACT[dtype], LIMIT[dtype] * 8) // shape[axis]))
        f = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[name]
        text = f"{name}({e.text}, axis={axis}{', reverse=true' if back else ''})"
        self.note(f"scan {name}")

        def of(state: State) -> np.ndarray:
            x = e.value(state)
            x = x.astype(np.float64) if dtype in FLOATS else x
            x = np.flip(x, axis) if back else x
            out = f.accumulate(x, axis=axis, dtype=x.dtype)
            return np.flip(out, axis) if back else out

        expr = Expr(text, of, dtype, shape, e.bound * (shape[axis] if name == "cumsum" else 1))
        variable, _ = self.bind(expr)
        return Assign(variable, expr)

    def with_function(self) -> Statement | None:
        """Scans and reductions of two tiles by a function of the file."""
        shape = self.shape()
        axis = self.random.randrange(len(shape))
        if self.chance(0.5):
            dtype = self.pick(["s32", "u32", "s64", "u8", "s16"])
            a, b = self.expr(dtype, shape, 1), self.expr(dtype, shape, 1)
            self.function(AFTER)
            back = self.chance(0.4)
            self.note("scan with a function")

            def of(state: State) -> tuple[np.ndarray, np.ndarray]:
                left, right = (np.moveaxis(x.value(state), axis, 0) for x in (a, b))
                left, right = (x[::-1] if back else x for x in (left, right))
                rows = [(left[0], right[0])]
                for i in range(1, len(left)):
                    p, q = rows[-1]
                    rows.append((p * left[i], q * left[i] + right[i]))
                both = [np.stack(column) for column in zip(*rows, strict=True)]
                return tuple(np.moveaxis(x[::-1] if back else x, 0, axis) for x in both)  # type: ignore[return-value]

            text = f"scan(after, ({a.text}, {b.text}), axis={axis}{', reverse=true' if back else ''})"
            return self.pair(text, of, dtype, dtype, shape)
        dtype = self.dtype(INTEGERS)
        a, places = self.expr(dtype, shape, 1), np.arange(size_of(shape)).reshape(shape)
        self.function(LARGEST)
        self.note("reduce with a function")
        out = tuple(e for i, e in enumerate(shape) if i != axis)
        index = f"reshape(arange({size_of(shape)}), ({', '.join(map(str, shape))}))" if len(shape) > 1 else (
            f"arange({shape[0]})")  # fmt: skip

        def largest(state: State) -> tuple[np.ndarray, np.ndarray]:
            x = a.value(state)
            at = np.expand_dims(x.argmax(axis), axis)
            return np.take_along_axis(x, at, axis).squeeze(axis), np.take_along_axis(places, at, axis).squeeze(axis)

        text = f"reduce(largest, ({a.text}, {index}.to(s32)), axis={axis})"
        return self.pair(text, largest, dtype, "s32", out)

    def pair(self, text: str, of: Callable[[State], Any], first: str, second: str, shape: Shape) -> Statement:
        a, _ = self.bind(Expr(text, lambda s: None, first, shape))
        b, _ = self.bind(Expr(text, lambda s: None, second, shape))

        def act(state: State) -> None:
            x, y = of(state)
            state.names[a], state.names[b] = x.astype(NUMPY[first]), y.astype(NUMPY[second])

        return Plain([f"{a}, {b} = {text}"], act)

    # ---- shapes ----

    def reshaped(self) -> Statement | None:
        """reshape, transpose, a new axis, stack, a broadcast."""
        found = self.variables(None, lambda v: bool(v.shape))
        if not found:
            return None
        v = self.pick(found)
        x, shape = self.of(v), v.shape
        way = self.pick(["reshape", "transpose", "axis", "stack", "broadcast"])
        self.note(way)
        if way == "reshape":
            size, to = size_of(shape), []
            while size > 1 and len(to) < 2 and self.chance(0.8):
                e = min(size, self.power(0, 4))
                to.append(e)
                size //= e
            to.append(size)
            new = tuple(to)
            text = (
                f"reshape({x.text}, {new[0]})" if len(new) == 1 else f"reshape({x.text}, ({', '.join(map(str, to))}))"
            )
            expr = Expr(text, lambda s: x.value(s).reshape(new), v.dtype, new, v.bound)
        elif way == "transpose":
            if len(shape) < 2:
                return None
            axes = list(range(len(shape)))
            self.random.shuffle(axes)
            if len(shape) == 2 and self.chance(0.5):
                axes, text = [1, 0], f"{x.text}.T"
            else:
                text = f"transpose({x.text}, ({', '.join(map(str, axes))}))"
            expr = Expr(text, lambda s: x.value(s).transpose(axes), v.dtype, tuple(shape[a] for a in axes), v.bound)
        elif way == "axis":
            if len(shape) > 2:
                return None
            axis = self.random.randint(0, len(shape))
            places = [":"] * len(shape)
            places.insert(axis, "None")
            expr = Expr(f"{x.text}[{', '.join(places)}]", lambda s: np.expand_dims(x.value(s), axis), v.dtype,
                        (*shape[:axis], 1, *shape[axis:]), v.bound)  # fmt: skip
        elif way == "stack":
            if len(shape) > 2 or size_of(shape) > 256:
                return None
            y = self.expr(v.dtype, shape, 1)
            expr = Expr(f"stack({x.text}, {y.text})", lambda s: np.stack([x.value(s), y.value(s)], -1), v.dtype,
                        (*shape, 2), max(v.bound, y.bound))  # fmt: skip
        else:
            if len(shape) > 1 or v.dtype == "i1":
                return None
            axis = self.random.randint(0, 1)
            n = self.power(0, 3)
            if n * size_of(shape) > 512:
                return None
            to = [shape[0], n] if axis else [n, shape[0]]
            at = "[:, None]" if axis else "[None, :]"
            expr = Expr(
                f"{x.text}{at} + full({v.dtype}[{to[0]}, {to[1]}], 0)",
                lambda s: np.broadcast_to(np.expand_dims(x.value(s), axis), to), v.dtype, tuple(to), v.bound,
            )  # fmt: skip
        name, _ = self.bind(expr)
        return Assign(name, expr)

    # ---- lanes ----

    def shuffle(self) -> Statement | None:
        """Elements of a warp change places, in a layout that has them in lanes."""
        warps = self.program.warps
        n = 32 * warps
        dtype = self.dtype()
        e, name = self.lanes(dtype)
        mode = self.pick(["xor", "up", "down", "idx"])
        width = self.power(0, 5)
        d = self.scalar_number(0, width - 1, self.pick(["s32", "u32", "u8"]))
        if mode == "idx" and not d.text.isdigit() and self.chance(0.5):
            mode = "xor"
        i = np.arange(n)
        base, at = i // width * width, i % width

        def of(state: State) -> np.ndarray:
            x, k = state.names[name], int(d.value(state))
            to = {"xor": at ^ k, "up": at - k, "down": at + k, "idx": at * 0 + k}[mode]
            inside = (to >= 0) & (to < width)
            return x[np.where(inside, base + to, i)]

        self.note(f"shuffle {mode}")
        expr = Expr(f"shfl.{mode}({name}, {d.text}, width={width})", of, dtype, (n,), e.bound)
        return self.after(e, name, expr)

    def lanes(self, dtype: str) -> tuple[Expr, str]:
        """A tile with one element a thread, neighbours in neighbouring lanes."""
        n = 32 * self.program.warps
        memory = self.input(dtype, (n,))
        e = Expr("", lambda s: None, dtype, (n,), 9)
        part = self.part(memory, (n,))
        from tests.random_kernels.memory import read

        expr = Expr(f"load({part.text})", lambda s: read(memory, part, s, np.True_, 0), dtype, (n,), 9)  # type: ignore[arg-type]
        name, _ = self.bind(expr, fixed=True)
        self.program.schedule.append(f"layout {name}: vector [1], lanes [32], warps [{self.program.warps}]")
        self.lane_load = Assign(name, expr)
        return e, name

    def after(self, e: Expr, name: str, expr: Expr) -> Statement:
        load, out = self.lane_load, self.bind(expr)[0]

        def act(state: State) -> None:
            load.run(state)
            state.names[out] = expr.value(state)

        return Plain([*load.lines(), f"{out} = {expr.text}"], act)

    def vote(self) -> Statement | None:
        """Flags of a warp."""
        n = 32 * self.program.warps
        e, name = self.lanes("s32")
        kind = self.pick(["any", "all", "ballot"])
        limit = self.random.randint(-20, 60)
        self.note(f"vote {kind}")

        def of(state: State) -> np.ndarray:
            flags = (state.names[name] < limit).reshape(-1, 32)
            if kind == "ballot":
                one = (flags * (1 << np.arange(32, dtype=np.uint64))).sum(1).astype(np.uint32)
            else:
                one = flags.any(1) if kind == "any" else flags.all(1)
            return np.repeat(one, 32)

        text = f"vote.{kind}({name} < {limit if limit >= 0 else f'({limit})'})"
        return self.after(e, name, Expr(text, of, "u32" if kind == "ballot" else "i1", (n,)))
