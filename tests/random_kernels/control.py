"""Draws loops and branches: bounds of all types, zero iterations, ends at the greatest number, branches in branches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.random_kernels.across import AcrossDrawing
from tests.random_kernels.drawing import Variable, size_of
from tests.random_kernels.meaning import (
    INTEGERS,
    NUMPY,
    SIGNED,
    Expr,
    State,
    clamped,
    exactly,
    highest,
    literal,
    lowest,
)
from tests.random_kernels.tree import Assign, For, If, Plain, Statement, ThreadIf, ThreadWhile, While, counted

DEEPEST = 3
LITERALS = 0.5
"""How often a bound of a range is a literal beside one of another type than s32."""


class ControlDrawing(AcrossDrawing):
    """Statements with bodies. `steps` is what a body may hold where it stands."""

    def steps(self) -> list[Callable[[], Statement | None]]:
        raise NotImplementedError

    def body(self, least: int = 1, most: int = 3) -> list[Statement]:
        out: list[Statement] = []
        for _ in range(self.random.randint(least, most)):
            out += self.step()
        return out

    def step(self) -> list[Statement]:
        """A statement, behind those that it needs; none where what was drawn does not fit here."""
        outer, self.before = self.before, []
        known = [*self.scope.variables]
        try:
            made = self.pick(self.steps())()
        except LookupError:
            made = None
        if made is None:
            self.scope.variables = known  # without what it had bound until then
        out = [] if made is None else [*self.before, made]
        self.before = outer
        return out

    # ---- names ----

    def assign(self) -> Statement | None:
        """A new name, or a name of the place around bound anew."""
        shape = self.scope.threads or (self.shape() if self.chance(0.8) else ())
        dtype = self.dtype() if self.chance(0.93) else "i1"
        expr = self.expr(dtype, shape, 3)
        name, _ = self.bind(expr)
        return Assign(name, expr)

    def rebind(self) -> Statement | None:
        """What loops carry and branches merge: the type, the shape and the bound stay."""
        shape = self.scope.threads
        found = self.variables(None, lambda v: not v.fixed and not v.text and (shape is None or v.shape == shape))
        if not found:
            return None
        v = self.pick(found)
        expr = self.expr(v.dtype, v.shape, 2)
        self.note("bound anew")
        return Assign(v.name, clamped(expr, v.bound) if v.dtype not in (*INTEGERS, "i1") else expr)

    def augmented(self) -> Statement | None:
        found = self.variables(
            None,
            lambda v: v.dtype in INTEGERS and not v.fixed and not v.text and v.shape == (self.scope.threads or v.shape),
        )
        if not found:
            return None
        v = self.pick(found)
        op, f = self.pick([("+", np.add), ("-", np.subtract), ("*", np.multiply), ("^", np.bitwise_xor)])
        b = self.operand(v.dtype, v.shape)
        x = self.of(v)
        return Assign(
            v.name, Expr("", lambda s: f(x.value(s), b.value(s)), v.dtype, v.shape), f"{v.name} {op}= {b.text}"
        )

    def swapped(self) -> Statement | None:
        """Two names at once: `a, b = b, a + b`."""
        found = self.variables(
            None,
            lambda v: v.dtype in INTEGERS and not v.fixed and not v.text and v.shape == (self.scope.threads or v.shape),
        )
        v = self.pick(found)
        w = self.pick([w for w in found if (w.dtype, w.shape) == (v.dtype, v.shape) and w is not v])
        x, y = self.of(v), self.of(w)

        def act(state: State) -> None:
            a, b = x.value(state), y.value(state)
            state.names[v.name], state.names[w.name] = b, a + b

        self.note("two names at once")
        return Plain([f"{v.name}, {w.name} = {w.name}, {v.name} + {w.name}"], act)

    def tuples(self) -> Statement | None:
        """A tuple that a loop or a branch of the run carries."""
        if self.scope.threads:
            return None
        found = self.variables(None, lambda v: v.dtype in INTEGERS and not v.text)
        a, b = (self.of(self.pick(found)) for _ in range(2))
        iterations = self.scalar_parameter("s32", self.random.randint(0, 3))
        t, i, p, q = self.fresh("tuple"), self.fresh("i"), self.bind(a)[0], self.bind(b)[0]
        lines = [
            f"{t} = {a.text}, ({b.text}, {a.text})",
            f"for {i} in range({iterations.text}):",
            f"    {t} = {t}[1][1] + {t}[0], ({t}[1][0] ^ {t}[1][0] * 3, {t}[0])",
            f"{p} = {t}[0]", f"{q} = {t}[1][0]",
        ]  # fmt: skip

        def act(state: State) -> None:
            x, y = a.value(state), b.value(state)
            z = x
            for _ in range(int(iterations.value(state))):
                x, y, z = z + x, y ^ y * y.dtype.type(3), x
            state.names[p], state.names[q] = x, y

        self.note("tuple")
        return Plain(lines, act)

    def widened(self) -> Statement | None:
        """A tile of 16-bit floats in f32, made anew at each use where the schedule says so."""
        e = self.expr(self.pick(["f16", "bf16"]), self.shape(), 1)
        expr = self.converted(e, "f32")
        name, _ = self.bind(expr)
        if self.chance(0.5) and not self.scope.loops and not self.scope.branches:
            self.note("recompute")
            self.program.schedule.append(f"choose recompute.{name}: anew")
        return Assign(name, expr)

    def helper(self) -> Statement | None:
        """A def of the file, with a constant and a function as argument."""
        text = "def twice(f, x; SHIFT=0):\n    return f(f(x)) + SHIFT\n\ndef plus(x):\n    return x * 3 - 1\n"
        if text not in self.program.functions:
            self.program.functions.append(text)
        shape = self.scope.threads or self.shape()
        e = self.expr("s32", shape, 1)
        shift = self.random.randint(0, 9)
        expr = Expr(
            f"twice(plus, {e.text}, SHIFT={shift})",
            lambda s: exactly(lambda x: (x * 3 - 1) * 3 - 1 + shift, "s32", e.value(s)),
            "s32",
            shape,
        )
        self.note("def")
        return Assign(self.bind(expr)[0], expr)

    def holds(self) -> Statement | None:
        """An assertion on the device that holds; and instructions by their own text."""
        shape = self.scope.threads or self.shape()
        e = self.expr("s32", shape, 1)
        if self.chance(0.5):
            self.note("assert")
            return Plain([f"assert ({e.text} % 7) < 7"], lambda s: None)
        f = self.expr("s32", shape, 1)
        self.note("asm")
        expr = Expr(f'asm("sub.s32 {{d}}, {{0}}, {{1}};", s32, {e.text}, {f.text})', lambda s: e.value(s) - f.value(s),
                    "s32", shape)  # fmt: skip
        return Assign(self.bind(expr)[0], expr)

    # ---- loops ----

    def bound(self, value: int, dtype: str, typed: bool) -> Expr:
        """A bound of a range: typed by a scalar of the launch, or a literal."""
        if typed:
            return self.scalar_parameter(dtype, value)
        return literal(value, dtype)

    def bounds(self) -> tuple[list[Expr], str]:
        """Up to five iterations, none, ends at the type's limits; the counter's type."""
        dtype = self.pick([*INTEGERS, "s32", "s32", "u32", "u32", "index", "index"])
        if dtype == "index":
            low = self.random.randint(-3, 3)
            step = self.pick([1, 1, 2, 3, -1, -2])
            stop = low + step * self.random.randint(-1, 4) + self.pick([0, 0, step // abs(step)])
            self.note("loop of index")
            if self.chance(0.3):
                dim = self.dim(6)
                if dim.dtype == "s64":
                    self.note("loop over a dim")
                    block = Expr("block(0)", lambda s: np.int64(s.block), "s64")
                    strided = [block, dim, Expr("grid(0)", lambda s: np.int64(self.program.grid), "s64")]
                    return strided if self.chance(0.4) else [counted(0), dim], "index"
            return [counted(low), counted(stop), counted(step)], "index"
        iterations = self.random.randint(0, 4)
        step = self.pick([1, 1, 1, 2, 3, 4] + ([-1, -2, -3] if dtype in SIGNED else []))
        roll = self.random.random()
        if roll < 0.25:
            edge = highest(dtype) if step > 0 else lowest(dtype)
            start = edge - step * max(1, iterations) - self.pick([0, 1, 2]) * (1 if step > 0 else -1)
            stop = edge - self.pick([0, 0, 1]) * (1 if step > 0 else -1)
            self.note("loop at the type's limit")
        elif roll < 0.45:
            start = self.random.randint(2, 9)
            stop = start - step * self.random.randint(1, 2)
            self.note("loop whose start is beyond its end")
        else:
            start = self.random.randint(0, 5)
            stop = start + step * iterations - self.pick([0, 0, 1])
        start, stop = (min(max(v, lowest(dtype)), highest(dtype)) for v in (start, stop))
        literals = dtype == "s32" or step < 0 or self.chance(LITERALS)
        typed = [not literals or self.chance(0.4) for _ in range(3)]
        typed[2] = typed[2] and step > 0
        if not any(typed[:2]):
            typed[self.random.randrange(2)] = True
        self.note(f"loop of {dtype}")
        if step == 1 and self.chance(0.8):
            return [self.bound(v, dtype, t) for v, t in zip((start, stop), typed, strict=False)], dtype
        made = [self.bound(v, dtype, t) for v, t in zip((start, stop, step), typed, strict=True)]
        if typed[2]:  # must be known to be positive
            one = self.scalar_parameter(dtype, step)
            made[2] = Expr(f"maximum({one.text}, 1)", one.of, dtype)
        return made, dtype

    def loop(self) -> Statement | None:
        """`for`, with names carried, unrolled by the schedule or not."""
        if self.scope.loops + self.scope.branches >= DEEPEST or self.scope.loops > 1:
            return None
        bounds, dtype = self.bounds()
        counter = self.fresh("i")
        static = dtype == "index" and len(bounds) == 3 and bounds[1].text[0] != "d" and self.chance(0.4)
        if self.chance(0.4) and not static and (len(bounds) == 2 or bounds[2].text.isdigit()):
            self.program.schedule.append(f"unroll {counter}: {self.pick([2, 2, 3, 4, 8])}")
            self.note("unroll")
        if self.chance(0.4) and not static and len(bounds) == 3 and bounds[2].text.isdigit():
            self.program.schedule.append(f"peel {counter}")
            self.note("peel")
        if len(bounds) == 3 and bounds[2].text == "1" and self.chance(0.7):
            bounds.pop()
            if bounds[0].text == "0" and self.chance(0.7):
                bounds.pop(0)
        with self.inner(loops=self.scope.loops + 1):
            known = "s32" if dtype == "index" else dtype
            text = f"full(s32[1], {counter})" if static else f"{counter}.to(s32)" if dtype == "index" else ""
            if not static:
                self.scope.variables.append(Variable(counter, known, (), 0, fixed=True, text=text))
            body = self.body()
        self.note("static loop" if static else "loop")
        return For(counter, known, bounds, body, static)

    def loop_while(self) -> Statement | None:
        """A scalar that counts down, or a tile whose greatest element does."""
        if self.scope.loops + self.scope.branches >= DEEPEST or self.scope.threads or self.scope.loops > 1:
            return None
        dtype = self.pick(INTEGERS)
        name = self.fresh("w")
        first = self.scalar_parameter(dtype, self.random.randint(0, 6))
        step = self.pick([1, 2])
        w = Expr(name, lambda s: s.names[name], dtype)
        start = Expr(f"{first.text} % 7", lambda s: np.mod(first.value(s), first.value(s).dtype.type(7)), dtype)
        last = Assign(name, Expr(f"{name} - {step}", lambda s: w.value(s) - w.value(s).dtype.type(step), dtype))
        with self.inner(loops=self.scope.loops + 1):
            self.scope.variables.append(Variable(name, dtype, (), 0, fixed=True))
            body = self.body()
        self.note("while")
        made = While(self.compared(w, literal(step - 1, dtype), ">"), body, last)
        return Both(Assign(name, start), made)

    # ---- branches ----

    def branch(self) -> Statement | None:
        """`if`, `elif`, `else` on scalars."""
        if self.scope.loops + self.scope.branches >= DEEPEST or self.scope.threads:
            return None
        ways: list[tuple[Expr | None, list[Statement]]] = []
        for i in range(self.random.randint(1, 3)):
            last = i and self.chance(0.6)
            condition = None if last else self.condition((), 1)
            with self.inner(branches=self.scope.branches + 1):
                ways.append((condition, self.body()))
            if last:
                break
        self.note("branch in a branch" if self.scope.branches else "branch")
        return If(ways)

    def thread_branch(self) -> Statement | None:
        """`if` on a tile with at most one element a thread."""
        if self.scope.loops + self.scope.branches >= DEEPEST:
            return None
        threads = 32 * self.program.warps
        shapes = [s for s in self.shapes if size_of(s) <= threads and size_of(s) >= 32]
        shape = self.scope.threads or (self.pick(shapes) if shapes else None)
        if shape is None:
            return None
        condition = self.condition(shape, 2)
        sides = []
        for share in (1.0, 0.6):
            with self.inner(branches=self.scope.branches + 1, threads=shape):
                sides.append(self.body() if self.chance(share) else [])
        nested = "in threads " if self.scope.threads else "in a branch " if self.scope.branches else ""
        self.note(f"branch of threads {nested}".strip())
        made: Statement = ThreadIf(condition, *sides)
        if self.chance(0.2 if self.scope.branches else 0.04):
            made = self.meeting(condition, shape)
        return made

    def thread_loop(self) -> Statement | None:
        """`while` on a tile: each thread goes its own iterations, for one element or, without effects, for several."""
        if self.scope.loops + self.scope.branches >= DEEPEST or self.scope.loops > 1:
            return None
        threads = 32 * self.program.warps
        shapes = [s for s in self.shapes if 32 <= size_of(s) <= 4 * threads]
        shape = self.scope.threads or (self.pick(shapes) if shapes else None)
        if shape is None:
            return None
        dtype = self.pick(INTEGERS)
        name, iterations, step = self.fresh("w"), self.expr(dtype, shape, 1), self.pick([1, 2])
        w = Expr(name, lambda s: s.names[name], dtype, shape)
        few = NUMPY[dtype](5)
        start = Expr(f"{iterations.text} % 5", lambda s: np.mod(iterations.value(s), few), dtype, shape)
        last = Assign(name, Expr(f"{name} - {step}", lambda s: w.value(s) - w.value(s).dtype.type(step), dtype, shape))
        going = self.compared(w, literal(step - 1, dtype), ">")
        if self.chance(0.3):
            a, b = going, self.condition(shape, 1)
            going = Expr(f"({a.text} & {b.text})", lambda s: a.value(s) & b.value(s), "i1", shape)
        with self.inner(loops=self.scope.loops + 1, threads=shape):
            self.scope.variables.append(Variable(name, dtype, shape, 0, fixed=True))
            body = self.body() if size_of(shape) <= threads else self.effectless()
        self.note("loop of threads" if size_of(shape) <= threads else "loop of threads, several elements each")
        return Both(Assign(name, start), ThreadWhile(going, body, last))

    def effectless(self) -> list[Statement]:
        """What threads with several elements may do in a loop: nothing but calculate with what is there."""
        out, outer = [], self.before
        for _ in range(self.random.randint(1, 3)):
            self.before, known = [], [*self.scope.variables]
            try:
                made = self.pick([self.assign, self.rebind, self.rebind, self.augmented])()
            except LookupError:
                made = None
            if made is None or self.before:
                self.scope.variables = known
            else:
                out.append(made)
        self.before = outer
        return out

    def meeting(self, condition: Expr, shape: tuple[int, ...]) -> Statement:
        """Both sides of a branch of threads touch one tensor, each its own places and others: a race if they meet.

        The language refuses what it cannot order; where it accepts, the sides must not meet.
        """
        dtype = "s32"
        tensor = self.tensor(dtype, (self.program.grid, *shape), owned=True)
        self.memories.remove(tensor)
        sides = []
        for _ in range(2):
            part = self.part(tensor, shape, scattered=True)
            value = self.leaf(dtype, shape)
            from tests.random_kernels.memory import writing

            sides.append(
                [Plain([f"store({part.text}, {value.text})"], writing(tensor, part, value, lambda s: np.True_))]  # type: ignore[arg-type, return-value]
            )
        self.note("sides of a branch that may meet")
        return ThreadIf(condition, *sides)


class Both(Statement):
    """A statement that needs the one before it."""

    def __init__(self, first: Statement, second: Statement):
        self.first, self.second = first, second
        self.bodies = second.bodies

    def lines(self) -> list[str]:
        return [*self.first.lines(), *self.second.lines()]

    def run(self, state: State) -> None:
        self.first.run(state)
        self.second.run(state)
