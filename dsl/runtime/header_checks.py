"""Checked access to the fields of an untrusted JSON object, and of a header against the `.entry` it describes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NoReturn

from dsl.runtime.dtypes import DTYPES
from dsl.runtime.errors import LaunchError
from dsl.runtime.expressions import ExpressionError, Tree, compile_expression
from dsl.runtime.signature import SignatureParameter
from dsl.runtime.tensor_map import MAP_ALIGNMENT

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
PTX_IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$]*", re.ASCII)
ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")
MAX_ROWS = 1024
MAX_TEXT = 4096
PARAMETER_LIMIT = 32764
"""Bytes of kernel parameters from sm_70 and PTX 8.1 on (PTX ISA, "Kernel Function Parameters")."""


class Fields:
    """A JSON object whose fields are taken one by one; `done` refuses what nobody took. `path` is for messages."""

    def __init__(self, record: Any, path: str) -> None:
        self.path = path
        if not isinstance(record, dict):
            raise LaunchError("ptx", f"header{' field ' + path if path else ''}: not a JSON object")
        self.left = dict(record)

    def fail(self, key: str, why: str) -> NoReturn:
        raise LaunchError("ptx", f"header field {self._where(key)}: {why}")

    def _where(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def value(self, key: str) -> Any:
        if key not in self.left:
            self.fail(key, "is missing")
        return self.left.pop(key)

    def optional(self, key: str) -> Any:
        return self.left.pop(key, None)

    def done(self) -> None:
        for key in self.left:
            self.fail(key[:64], "is not known")

    def integer(self, key: str, low: int = 0, high: int = 1 << 62, among: Collection[int] = ()) -> int:
        value = self.value(key)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(key, "is no integer")
        if among and value not in among:
            self.fail(key, f"is {value}, not {' or '.join(map(str, among))}")
        if not low <= value <= high:
            self.fail(key, f"is {value}, outside {low} to {high}")
        return value

    def optional_integer(self, key: str, low: int, high: int) -> int | None:
        if self.left.get(key, 0) is None:
            return self.left.pop(key)
        return self.integer(key, low, high)

    def boolean(self, key: str) -> bool:
        value = self.value(key)
        if not isinstance(value, bool):
            self.fail(key, "is neither true nor false")
        return value

    def optional_boolean(self, key: str) -> bool:
        return self.boolean(key) if key in self.left else False

    def text(self, key: str, null: bool = False) -> Any:
        """A string, or None where `null` allows it (typed Any: the caller knows which)."""
        value = self.value(key)
        if value is None and null:
            return None
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            self.fail(key, f"is no string of at most {MAX_TEXT} characters")
        return value

    def name(self, key: str, ptx: bool = False) -> str:
        value = self.text(key)
        if not (PTX_IDENTIFIER if ptx else IDENTIFIER).fullmatch(value):
            self.fail(key, f"is no name: {value[:64]!r}")
        return value

    def word(self, key: str, among: Collection[str]) -> str:
        value = self.text(key)
        if value not in among:
            self.fail(key, f"is {value[:64]!r}, not one of {', '.join(among)}")
        return value

    def architecture(self, key: str) -> str:
        value = self.text(key)
        if not ARCHITECTURE.fullmatch(value):
            self.fail(key, f"is no architecture: {value[:64]!r}")
        return value

    def _list(self, key: str) -> list[Any]:
        value = self.value(key)
        if not isinstance(value, list) or len(value) > MAX_ROWS:
            self.fail(key, f"is no list of at most {MAX_ROWS}")
        return value

    def names(self, key: str) -> list[str]:
        values = self._list(key)
        for value in values:
            if not isinstance(value, str) or not IDENTIFIER.fullmatch(value):
                self.fail(key, f"has {value!r:.64}, which is no name")
        if len(set(values)) != len(values):
            self.fail(key, "has a name twice")
        return values

    def optional_pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """Pairs of names; none where there is no such field."""
        values = self._list(key) if key in self.left else []
        for value in values:
            is_pair = isinstance(value, list) and len(value) == 2 and all(isinstance(name, str) for name in value)
            if not is_pair or not all(IDENTIFIER.fullmatch(name) for name in value):
                self.fail(key, f"has {value!r:.64}, which is no pair of names")
        return tuple((y, x) for y, x in values)

    def dims(self, key: str) -> list[str | int]:
        values = self._list(key)
        for value in values:
            is_extent = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
            if not is_extent and not (isinstance(value, str) and IDENTIFIER.fullmatch(value)):
                self.fail(key, f"has {value!r:.64}, which is neither a name nor an extent")
        return values

    def integers(self, key: str, counts: range, low: int, high: int) -> tuple[int, ...]:
        """A list whose length is one of `counts`, each element from `low` to `high`."""
        values = self._list(key)
        if len(values) not in counts:
            wanted = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
            self.fail(key, f"has {len(values)} elements, not {wanted}")
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool):
                self.fail(key, f"has {value!r:.64}, which is no integer")
            if not low <= value <= high:
                self.fail(key, f"has {value}, outside {low} to {high}")
        return tuple(values)

    def expressions(self, key: str, count: int) -> Any:
        values = self._list(key)
        if len(values) != count:
            self.fail(key, f"has {len(values)} expressions, not {count}")
        return tuple(values)

    def record(self, key: str) -> Fields:
        return Fields(self.value(key), self._where(key))

    def optional_record(self, key: str) -> Fields | None:
        return self.record(key) if key in self.left else None

    def records(self, key: str) -> Iterator[Fields]:
        rows = self._list(key)
        return (Fields(row, f"{self._where(key)}[{index}]") for index, row in enumerate(rows))

    def optional_records(self, key: str) -> Iterator[Fields]:
        return self.records(key) if key in self.left else iter(())

    def mapping(self, key: str) -> dict[str, int | float | bool | str]:
        record = self.value(key)
        if not isinstance(record, dict) or len(record) > MAX_ROWS:
            self.fail(key, f"is no object of at most {MAX_ROWS} keys")
        for name, value in record.items():
            if not IDENTIFIER.fullmatch(name) or not isinstance(value, (bool, int, float, str)):
                self.fail(key, f"{name[:64]!r}: {value!r:.64} is no constant")
        return record


def check_expression(where: str, tree: Tree, known: Collection[str]) -> None:
    """Raises LaunchError `ptx` when `tree` is no expression over the `known` names."""
    try:
        unknown = sorted(compile_expression(tree).names - set(known))
    except ExpressionError as error:
        raise LaunchError("ptx", f"header field {where}: {error}") from None
    if unknown:
        raise LaunchError("ptx", f"header field {where}: {unknown[0][:64]!r} is no dim, constant or scalar")


def check_signature(
    entry: str, arguments: Sequence[tuple[str, str, str, int]], parameters: Sequence[SignatureParameter]
) -> None:
    """Compares the header's arguments (kind, of, dtype, bytes) with the entry's `.param`s, in order."""
    if len(arguments) != len(parameters):
        message = f"entry {entry} has {len(parameters)} parameters, the header {len(arguments)}"
        raise LaunchError("ptx", f"header field arguments: {message}")
    for index, ((kind, of, dtype, size), parameter) in enumerate(zip(arguments, parameters, strict=True)):
        has = f"{parameter.name}: .{parameter.type}, {parameter.bytes} bytes"
        is_float = DTYPES[dtype].is_float
        letter = parameter.type[0]
        clash = not is_float if letter == "f" else is_float and letter in "us" and size > 2
        # LLVM writes a scalar of 16-bit floats as two bytes.
        is_half = kind == "scalar" and is_float and size == 2 and parameter.type == "b8"
        is_array = kind in ("table", "map") or is_half
        what = f"{kind} {of}".strip()
        if parameter.bytes != size or parameter.is_array != is_array or clash:
            message = f"arguments[{index}] ({what}, {dtype}, {size} bytes) does not fit the entry's parameter {has}"
            raise LaunchError("ptx", f"header field {message}")
        if kind == "map" and parameter.align < MAP_ALIGNMENT:
            message = f"arguments[{index}] ({what}) needs .align {MAP_ALIGNMENT}, the entry's parameter {has}, has less"
            raise LaunchError("ptx", f"header field {message}")
    if sum(size for *_, size in arguments) > PARAMETER_LIMIT:
        raise LaunchError("ptx", f"header field arguments: more than {PARAMETER_LIMIT} bytes of parameters")
