"""The foreign kernels for sm_90a: their arguments, what they compute, and changes of their texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tensor_copy_kernel import map_of

from dsl.runtime.emulator import Finding, Kind, Memory, TensorMapArgument

FOREIGN = Path(__file__).parent / "foreign"
SEEDS = (0, 7)
BITS = {1: np.uint8, 2: np.uint16}


def random(*shape: int, dtype: Any = np.float32) -> Any:
    generator = np.random.default_rng(sum(shape))
    if np.issubdtype(dtype, np.integer):
        return generator.integers(-99, 99, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


@dataclass
class Launch:
    """Arrays in device memory and the arguments of a launch, which stand for them; maps as (array, box, swizzle)."""

    memory: Memory = field(default_factory=Memory)
    pointers: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)

    def pointer(self, name: str, array: Any) -> Any:
        self.arrays[name] = array
        bits = array if array.dtype.kind in "iuf" else array.view(BITS[array.itemsize])
        self.pointers[name] = self.memory.allocate(bits, name)
        return self.pointers[name]

    def map(self, name: str, array: Any, box: tuple[int, int], swizzle: int) -> TensorMapArgument:
        return TensorMapArgument(map_of(array, box, swizzle), self.pointer(name, array))

    def read(self, name: str) -> Any:
        array = self.arrays[name]
        raw = self.memory.read(self.pointers[name], np.uint8, array.nbytes)
        return raw.view(array.dtype).reshape(array.shape)


def text_of(name: str) -> str:
    return (FOREIGN / f"{name}.ptx").read_text()


@dataclass(frozen=True)
class Edit:
    """Another line in place of the one with `word` that comes as the `number`th, from 0 on; `{old}` is that line."""

    word: str
    number: int
    new: str | Callable[[str], str] = ""

    def made(self, text: str) -> str:
        lines = text.splitlines()
        found = [at for at, line in enumerate(lines) if self.word in line]
        at = found[self.number]
        lines[at] = self.new(lines[at]) if callable(self.new) else self.new.replace("{old}", lines[at])
        return "\n".join(lines)


def last_operand(value: str) -> Callable[[str], str]:
    def changed(line: str) -> str:
        new, count = re.subn(r"(%?\w+);", f"{value};", line, count=1)
        assert count == 1, line
        return new

    return changed


def edited(name: str, edits: tuple[Edit, ...]) -> str:
    text = text_of(name)
    for edit in edits:
        text = edit.made(text)
    return text


@dataclass(frozen=True)
class Fault:
    """Edits of a kernel's text; kind and message of a finding then, and a part of the source line where it is."""

    kernel: str
    edits: tuple[Edit, ...]
    kind: Kind
    message: str
    place: str

    @property
    def text(self) -> str:
        return edited(self.kernel, self.edits)

    def assert_found(self, findings: Sequence[Finding], source: str) -> None:
        """Among the findings; `source` is the stem of the file whose lines they name."""
        assert any(
            each.kind == self.kind
            and self.message in each.message
            and any(self.place in line for line in lines_of(each, source))
            for each in findings
        ), [(str(each), lines_of(each, source)) for each in findings]


def in_turn(faults: Mapping[str, Fault]) -> list[tuple[str, int]]:
    """Each fault with one of the seeds."""
    return [(name, SEEDS[number % len(SEEDS)]) for number, name in enumerate(faults)]


def lines_of(finding: Finding, name: str) -> list[str]:
    """The source lines of a finding, those that it was inlined through too."""
    source = {path.name: path.read_text().splitlines() for path in FOREIGN.glob(f"{name}.*")}
    places = finding.location.chain() if finding.location else []
    return [source[place.file][place.line - 1] for place in places if place.file in source]
