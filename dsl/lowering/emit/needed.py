"""Records which registers of each value are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dsl.lowering.ir.function import Value

Registers = dict[Value, set[int]]


class Needed:
    """Records which registers are read. If a value has no entry, all of its registers count as read."""

    def __init__(self) -> None:
        self._registers: Registers = {}

    def add(self, value: Value, registers: Iterable[int]) -> None:
        self._registers.setdefault(value, set()).update(registers)

    def noted(self, value: Value) -> set[int]:
        return self._registers.get(value, set())

    def of(self, value: Value, count: int) -> list[int]:
        """Returns the registers of `value` that are read, in ascending order. `count` is the number of registers of the
        value."""
        needed = self._registers.get(value)
        return list(range(count)) if needed is None else sorted(needed)

    def set(self, value: Value, registers: Iterable[int]) -> None:
        self._registers[value] = {*registers}

    def forget(self, value: Value) -> None:
        self._registers.pop(value, None)

    @contextmanager
    def only(self, registers: Registers) -> Iterator[None]:
        """A context manager in which `registers` replaces all entries."""
        kept, self._registers = self._registers, registers
        try:
            yield
        finally:
            self._registers = kept
