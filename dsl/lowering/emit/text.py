"""Writes the LLVM IR of one thread as text: lines, names, labels, locations.

llvmlite's object tree is not used: it takes ten times as long, and llvmlite parses text anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dsl.lowering.emit.places import DebugInfo
from dsl.lowering.ir.function import Function, Op
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DType

MAX_VALUES = 200_000
"""The maximum number of values of a kernel. For this number, LLVM takes 5 s and 500 MB. No sample has a tenth of it."""
Lines = list[Any]
"""Lines, and nested lists of lines that are filled later."""


def flat(lines: Lines) -> Iterator[str]:
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from flat(line)


class Text:
    """The text of one LLVM function while it is being written.

    `label`: the label of the current block. `dbg`: the suffix that attaches the source line of the current operation to
        an instruction.
    """

    def __init__(self, function: Function, numbered: bool = False):
        self.index_bits = function.index_bits
        self.index = f"i{function.index_bits}"
        self.body: Lines = []
        self.lines = self.body
        self.behind: Lines = []  # rarely entered blocks, which follow all other blocks
        self.label = "entry"
        self.debug = DebugInfo(function, numbered)
        self.dbg = ""
        self._count = 0
        self._made: dict[tuple, Any] = {}

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def at(self, op: Op) -> None:
        """Attaches the source line of `op` to the instructions that are written next. Raises TileError `limit` for a
        kernel with too many values."""
        if self._count > MAX_VALUES:
            hint = "smaller tiles, more warps, or loops of the run in place of static ones"
            raise TileError("limit", op.loc, f"a thread's code has more than {MAX_VALUES} instructions", hint)
        node = self.debug.of(op)
        self.dbg = "" if node is None else f", !dbg !{node}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}{self.dbg}")

    def let(self, text: str) -> str:
        """Writes an instruction and returns a new name for its result. Results in the body have consecutive numbers,
        because LLVM reads numbers faster than names."""
        self._count += 1
        name = f"%{self._count}" if self.lines is self.body else f"%v{self._count}"
        self.lines.append(f"  {name} = {text}{self.dbg}")
        return name

    def phi(self, text: str) -> str:
        """Writes a phi. It gets a debug location only if locations are operation numbers, not lines."""
        name = self.name()
        dbg = self.dbg if self.debug.numbers is not None else ""
        self.lines.append(f"  {name} = phi {text}{dbg}")
        return name

    def here(self, key: tuple, make: Callable[[], Any]) -> Any:
        """Returns the result of `make`, which is called only once per key in each basic block."""
        place = (self.label, *key)
        if place not in self._made:
            self._made[place] = make()
        return self._made[place]

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def fresh_label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    @contextmanager
    def only_if(self, flag: str, label: str = "then", end: str = "behind") -> Iterator[None]:
        """A context manager whose code is skipped by threads whose flag is off."""
        inside, behind = self.fresh_label(label), self.fresh_label(end)
        self.do(f"br i1 {flag}, label %{inside}, label %{behind}")
        self.start(inside)
        yield
        self.do(f"br label %{behind}")
        self.start(behind)

    @contextmanager
    def aside(self, label: str) -> Iterator[None]:
        """A context manager that writes a block after all other blocks, so that the common path is straight-line
        code."""
        lines, here, self.lines = self.lines, self.label, self.behind
        self.start(label)
        try:
            yield
        finally:
            self.lines, self.label = lines, here

    def llvm(self, dtype: DType) -> str:
        return self.index if dtype.kind == "index" else dtype.llvm

    def bits(self, dtype: DType) -> int:
        return self.index_bits if dtype.kind == "index" else dtype.bits
