"""Draws accesses to tensors and shared tiles: parts, masks, permutations, stages, views, tables, atomics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.random_kernels.drawing import Drawing, Memory, Shape, Variable, size_of
from tests.random_kernels.meaning import EXACT, FLOATS, INTEGERS, LIMIT, NUMPY, Expr, State, clamped, literal
from tests.random_kernels.tree import Assign, Parameter, Plain, Statement

CACHES = ("all", "global", "streaming", "last_use", "volatile")
STORE_CACHES = ("write_back", "global", "streaming", "write_through", "volatile")
EVICTIONS = ("first", "last", "no_allocate", "normal", "unchanged")
ORDERS = ("relaxed", "acquire", "release", "acq_rel")

KEPT = """\
def kept(a, to, v):
    store(to, v)
    return a

def before(to, v):
    store(to, v)
    return to
"""


@dataclass
class Part:
    """A part of memory: its text, the element of each place, and which places are inside."""

    text: str
    shape: Shape
    of: Callable[[State], tuple[tuple[np.ndarray, ...], np.ndarray]]
    distinct: bool = True
    inside: bool = False
    """Whether all places are inside, whatever the arguments."""


def read(memory: Memory, part: Part, state: State, mask: np.ndarray, other: Any) -> np.ndarray:
    array = state.arrays[memory.name]
    places, inside = part.of(state)
    inside = np.broadcast_to(inside, part.shape) & mask
    if state.active is not None and part.shape == state.active.shape:
        inside = inside & state.active
    if 0 in array.shape:
        return np.broadcast_to(np.asarray(other, array.dtype), part.shape)
    clipped = tuple(np.clip(p, 0, e - 1) for p, e in zip(places, array.shape, strict=True))
    return np.where(inside, np.broadcast_to(array[clipped], part.shape), np.asarray(other).astype(array.dtype))


def acting(memory: Memory, part: Part, state: State, mask: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The elements that a store or an atomic touches, and where in the tile they are."""
    places, inside = part.of(state)
    inside = np.broadcast_to(inside, part.shape) & mask
    if state.active is not None:
        inside = inside & state.active
    inside = np.broadcast_to(inside, part.shape)
    return tuple(np.broadcast_to(p, part.shape)[inside] for p in places), inside


