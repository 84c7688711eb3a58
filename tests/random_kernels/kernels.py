"""A whole random kernel: target, warps, grid, shapes, statements, results and schedule. One seed, one program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.random_kernels.blocks import BlockDrawing
from tests.random_kernels.drawing import Variable, size_of
from tests.random_kernels.meaning import NUMPY, Expr, State
from tests.random_kernels.memory import Part, writing
from tests.random_kernels.tree import Plain, Program, Statement

ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a")


class KernelDrawing(BlockDrawing):
    """Draws the program of a seed."""

    def steps(self) -> list[Callable[[], Statement | None]]:
        if self.is_of_blocks:
            return self.now
        anywhere = [self.assign, self.assign, self.rebind, self.load, self.load, self.store, self.loop,
                    self.thread_branch, self.thread_loop, self.table, self.swapped, self.holds,
                    self.helper]  # fmt: skip
        if self.scope.threads:
            return [*anywhere, self.atomic, self.augmented]
        together = [*anywhere, self.rebind, self.augmented, self.store, self.overtaken, self.atomic, self.counter,
                    self.reduction, self.reduction, self.scan, self.reshaped, self.reshaped, self.loop, self.branch,
                    self.loop_while, self.with_function, self.shuffle, self.vote, self.optional, self.tuples,
                    self.widened]  # fmt: skip
        if self.scope.loops or self.scope.branches:
            return together
        return [*together, self.loop, self.branch, self.thread_branch, self.pipeline, self.pipeline, self.product,
                self.product, self.product, self.chain, self.arrival, self.lock, self.handed_on,
                self.ticket, self.rows_that_start_anywhere, self.rows_that_start_anywhere, self.share, self.share,
                self.share, self.tiles_of_a_dim, self.tiles_of_a_dim]  # fmt: skip

    def share(self) -> Statement | None:
        """A shared tile, filled, to be read and written by what follows."""
        shape = self.shape()
        self.shared_tile(self.dtype(), shape, self.random.randint(2, 4) if self.chance(0.4) else 0)
        name = self.memories[-1].name
        if self.chance(0.25):
            self.swizzle(name, size_of(shape) * np.dtype(NUMPY[self.memories[-1].dtype]).itemsize)
        return None

    def draw(self) -> Program:
        if self.is_of_blocks:
            self.of_blocks()
        else:
            self.of_one_block()
        self.results()
        self.properties()
        return self.program

    def of_one_block(self) -> None:
        """A program whose blocks go their own ways, but for atomics."""
        program = self.program
        program.arch = self.pick(ARCHS)
        program.warps = self.pick([1, 1, 2, 2, 4, 4, 4, 8])
        program.grid = self.pick([1, 1, 2, 3])
        self.note(program.arch)
        a, b = self.power(0, 4), self.power(1, 5)
        self.shapes = [(a, b), (b,), (a,), (32 * program.warps,), (self.power(3, 8),)]
        if self.chance(0.3):
            self.shapes.append((self.power(0, 2), self.power(0, 3), self.power(0, 3)))
        for _ in range(self.random.randint(1, 2)):
            made = self.load()
            program.body += [*self.before, *([made] if made else [])]
            self.before = []
        for _ in range(self.random.randint(2, 7)):
            program.body += self.step()

    def results(self) -> None:
        """The last tiles and scalars leave in tensors of their own."""
        for v in self.scope.variables[-5:]:
            self.program.body.append(self.result(v))

    def result(self, v: Variable) -> Statement:
        shape = v.shape
        number = len(self.program.parameters)
        array = np.zeros((self.program.grid, *shape), self.array("s8", (0,)).dtype)
        from tests.random_kernels.tree import Parameter

        name = f"y{number}"
        array = np.zeros((self.program.grid, *shape), NUMPY[v.dtype])
        self.program.parameters.append(Parameter(name, v.dtype, tuple(map(str, array.shape)), array))
        from tests.random_kernels.drawing import Memory

        memory = Memory(name, v.dtype, array.shape)
        text = f"{name}[{', '.join(['block(0)', *(f'0 : {e}' for e in shape)])}]"

        def of(state: State) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
            axes = [np.arange(e).reshape((1,) * i + (-1,) + (1,) * (len(shape) - i - 1)) for i, e in enumerate(shape)]
            return (np.asarray(state.block), *axes), np.asarray(True)

        part = Part(text, shape, of)
        e: Expr = self.of(v)
        return Plain([f"store({text}, {e.text})"], writing(memory, part, e, lambda s: np.asarray(True)))

    def properties(self) -> None:
        """The rest of the schedule."""
        lines = self.program.schedule
        for name, shape in self.pinned:
            if self.chance(0.4) and size_of(shape) >= 1:
                self.note("layout")
                lines.append(f"layout {name}: {self.bases(shape) if self.chance(0.5) else self.spread(shape)}")
        tensors = [p for p in self.program.parameters if p.kind == "tensor" and p.value is not None]
        dims = sorted({d for p in tensors for d in p.dims if not d.isdigit()})
        if dims and self.chance(0.4):
            self.note("specialize")
            lines.append(f"specialize {', '.join(self.random.sample(dims, self.random.randint(1, len(dims))))}")
        choices = [
            "contract fast",
            "contract off",
            "maxnreg 128",
            "maxnreg 64",
            "blocks_per_sm 2",
            "barriers automatic",
        ]
        for line in choices:
            if self.chance(0.06):
                self.note(line.split()[0])
                lines.append(line)
        if tensors and self.chance(0.15):
            self.note("cache or eviction of a tensor")
            name = self.pick(tensors).name
            lines.append(self.pick([f"evict {name}: {self.pick(['first', 'last', 'normal'])}",
                                    f"cache {name}: {self.pick(['global', 'streaming'])}"]))  # fmt: skip
        if not self.takes_clusters and self.program.arch not in ("sm_80", "sm_86", "sm_89") and self.chance(0.05):
            self.note("cluster")
            lines.append(f"cluster {self.program.grid}")
        if self.chance(0.1):
            self.note("tune")
            lines[:0] = [f"tune FMA in {self.pick(['false, true', 'true, false'])}", "contract FMA"]
        if any("copy(" in line for line in self.program.text().splitlines()) and self.chance(0.15):
            self.note("require async")
            lines.append("require async")
        self.program.inherits = self.chance(0.08)
        if self.program.inherits:
            self.note("like")

    def bases(self, shape: tuple[int, ...]) -> str:
        """A layout of bases in any order, some of them swizzled, with copies in any place."""
        bits = size_of(shape).bit_length() - 1
        order = [1 << i for i in range(bits)]
        self.random.shuffle(order)
        for _ in range(self.random.randint(0, 2) if bits > 1 else 0):
            i, j = self.random.sample(range(bits), 2)
            order[i] ^= order[j]
        threads = 5 + self.program.warps.bit_length() - 1
        held = self.random.randint(max(0, bits - 4), min(bits, threads)) if bits - 4 <= threads else min(bits, threads)
        places = self.random.sample(range(threads), held)
        thread = [0] * threads
        for place, basis in zip(places, order, strict=False):
            thread[place] = basis

        def row(of: list[int]) -> str:
            return "[" + ", ".join(str([int(c) for c in np.unravel_index(b, shape)]) for b in of) + "]"

        return f"register {row(order[held:])}, lane {row(thread[:5])}, warp {row(thread[5:])}"


def kernel_of(seed: int) -> Program:
    """The program of a seed."""
    return KernelDrawing(seed).draw()
