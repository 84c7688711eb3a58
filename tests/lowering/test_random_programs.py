"""Random programs over tiles, under random layouts: what numpy makes of them, and what the emulator does.

200 programs, always the same; DSL_RANDOM_PROGRAMS=10000 tries that many, others each time, and prints the seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dsl.lowering.ir.location import TileError
from tests.compile_and_run import compile_kernel, launch
from tests.whole import is_whole

ASKED = int(os.environ.get("DSL_RANDOM_PROGRAMS", "0"))
SEED = int(os.environ.get("DSL_RANDOM_SEED", random.getrandbits(32) if ASKED else 0))
MAX_ELEMENTS = 1024

Draw = Callable[[st.SearchStrategy], object]


@dataclass
class Program:
    """Lines of a kernel, and the value of every name as numpy computes it."""

    warps: int
    lines: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    tiles: dict[str, np.ndarray] = field(default_factory=dict)
    pins: dict[str, str] = field(default_factory=dict)

    def add(self, text: str, value: np.ndarray) -> str:
        name = f"t{len(self.tiles)}"
        self.tiles[name] = np.ascontiguousarray(value.astype(np.int32))
        self.lines.append(f"{name} = {text}")
        return name


def whole(shape: tuple[int, ...]) -> str:
    return ", ".join(f"0 : {e}" for e in shape)


def extents(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


class Step:
    """Draws one statement of each kind; False if it does not fit what is there."""

    def __init__(self, draw: Draw, program: Program):
        self.draw, self.p = draw, program

    def pick(self, choices: list) -> object:
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    def tile(self, want: Callable[[np.ndarray], bool] = lambda v: True) -> tuple[str, np.ndarray] | None:
        fitting = [(n, v) for n, v in self.p.tiles.items() if want(v)]
        return self.pick(fitting[::-1]) if fitting else None

    def split(self, size: int) -> tuple[int, ...]:
        """A shape of 1 to 3 axes with so many elements."""
        bits = size.bit_length() - 1
        cuts = sorted(self.draw(st.lists(st.integers(0, bits), max_size=2)))
        return tuple(1 << (b - a) for a, b in zip([0, *cuts], [*cuts, bits], strict=True))

    def binary(self) -> bool:
        a, x = self.tile()
        text, function = self.pick(
            [
                ("{} + {}", np.add), ("{} - {}", np.subtract), ("{} * {}", np.multiply), ("{} & {}", np.bitwise_and),
                ("{} ^ {}", np.bitwise_xor), ("minimum({}, {})", np.minimum), ("maximum({}, {})", np.maximum),
                ("where({0} < {1}, {0}, {1} * 3)", lambda x, y: np.where(x < y, x, y * 3)),
            ]
        )  # fmt: skip

        def goes(v: np.ndarray) -> bool:
            try:
                return prod(np.broadcast_shapes(v.shape, x.shape)) <= MAX_ELEMENTS
            except ValueError:
                return False

        b, y = self.tile(goes)
        self.p.add(text.format(a, b), function(x, y))
        return True

    def with_number(self) -> bool:
        a, x = self.tile()
        n = self.draw(st.integers(-9, 9))
        text, function = self.pick(
            [
                ("{} + {}", np.add), ("{} * {}", np.multiply),
                ("where({} > {}, 1, 0)", lambda x, n: np.where(x > n, 1, 0)),
                ("({}).to(s8).to(s32) + {}", lambda x, n: x.astype(np.int8).astype(np.int32) + n),
                ("{} // {}", lambda x, n: x // n), ("{} % {}", lambda x, n: x % n),
            ]
        )  # fmt: skip
        if n == 0 and ("//" in text or "%" in text):
            return False
        self.p.add(text.format(a, n), function(x, np.int32(n)))
        return True

    def arange(self) -> bool:
        size = 1 << self.draw(st.integers(0, 7))
        self.p.add(f"arange({size}).to(s32)", np.arange(size))
        return True

    def reshape(self) -> bool:
        a, x = self.tile()
        shape = self.split(x.size)
        self.p.add(
            f"reshape({a}, ({extents(shape)}))" if len(shape) > 1 else f"reshape({a}, {shape[0]})", x.reshape(shape)
        )
        return True

    def transpose(self) -> bool:
        found = self.tile(lambda v: v.ndim > 1)
        if found is None:
            return False
        a, x = found
        axes = self.draw(st.permutations(range(x.ndim)))
        self.p.add(f"transpose({a}, ({extents(tuple(axes))}))", x.transpose(axes))
        return True

    def new_axis(self) -> bool:
        found = self.tile(lambda v: v.ndim < 3)
        if found is None:
            return False
        a, x = found
        axis = self.draw(st.integers(0, x.ndim))
        places = [":"] * x.ndim
        places.insert(axis, "None")
        self.p.add(f"{a}[{', '.join(places)}]", np.expand_dims(x, axis))
        return True

    def stack(self) -> bool:
        found = self.tile(lambda v: v.ndim < 3 and v.size * 2 <= MAX_ELEMENTS)
        if found is None:
            return False
        a, x = found
        b, y = self.tile(lambda v: v.shape == x.shape)
        self.p.add(f"stack({a}, {b})", np.stack([x, y], -1))
        return True

    def reduce(self) -> bool:
        a, x = self.tile()
        axis = self.draw(st.integers(0, x.ndim - 1))
        keep = x.ndim == 1 or self.draw(st.booleans())
        name, function = self.pick(
            [("sum", np.sum), ("max", np.max), ("min", np.min), ("argmax", np.argmax), ("argmin", np.argmin)]
        )
        to = ".to(s32)" if name.startswith("arg") else ""
        text = f"{name}({a}, axis={axis}{', keepdims=true' if keep else ''}){to}"
        self.p.add(text, function(x, axis=axis, keepdims=keep))
        return True

    def scan(self) -> bool:
        a, x = self.tile()
        axis = self.draw(st.integers(0, x.ndim - 1))
        back = self.draw(st.booleans())
        name, function = self.pick([("cumsum", np.add), ("cummax", np.maximum), ("cummin", np.minimum)])
        turned = np.flip(x, axis) if back else x
        value = function.accumulate(turned, axis=axis)
        self.p.add(f"{name}({a}, axis={axis}, reverse={str(back).lower()})", np.flip(value, axis) if back else value)
        return True

    def loop(self) -> bool:
        a, x = self.tile()
        b, y = self.tile(lambda v: v.shape == x.shape)
        iterations = self.draw(st.integers(0, 3))
        value = x
        for i in range(iterations):
            value = np.maximum(value * 3, y) + i
        name = self.p.add(a, value)
        self.p.lines += [f"for i in range({iterations}):", f"    {name} = maximum({name} * 3, {b}) + i.to(s32)"]
        return True

    def through_shared(self) -> bool:
        """Stored in a shared tile, read as it is or along reversed rows, and stored over in the next iteration."""
        a, x = self.tile()
        shared = f"s{len(self.p.shared)}"
        self.p.shared.append(f"shared {shared}: s32[{x.size}]")
        flat = f"reshape({a}, {x.size})"
        self.p.lines.append(f"store({shared}[0 : {x.size}], {flat})")
        if self.draw(st.booleans()):
            self.p.add(f"load({shared}[{x.size - 1} - arange({x.size})])", x.reshape(-1)[::-1])
        else:
            b = self.p.add(f"load({shared}[0 : {x.size}]) + 1", x.reshape(-1) + 1)
            self.p.lines.append(f"store({shared}[arange({x.size}) ^ {x.size // 2}], {b})")
            value = (x.reshape(-1) + 1)[np.arange(x.size) ^ (x.size // 2)]
            self.p.add(f"load({shared}[0 : {x.size}])", value)
        return True

    def pin(self) -> bool:
        """A layout of bases in any order, some of them swizzled, with copies in any place."""
        a, x = self.tile()
        bits = x.size.bit_length() - 1
        order = self.draw(st.permutations(range(bits)))
        bases = [1 << b for b in order]
        for _ in range(self.draw(st.integers(0, 2)) if bits > 1 else 0):  # still independent
            i, j = self.draw(st.permutations(range(bits)))[:2]
            bases[i] ^= bases[j]
        threads = 5 + self.p.warps.bit_length() - 1
        places = self.draw(st.permutations(range(threads)))
        held = self.draw(st.integers(0, min(bits, threads)))
        thread = [0] * threads
        for place, basis in zip(places[:held], bases, strict=False):
            thread[place] = basis
        if self.draw(st.booleans()) and held and held < threads:
            thread[places[held]] = bases[0]  # a copy by a bit that is not 0

        def row(bases: list[int]) -> str:
            return "[" + ", ".join(str([int(c) for c in np.unravel_index(b, x.shape)]) for b in bases) + "]"

        self.p.pins[a] = f"register {row(bases[held:])}, lane {row(thread[:5])}, warp {row(thread[5:])}"
        return True


STEPS = [
    Step.binary, Step.binary, Step.with_number, Step.arange, Step.reshape, Step.transpose, Step.new_axis, Step.stack,
    Step.reduce, Step.scan, Step.loop, Step.through_shared, Step.pin, Step.pin,
]  # fmt: skip


@st.composite
def programs(draw: Draw) -> Program:
    program = Program(draw(st.sampled_from([1, 2, 4, 8])))
    step = Step(draw, program)
    size = 1 << draw(st.integers(0, 9))
    shape = step.split(size)
    values = np.random.default_rng(draw(st.integers(0, 1 << 16))).integers(-100, 100, shape)
    program.add(f"load(x[{whole(shape)}])", values)
    for _ in range(draw(st.integers(1, 10))):
        step.pick(STEPS)(step)
    return program


def text_of(program: Program, pinned: bool) -> str:
    outs = list(program.tiles.items())[-4:]
    params = [f"x: s32[{extents(program.tiles['t0'].shape)}]", *(f"y_{n}: s32[{extents(v.shape)}]" for n, v in outs)]
    lines = [*program.shared, *program.lines, *(f"store(y_{n}[{whole(v.shape)}], {n})" for n, v in outs)]
    schedule = [f"warps = {program.warps}"]
    if pinned:
        schedule += [f"layout {n}: {bases}" for n, bases in program.pins.items()]
    body = "".join(f"    {line}\n" for line in lines)
    return f"kernel k({', '.join(params)}):\n    grid 1\n{body}\nschedule s of k:\n" + "".join(
        f"    {s}\n" for s in schedule
    )


@seed(SEED)
@settings(
    max_examples=ASKED or (200 if is_whole() else 100),
    derandomize=not ASKED,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_random_programs_mean_what_numpy_says(program: Program) -> None:
    args = {"x": program.tiles["t0"]} | {f"y_{n}": np.zeros_like(v) for n, v in list(program.tiles.items())[-4:]}
    text = text_of(program, pinned=True)
    try:
        kernel = compile_kernel(text, args)
    except TileError as error:
        assert "to lay out" in error.message, f"seed {SEED}\n{text}\n{error}"  # folded away: nothing to pin
        text = text_of(program, pinned=False)
        kernel = compile_kernel(text, args)
    try:
        launch(kernel, args)
    except Exception as error:
        raise AssertionError(f"seed {SEED}\n{text}\n{error}") from error
    for n, v in list(program.tiles.items())[-4:]:
        assert (args[f"y_{n}"] == v).all(), f"seed {SEED}: {n} differs in\n{text}\n{args[f'y_{n}']}\nnot\n{v}"