class MemoryDrawing(Drawing):
    """Statements that read and write memory."""

    # ---- what there is ----

    def tensor(self, dtype: str, shape: Shape, array: np.ndarray | None = None, **traits: Any) -> Memory:
        """A new tensor parameter: dims are numbers or names, rows may be strided, the first address odd."""
        name = self.fresh("x")
        array = self.array(dtype, shape) if array is None else array
        dims = []
        for axis, e in enumerate(shape):
            dims.append(f"d{name}{axis}" if self.chance(0.4) else str(e))
        note = ""
        if shape and self.chance(0.1) and e > 0:
            base = np.zeros((*shape[:-1], shape[-1] * 2), array.dtype)
            base[..., ::2] = array
            array, note = (base[..., ::2], "strided")
            self.note("strided tensor")
        elif self.chance(0.15) and array.size:
            base = np.zeros(array.size + 3, array.dtype)
            skip = self.random.randint(1, 3)
            base[skip : skip + array.size] = array.reshape(-1)
            array = base[skip : skip + array.size].reshape(shape)
            array = np.ndarray(shape, array.dtype, base, skip * array.itemsize)
            self.note("misaligned tensor")
        self.program.parameters.append(Parameter(name, dtype, tuple(dims), array, note=note))
        bound = 0 if dtype not in FLOATS else LIMIT[dtype] if traits.get("writable") else 9
        memory = Memory(name, dtype, shape, dims=tuple(dims), bound=bound, **traits)
        self.memories.append(memory)
        return memory

    def odd(self, extent: int) -> int:
        """An extent of memory near that of a tile."""
        return max(1, extent + self.pick([0, 0, 0, 0, -1, 1, 3, -3, extent // 2, 16]))

    def input(self, dtype: str, shape: Shape) -> Memory:
        """A tensor to read tiles of this shape from."""
        found = [m for m in self.memories if m.dtype == dtype and not m.shared and len(m.shape) == max(1, len(shape))
                 and not m.owned and not m.writable]  # fmt: skip
        if found and self.chance(0.4):
            return self.pick(found)
        return self.tensor(dtype, tuple(self.odd(e) for e in shape or (4,)))

    def output(self, dtype: str, shape: Shape) -> Memory:
        """A tensor whose first axis counts blocks."""
        found = [m for m in self.memories if m.dtype == dtype and m.owned and len(m.shape) == len(shape) + 1]
        if found and self.chance(0.4):
            return self.pick(found)
        return self.tensor(dtype, (self.program.grid, *(self.odd(e) for e in shape)), owned=True, writable=True)

    def shared_tile(self, dtype: str, shape: Shape, ring: int = 0, filled: bool = True) -> Memory:
        """Declares a shared tile, and fills it."""
        name = self.fresh("s")
        whole = (ring, *shape) if ring else shape
        word = ", ".join(["ring " * bool(ring) + str(whole[0]), *map(str, whole[1:])])
        memory = Memory(name, dtype, whole, shared=True, ring=bool(ring), writable=True)
        self.memories.append(memory)
        lines = [f"shared {name}: {dtype}[{word}]"]
        number = self.number(dtype)
        zero = f"full({dtype}[{', '.join(map(str, shape))}], {number.text})"
        memory.bound = LIMIT.get(dtype, 0)
        if filled:
            i = self.fresh("i")
            lines += [f"for {i} in range({ring}):", f"    {name}[{i}] = {zero}"] if ring else [f"{name} = {zero}"]

        def declare(state: State) -> None:
            state.arrays[name] = np.full(whole, number.of(state), NUMPY[dtype])

        self.program.body.append(Plain(lines, declare, kept=True))
        self.note("ring" if ring else "shared tile")
        return memory

    # ---- parts ----

    def start(self, extent: int, tile: int, inside: bool) -> Expr:
        """Where a slice starts: within, before or past the edge."""
        if inside:
            if extent < tile:
                raise LookupError
            e = self.scalar_number(0, extent - tile) if self.chance(0.5) else literal(0, "s32")
            return e if e.text.isalnum() else self.named(e)
        if self.chance(0.55):
            return Expr("0", lambda s: np.int64(0), "s64")
        e = self.scalar_number(-tile, extent + 2)
        return e if e.text.lstrip("-(").rstrip(")").isalnum() else self.named(e)

    def stage(self, extent: int, ring: bool) -> Expr:
        """A scalar index: mod the stages of a ring, masked elsewhere."""
        roll = self.random.random()
        if roll < 0.12 and not ring:
            self.note("index of 64 bits")
            dtype = self.pick(["s64", "u64"])
            return self.scalar_parameter(dtype, self.pick([(1 << 32) + 1, 1 << 32, (1 << 33) + 2]))
        if ring:
            return self.scalar_number(0, 2 * extent)
        dtype = self.pick(["s32", "s32", "s64", "u32", "u8", "s16"])
        return self.scalar_number(0 if dtype[0] == "u" or roll < 0.8 else -2, extent, dtype)

    def permuted(self, size: int) -> tuple[str, np.ndarray]:
        """All of 0 … size - 1 in some order, each once."""
        roll = self.random.randint(0, 2 if self.scope.threads else 4)  # a thread's own places are seen to be that
        i = np.arange(size)
        if roll == 0 or size == 1:
            return f"arange({size})", i
        if roll == 1:
            return f"({size - 1} - arange({size}))", size - 1 - i
        if roll == 2:
            c = self.random.randrange(size)
            return f"(arange({size}) ^ {c})", i ^ c
        if roll == 3:
            odd, c = 2 * self.random.randrange(size) + 1, self.random.randrange(size)
            return f"((arange({size}) * {odd} + {c}) % {size})", (i * odd + c) % size
        half = size // 2
        return f"(arange({size}) % 2 * {half} + arange({size}) // 2)", i % 2 * half + i // 2

    def span(self, extent: int, tile: int, inside: bool) -> tuple[str, Callable[[State], np.ndarray]]:
        start = self.start(extent, tile, inside)
        text = f"0 : {tile}" if start.text == "0" else f"{start.text} : {start.text} + {tile}"
        i = np.arange(tile)

        def places(s: State) -> np.ndarray:
            low = int(start.value(s))
            return i + low if abs(low) < 1 << 62 else i + (1 << 61)

        return text, places

    def part(self, memory: Memory, shape: Shape, scattered: bool = False, inside: bool = False) -> Part:
        """A part of this shape: slices and scalars, or tiles of indices (each place once, all inside)."""
        extents = list(memory.shape)
        lead: list[tuple[str, Callable[[State], Any]]] = []
        if memory.owned:
            lead.append(("block(0)", lambda s: np.int64(s.block)))
            extents.pop(0)
        elif memory.ring:
            at, stages = self.stage(extents[0], True), extents[0]
            lead.append((at.text, lambda s: np.mod(at.value(s).astype(np.int64), stages)))
            extents.pop(0)
        while len(extents) > len(shape):
            n = extents.pop(0)
            index = self.scalar_number(0, n - 1) if inside else self.stage(n, False)
            lead.append((index.text, lambda s, e=index: exact_index(e.value(s))))
        axes = len(shape)
        scattered = scattered and bool(shape) and all(e >= t for e, t in zip(extents, shape, strict=True))
        texts = [text for text, _ in lead]
        gets = [get for _, get in lead]
        for axis, (e, t) in enumerate(zip(extents, shape, strict=True)):
            view = (1,) * axis + (-1,) + (1,) * (axes - axis - 1)
            if scattered:
                text, order = self.permuted(t)
                colons = ", ".join(":" if a == axis else "None" for a in range(axes))
                texts.append(f"{text}[{colons}]" if axes > 1 else text)
                gets.append(lambda s, o=order, v=view: o.reshape(v))
            else:
                text, places = self.span(e, t, inside)
                texts.append(text)
                gets.append(lambda s, p=places, v=view: p(s).reshape(v))
        whole = memory.shape

        def of(state: State) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
            at = tuple(np.asarray(get(state)) for get in gets)
            good: Any = np.True_
            for place, extent in zip(at, whole, strict=True):
                good = good & (place >= 0) & (place < extent)
            return at, good

        return Part(f"{memory.name}[{', '.join(texts)}]", shape, of, inside=scattered or inside)

    def gathered(self, memory: Memory, shape: Shape) -> Part:
        """Elements chosen by tiles of integers, any of them several times; all inside."""
        gets, texts = [], []
        extents = list(memory.shape)
        if memory.owned or memory.ring:
            stages, text = extents.pop(0), "block(0)"
            if memory.ring:
                at = self.stage(stages, True)
                gets.append(lambda s: np.mod(at.value(s).astype(np.int64), stages))
                text = at.text
            else:
                gets.append(lambda s: np.int64(s.block))
            texts.append(text)
        for n in extents:
            dtype = self.pick(["s32", "s32", "u32", "s64", "u8", "s16"])
            if n > 120:
                dtype = "s32"
            e = self.expr(dtype, shape, 1)
            texts.append(f"({e.text} % {n})")
            gets.append(lambda s, e=e, n=n: np.mod(e.value(s), e.value(s).dtype.type(n)).astype(np.int64))
        return Part(
            f"{memory.name}[{', '.join(texts)}]", shape,
            lambda s: (tuple(np.asarray(g(s)) for g in gets), np.True_), distinct=False, inside=True,
        )  # fmt: skip

    def mask(self, shape: Shape, share: float = 0.3) -> tuple[str, Callable[[State], np.ndarray]]:
        """`, mask=…`, or nothing."""
        if not shape or not self.chance(share):
            return "", lambda s: np.True_
        self.note("mask")
        if self.chance(0.5) and self.scope.threads is None:
            axis = self.random.randrange(len(shape))
            n = self.dim() if self.chance(0.4) else self.scalar_number(0, shape[axis])
            colons = ", ".join(":" if a == axis else "None" for a in range(len(shape)))
            at = f"arange({shape[axis]})" + (f"[{colons}]" if len(shape) > 1 else "")
            view = (1,) * axis + (-1,) + (1,) * (len(shape) - axis - 1)
            i = np.arange(shape[axis]).reshape(view)
            return f", mask={at} < {n.text}", lambda s: np.broadcast_to(i < n.value(s), shape)
        c = self.condition(shape, 1)
        return f", mask={c.text}", c.value

    def dim(self, most: int = 1 << 20) -> Expr:
        """A dim of a tensor, a value of the run unless the schedule specialises it; one of at most `most`."""
        found = [(d, e) for m in self.memories if not m.shared for d, e in zip(m.dims, m.shape, strict=True)
                 if not d.isdigit() and e <= most]  # fmt: skip
        if not found:
            return literal(self.random.randint(0, 4), "s32")
        name, _ = self.pick(found)
        self.note("dim")
        return Expr(name, lambda s: s.names[name], "s64")

    def hints(self, caches: tuple[str, ...], memory: Memory) -> str:
        out = ""
        if not memory.shared and self.chance(0.15):
            self.note("cache or eviction")
            out = f", cache={self.pick(caches)}" if self.chance(0.5) else f", evict={self.pick(EVICTIONS)}"
        return out

    def loaded(self, memory: Memory, part: Part) -> Expr:
        """A load, within the limit of floats."""
        text, mask = self.mask(part.shape)
        other: Any = 0
        fill = ""
        if self.chance(0.3) and memory.dtype not in ("e4m3", "e5m2"):
            number = self.number(memory.dtype)
            fill, other = f", other={number.text}", number.of(State({}))
        hints = self.hints(CACHES, memory)
        if memory.writable and "cache" in hints:
            hints = ""
        plain = not (text or fill or hints) and self.chance(0.3)
        line = part.text if plain else f"load({part.text}{text}{fill}{hints})"
        if memory.dtype in ("e4m3", "e5m2"):
            line = f"load({part.text}{text}{fill}).to(f32)"
            return Expr(line, lambda s: read(memory, part, s, mask(s), other), "f32", part.shape, 4)
        bound = max(memory.bound, 9 if memory.dtype in FLOATS else 0)
        e = Expr(line, lambda s: read(memory, part, s, mask(s), other), memory.dtype, part.shape, bound)
        return clamped(e, LIMIT[memory.dtype]) if memory.dtype in FLOATS else e

    # ---- statements ----

    def loaded_only(self) -> list[str]:
        """Types that are loaded and not calculated with; fp8 from sm_89 on."""
        return ["i1"] if self.program.arch in ("sm_80", "sm_86") else ["i1", "e4m3", "e5m2"]

    def readable(self, rank: int) -> list[Memory]:
        return [m for m in self.memories if len(m.shape) - m.owned - m.ring >= rank and 0 not in m.shape]

    def load(self) -> Statement | None:
        """A tile from memory, with all that loads have."""
        shape = self.scope.threads or (self.shape() if self.chance(0.85) else ())
        found = [m for m in self.readable(len(shape)) if not (self.scope.threads and (m.writable or m.owned))]
        if not found or self.chance(0.4):
            memory = self.input(self.dtype() if self.chance(0.93) else self.pick(self.loaded_only()), shape)
        else:
            memory = self.pick([*found, *[m for m in found if m.shared] * 3])
        if self.chance(0.25) and shape:
            part = self.gathered(memory, shape)
            self.note("gather")
        elif not memory.owned and not memory.shared and self.chance(0.08) and shape and not memory.writable:
            return self.flat(memory, shape)
        else:
            part = self.part(memory, shape, scattered=self.chance(0.4))
        expr = self.loaded(memory, part)
        name, _ = self.bind(expr)
        if not self.scope.threads and not self.scope.loops and "clamp" not in expr.text and shape:
            self.pinned.append((name, shape))
        self.note("load shared" if memory.shared else "load")
        return Assign(name, expr)

    def loaded_before(self, dtype: str, shape: Shape) -> Expr:
        memory = self.input(dtype, shape)
        expr = self.loaded(memory, self.part(memory, shape, scattered=self.chance(0.4)))
        name, variable = self.bind(expr)
        self.before.append(Assign(name, expr))
        return self.of(variable)

    def flat(self, memory: Memory, shape: Shape) -> Statement | None:
        """The elements of a row-major tensor along one axis."""
        parameter = next(p for p in self.program.parameters if p.name == memory.name)
        if "strided" in parameter.note:
            return None
        size = size_of(memory.shape)
        n = size_of(shape)
        start = self.scalar_number(-2, max(1, size // 2))
        text = f"flat({memory.name})[{start.text} : {start.text} + {n}]"
        i = np.arange(n)

        def of(state: State) -> np.ndarray:
            at = i + int(start.value(state))
            line = state.arrays[memory.name].reshape(-1)
            return np.where((at >= 0) & (at < size), line[np.clip(at, 0, size - 1)], np.zeros(1, line.dtype))

        if memory.dtype in ("e4m3", "e5m2"):
            return None
        name, _ = self.bind(Expr(f"load({text})", of, memory.dtype, (n,), memory.bound))
        self.note("flat")
        return Assign(name, Expr(f"load({text})", of, memory.dtype, (n,)))

    def rows_that_start_anywhere(self) -> Statement | None:
        """A row of a matrix by vectors of its elements along one axis, cut at both ends."""
        if self.scope.threads:
            return None
        dtype, wide, near = self.dtype(), self.power(3, 6), self.power(0, 3)
        cols, rows = self.random.randint(1, wide - near + 1), self.random.randint(1, 5)
        x = self.tensor(dtype, (rows, cols), self.array(dtype, (rows, cols)))
        y = self.tensor(dtype, (rows * self.program.grid, cols), writable=True)
        for memory in (x, y):
            self.memories.remove(memory)
        parameters = {p.name: p for p in self.program.parameters}
        if any("strided" in parameters[m.name].note for m in (x, y)):
            return None
        dim = x.dims[1]
        row = self.scalar_number(0, rows - 1)
        first, c, v = self.fresh("n"), self.fresh("c"), self.fresh("t")
        start = f"{first} // {near} * {near} + arange({wide})"
        mask = f"({c} >= 0) & ({c} < {dim})"
        lines = [
            f"{first} = ({row.text}) * {dim}",
            f"{c} = arange({wide}) - {first} % {near}",
            f"{v} = load(flat({x.name})[{start}], mask={mask})",
            f"{first} = (({row.text}) + block(0) * {rows}) * {y.dims[1]}",
            f"{c} = arange({wide}) - {first} % {near}",
        ]
        back = f"flat({x.name})[{first} + {c}]"
        lines.append(
            f"store(flat({y.name})[{start}], load({back}, mask={mask} & ({first} < {rows * cols})), mask={mask})"
        )

        def act(state: State) -> None:
            r = int(row.value(state))
            begin, a, b = r * cols, state.arrays[x.name].reshape(-1), state.arrays[y.name].reshape(-1)
            at = np.arange(wide) - begin % near
            inside = (at >= 0) & (at < cols)
            state.names[v] = np.where(inside, a[np.clip(begin + at, 0, a.size - 1)], a.dtype.type(0))
            begin = (r + state.block * rows) * cols
            at = np.arange(wide) - begin % near
            places = (begin + at)[(at >= 0) & (at < cols)]
            b[places] = np.where(begin < rows * cols, a[np.clip(places, 0, a.size - 1)], a.dtype.type(0))

        self.scope.variables.append(Variable(v, dtype, (wide,), 9.0))
        self.note("rows that start anywhere")
        return Plain(lines, act)

    def tiles_of_a_dim(self) -> Statement | None:
        """Each block copies a tile of a line, or all of them in a loop; what it reads may lie beside it."""
        dtype, tile, grid = self.dtype(), self.power(0, 5), self.program.grid
        if self.scope.threads or dtype in ("e4m3", "e5m2"):
            return None
        n = max(1, grid * tile - self.pick([0, 0, 0, self.random.randint(0, tile)]))
        x, y = self.tensor(dtype, (n,), self.array(dtype, (n,))), self.tensor(dtype, (grid, n), writable=True)
        for memory in (x, y):
            self.memories.remove(memory)
        (dim,), shift = x.dims, self.pick([0, 0, 0, 1, -1, tile])
        if dim.isdigit():
            return None
        if not self.program.tiled and -(-n // tile) == grid:
            self.program.tiled = f"cdiv({dim}, {tile})"
        i, counter = "block(0)", self.fresh("i")
        in_loop, step = self.chance(0.6), self.pick([1, 1, 2]) * tile
        moved = f" + {shift}" if shift else ""
        if in_loop:
            stop = dim + self.pick(["", "", " + 1", f" - {tile}"])
            head = [f"for {counter} in range(0, {stop}, {step}):"]
            places = range(0, n + int(stop.removeprefix(dim).replace(" ", "") or 0), step)
            if self.chance(0.5):
                self.program.schedule.append(self.pick([f"peel {counter}", f"unroll {counter}: 2"]))
            indent, start = "    ", counter
        else:
            head, indent, start = [], "", f"block(0) * {tile}"
        from_, to = f"{start}{moved} : {start}{moved} + {tile}", f"{start} : {start} + {tile}"
        lines = [*head, f"{indent}{y.name}[{i}, {to}] = {x.name}[{from_}]"]

        def act(state: State) -> None:
            line, out = state.arrays[x.name], state.arrays[y.name][state.block]
            for begin in places if in_loop else (int(state.block) * tile,):
                at = begin + np.arange(tile)
                at = at[(at >= 0) & (at < n)]
                source = at + shift
                inside = (source >= 0) & (source < n)
                out[at] = np.where(inside, line[np.clip(source, 0, n - 1)], line.dtype.type(0))

        self.note("tiles of a dim")
        return Plain(lines, act)

    def table(self) -> Statement | None:
        """An array by value, indexed by a scalar or by a tile."""
        dtype, n = self.dtype(), self.random.randint(1, 9)
        found = [p for p in self.program.parameters if p.kind == "table"]
        if found and self.chance(0.6):
            parameter = self.pick(found)
        else:
            parameter = Parameter(self.fresh("table"), dtype, value=self.array(dtype, (n,)), kind="table")
            self.program.parameters.append(parameter)
        n, dtype = len(parameter.value), parameter.dtype
        shape = self.scope.threads or (self.shape() if self.chance(0.5) else ())
        self.note("table")
        if not shape:
            at = self.scalar_number(-1, n)

            def one(s: State) -> Any:
                i = int(at.value(s))
                return parameter.value[i] if 0 <= i < n else NUMPY[dtype](0)

            expr = Expr(f"{parameter.name}[{at.text}]", one, dtype, (), 9)
        else:
            e = self.expr("s32", shape, 1)
            expr = Expr(
                f"load({parameter.name}[{e.text} % {n}])",
                lambda s: parameter.value[np.mod(e.value(s), n)], dtype, shape, 9,
            )  # fmt: skip
        name, _ = self.bind(expr)
        return Assign(name, expr)

    def store(self) -> Statement | None:
        """A tile to memory: a slice, or a permutation, some of it masked off."""
        if self.scope.threads:
            return self.store_of_threads()
        shape = self.shape() if self.chance(0.9) else ()
        found = [m for m in self.memories if m.writable and m.dtype != "i1"
                 and len(m.shape) - m.owned - m.ring >= len(shape)]  # fmt: skip
        found += [m for m in found if m.shared] * 3
        memory = self.pick(found) if found and self.chance(0.6) else self.output(self.dtype(), shape)
        part = self.part(memory, shape, scattered=self.chance(0.5))
        value = self.expr(memory.dtype, shape, 2)
        text, mask = self.mask(shape)
        hints = self.hints(STORE_CACHES, memory)
        if "no_allocate" in hints:
            hints = ""
        self.note("store shared" if memory.shared else "store")
        plain = not (text or hints) and self.chance(0.3)
        line = f"{part.text} = {value.text}" if plain else f"store({part.text}, {value.text}{text}{hints})"
        return Plain([line], writing(memory, part, value, mask))

    def store_of_threads(self) -> Statement | None:
        """Each thread writes its own elements, so that sides of a branch do not meet."""
        shape = self.scope.threads
        assert shape
        memory = self.tensor(
            self.dtype(), (self.program.grid, *shape), owned=True
        )  # not `writable`: others would read or write what is in another thread
        part = self.part(memory, shape, scattered=True)
        value = self.expr(memory.dtype, shape, 2)
        text, mask = self.mask(shape, 0.2)
        self.note("store in a branch of threads")
        return Plain([f"store({part.text}, {value.text}{text})"], writing(memory, part, value, mask))

    def overtaken(self) -> Statement | None:
        """A part of memory as an argument, beside a def that stores to the same memory before the value is used."""
        shape = self.shape()
        found = [m for m in self.memories if m.writable and m.dtype not in ("i1", "e4m3", "e5m2") and 0 not in m.shape
                 and len(m.shape) - m.owned - m.ring >= len(shape) and m.bound <= LIMIT.get(m.dtype, 0)]  # fmt: skip
        memory = self.pick(found) if found and self.chance(0.8) else self.output(self.dtype(), shape)
        first, second = (self.part(memory, shape, scattered=self.chance(0.3)) for _ in range(2))
        to, value = self.part(memory, shape, scattered=self.chance(0.5)), self.expr(memory.dtype, shape, 1)
        way = self.pick(["argument", "by name", "its own place", "tuple", "where", "minimum"])
        call = f"kept({second.text}, {to.text}, {value.text})"
        text, join = call, lambda a, b: b
        if way == "by name":
            text = f"kept(v={value.text}, to={to.text}, a={second.text})"
        elif way == "its own place":
            text, second = f"before({to.text}, {value.text})", to
        elif way == "tuple":
            text, join = f"({first.text}, {call})[0]", lambda a, b: a
        elif way == "where":
            text, join = f"where({first.text} < 0, {first.text}, {call})", lambda a, b: np.where(a < 0, a, b)
        elif way == "minimum":
            text, join = f"minimum({first.text}, {call})", np.minimum
        self.function(KEPT)
        self.note(f"argument overtaken by a store: {way}")
        name, _ = self.bind(Expr(text, lambda s: s.names[name], memory.dtype, shape, memory.bound))
        stored = writing(memory, to, value, lambda s: np.True_)

        def act(state: State) -> None:
            a, b = (read(memory, part, state, np.True_, 0) for part in (first, second))
            stored(state)
            state.names[name] = np.asarray(join(a, b), NUMPY[memory.dtype])

        return Plain([f"{name} = {text}"], act)

    def function(self, text: str) -> None:
        if text not in self.program.functions:
            self.program.functions.append(text)

    def atomic(self) -> Statement | None:
        """Each kind of atomic: of places that are touched once, with the value before; or many that commute."""
        once = self.chance(0.5) or bool(self.scope.threads)
        shape = self.scope.threads or (self.shape() if self.chance(0.75) else ())
        kinds = ("s32", "u32", "s64", "u64") if self.chance(0.75) else ("f32", "f64")
        action = self.pick(["add", "min", "max", "and", "or", "xor", "exchange", "cas"])
        dtype = self.pick(kinds)
        if dtype in FLOATS and action in ("and", "or", "xor"):
            action = "add"
        if not once and action in ("exchange", "cas"):
            action = "max" if dtype in INTEGERS else "add"
        if dtype in FLOATS and self.scope.loops:
            return None
        memory = self.atomic_memory(dtype, shape)
        order = f", order={self.pick(ORDERS)}" if self.chance(0.5) else ""
        scope = f", scope={self.pick(['block', 'gpu', 'system'])}" if self.chance(0.3) else ""
        self.note(f"atomic {action}")
        if order:
            self.note(f"atomic{order[1:]}")
        if self.scope.threads or once:
            part = self.part(memory, shape, scattered=bool(self.scope.threads) or self.chance(0.5), inside=True)
        else:
            part = self.gathered(memory, shape) if shape else self.part(memory, shape)
        text, mask = self.mask(shape, 0.3)
        value = self.small(self.expr(dtype, shape, 1), 2)
        expected = self.operand(dtype, shape) if action == "cas" else None
        if memory.dtype in FLOATS:
            memory.bound += 2 * max(1, size_of(shape))
            if memory.bound > EXACT[dtype]:
                return None
        arguments = f"{part.text}, {expected.text}, {value.text}" if expected else f"{part.text}, {value.text}"
        line = f"atomic_{action}({arguments}{text}{order}{scope})"
        wanted = once and self.chance(0.6) and not self.scope.threads
        name = None
        if wanted:
            before = Expr(line, lambda s: s.names["before"], dtype, shape, memory.bound)
            name, variable = self.bind(before)
            if dtype in FLOATS:
                variable.bound = memory.bound
        act = updating(memory, part, value, expected, mask, action, name)
        return Plain([f"{name} = {line}" if name else line], act)

    def atomic_memory(self, dtype: str, shape: Shape) -> Memory:
        if self.scope.threads:
            return self.tensor(dtype, (self.program.grid, *shape), owned=True)
        found = [m for m in self.memories if m.writable and m.dtype == dtype and not m.ring
                 and len(m.shape) - m.owned == len(shape)
                 and all(e >= t for e, t in zip(m.shape[m.owned :], shape, strict=True))]  # fmt: skip
        if found and self.chance(0.6):
            return self.pick(found)
        if self.chance(0.5) and shape and not self.scope.loops and not self.scope.branches:
            return self.shared_tile(dtype, shape)
        return self.tensor(dtype, (self.program.grid, *(shape or (1,))), owned=True, writable=True)

    def counter(self) -> Statement | None:
        """An atomic on what all blocks share: nothing else touches it."""
        dtype = self.pick(["s32", "u32", "s64", "u64"])
        action = self.pick(["add", "min", "max", "and", "or", "xor"])
        n = self.power(0, 3)
        memory = self.tensor(dtype, (n,))
        self.memories.remove(memory)
        shape = self.shape()
        part = self.gathered(memory, shape)
        value = self.expr(dtype, shape, 1)
        text, mask = self.mask(shape)
        order = f", order={self.pick(ORDERS)}" if self.chance(0.5) else ""
        self.note("atomic of all blocks")
        line = f"atomic_{action}({part.text}, {value.text}{text}{order})"
        return Plain([line], updating(memory, part, value, None, mask, action, None))

    def arrival(self) -> Statement | None:
        """Each block leaves a tile; the last to arrive adds them up."""
        if self.scope.threads or self.scope.loops or self.scope.branches:
            return None
        blocks, shape = self.program.grid, self.pick([s for s in self.shapes if len(s) == 1])
        n = shape[0]
        dtype = self.pick(["s32", "u32", "f32"])
        parts = self.tensor(dtype, (blocks, n), owned=True)
        total, flag = self.tensor(dtype, (n,)), self.tensor("u32", (1,), np.zeros(1, np.uint32))
        for memory in (parts, total, flag):
            self.memories.remove(memory)
        value = self.small(self.expr(dtype, shape, 1), 64)
        order = "acq_rel"
        i, sum_name, before = self.fresh("i"), self.fresh("t"), self.fresh("t")
        turned = self.chance(0.5)
        at = f"{n - 1} - arange({n})" if turned else f"0 : {n}"
        lines = [
            f"store({parts.name}[block(0), 0 : {n}], {value.text})",
            f"{before} = atomic_add({flag.name}[0], 1, order={order})",
            f"if {before} == {blocks - 1}:",
            f"    {sum_name} = full({dtype}[{n}], 0)",
            f"    for {i} in range({blocks}):",
            f"        {sum_name} = {sum_name} + load({parts.name}[{i}, {at}])",
            f"    store({total.name}[0 : {n}], {sum_name})",
        ]

        def act(state: State) -> None:
            row = state.arrays[parts.name]
            row[state.block] = value.value(state)
            state.arrays[flag.name][0] += 1
            if state.block == blocks - 1:
                added = row.astype(np.float64).sum(0) if dtype == "f32" else row.sum(0, dtype=row.dtype)
                state.arrays[total.name][:] = added[::-1] if turned else added

        self.note("last block adds up")
        return Plain(lines, act)

    def ticket(self) -> Statement | None:
        """Which block draws which number is open, but all write the same rows."""
        if self.scope.threads or self.scope.loops or self.scope.branches:
            return None
        n = self.pick([s for s in self.shapes if len(s) == 1])[0]
        rows = self.tensor("s32", (self.program.grid, n))
        drawn = self.tensor("u32", (1,), np.zeros(1, np.uint32))
        self.memories.remove(rows)
        self.memories.remove(drawn)
        t = self.fresh("t")
        order = self.pick(ORDERS)
        lines = [
            f"{t} = atomic_add({drawn.name}[0], 1, order={order})",
            f"store({rows.name}[{t}, 0 : {n}], {t}.to(s32) * 3 + arange({n}).to(s32))",
        ]

        def act(state: State) -> None:
            at = int(state.arrays[drawn.name][0])
            state.arrays[rows.name][at] = at * 3 + np.arange(n)
            state.arrays[drawn.name][0] += 1

        self.note("ticket")
        return Plain(lines, act)

    def lock(self) -> Statement | None:
        """Blocks take turns, in any order, at adding to what all of them read and write by plain accesses."""
        if self.scope.threads or self.scope.loops or self.scope.branches:
            return None
        shape = self.pick([s for s in self.shapes if len(s) == 1])
        n, dtype = shape[0], self.pick(["s32", "u32", "s64", "f32"])
        held = self.tensor("u32", (1,), np.zeros(1, np.uint32))
        sums = self.tensor(dtype, (n,))
        self.memories.remove(held)
        self.memories.remove(sums)
        value = self.small(self.expr(dtype, shape, 1), 64)
        got, before, order = self.fresh("t"), self.fresh("t"), self.permuted(n)
        take = f"{got} = atomic_cas({held.name}[0], 0, 1, order={self.pick(['acquire', 'acq_rel'])})"
        release = self.pick(["release", "acq_rel"])
        lines = [
            take,
            f"while {got} != 0:",
            f"    {take}",
            f"{before} = load({sums.name}[{order[0]}])",
            f"store({sums.name}[{order[0]}], {before} + {value.text})",
            f"atomic_exchange({held.name}[0], 0, order={release})",
        ]

        def act(state: State) -> None:
            state.arrays[sums.name][order[1]] += value.value(state)

        self.note("lock")
        return Plain(lines, act)

    def handed_on(self) -> Statement | None:
        """Each block waits for the one before it, changes the tile that it left, and wakes the next one."""
        if self.scope.threads or self.scope.loops or self.scope.branches:
            return None
        shape = self.pick([s for s in self.shapes if len(s) == 1])
        n, dtype = shape[0], self.pick(["s32", "u32", "s64", "u8"])
        turn = self.tensor("u32", (1,), np.zeros(1, np.uint32))
        tile = self.tensor(dtype, (n,))
        self.memories.remove(turn)
        self.memories.remove(tile)
        value = self.expr(dtype, shape, 1)
        now, left = self.fresh("t"), self.fresh("t")
        text, order = self.permuted(n)
        look = f"{now} = atomic_add({turn.name}[0], 0, order=acquire)"
        lines = [
            look,
            f"while {now} != block(0).to(u32):",
            f"    {look}",
            f"{left} = load({tile.name}[{text}])",
            f"store({tile.name}[0 : {n}], {left} * 3 + {value.text})",
            f"atomic_add({turn.name}[0], 1, order={self.pick(['release', 'acq_rel'])})",
        ]

        def act(state: State) -> None:
            array = state.arrays[tile.name]
            array[:] = array[order] * array.dtype.type(3) + value.value(state)
            state.arrays[turn.name][0] += 1

        self.note("handed on from block to block")
        return Plain(lines, act)

    def optional(self) -> Statement | None:
        """A tensor that may be absent: its branch leaves the code."""
        if self.scope.threads:
            return None
        shape, dtype = self.shape(), self.dtype()
        name, there = self.fresh("x"), self.chance(0.5)
        array = self.array(dtype, shape)
        dims = tuple(map(str, shape))
        self.program.parameters.append(Parameter(name, dtype, dims, array if there else None, note="?"))
        found = self.variables(
            dtype, lambda v: v.shape == shape and not v.fixed and (dtype in INTEGERS or v.bound >= 9)
        )
        if not found:
            return None
        v = self.pick(found)
        whole = ", ".join(f"0 : {e}" for e in shape)
        self.note("optional tensor")
        lines = [f"if given({name}):", f"    {v.name} = load({name}[{whole}])"]

        def act(state: State) -> None:
            if there:
                state.names[v.name] = state.arrays[name].copy()

        return Plain(lines, act)


def exact_index(value: np.ndarray) -> np.ndarray:
    """A scalar index as a number that numpy clips right."""
    return np.int64(min(max(int(value), -(1 << 60)), 1 << 60))


def writing(memory: Memory, part: Part, value: Expr, mask: Callable[[State], np.ndarray]) -> Callable[[State], None]:
    def act(state: State) -> None:
        places, inside = acting(memory, part, state, mask(state))
        values = np.broadcast_to(value.value(state), part.shape)
        state.arrays[memory.name][places] = values[inside]

    return act


COMBINE: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def updating(
    memory: Memory, part: Part, value: Expr, expected: Expr | None, mask: Callable[[State], np.ndarray], action: str,
    name: str | None,
) -> Callable[[State], None]:  # fmt: skip
    """An atomic: `name` gets the values before, 0 where it is masked off."""

    def act(state: State) -> None:
        places, inside = acting(memory, part, state, mask(state))
        array = state.arrays[memory.name]
        values = np.broadcast_to(value.value(state), part.shape)[inside]
        before = array[places]
        if action == "exchange":
            array[places] = values
        elif action == "cas":
            assert expected is not None
            wanted = np.broadcast_to(expected.value(state), part.shape)[inside]
            array[places] = np.where(before == wanted, values, before)
        else:
            COMBINE[action].at(array, places, values)
        if name is not None:
            old = np.zeros(part.shape, array.dtype)
            old[inside] = before
            state.names[name] = old

    return act
