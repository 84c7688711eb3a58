"""What a call needs to know of a dispatch or kernel to find its class, and from it a plan that is kept. It is data, so
the compile cache keeps it, and a first call parses nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from dsl.calls.called import Called


class CallFront(Struct, frozen=True):
    """The parameters of a dispatch or kernel, and what is known of them without the arguments of a call. The fields are
    those of `Called`. `kinds` maps parameters to `array`, `number` or `table`. `others` are the names that a call
    accepts besides its parameters. `doc` is the documentation for Python."""

    name: str
    params: tuple[str, ...]
    optional: frozenset[str]
    leading: tuple[str, ...]
    written: frozenset[str]
    read: frozenset[str]
    strided: frozenset[str]
    deciding: frozenset[str]
    kinds: dict[str, str]
    others: tuple[str, ...]
    doc: str

    @property
    def accesses(self) -> tuple[Collection[str], Collection[str]]:
        return self.written, self.read


def front_of(called: Called, others: Iterable[str], doc: str) -> CallFront:
    written, read = called.accesses
    return CallFront(
        called.name,
        tuple(called.params),
        frozenset(called.optional),
        tuple(called.leading),
        frozenset(written),
        frozenset(read),
        frozenset(called.strided),
        called.deciding,
        {name: kind_of(called, name) for name in called.params},
        tuple(others),
        doc,
    )


def kind_of(called: Called, name: str) -> str:
    """Returns the kind of a parameter. A dispatch only calculates with numbers that it passes to no kernel."""
    if called.array(name) is not None:
        return "array"
    head = called.heads.get(name)
    return "table" if head is not None and called.parameters.get(name, name) in head.tables else "number"


def read_in_order(
    free: Sequence[str], optional: Collection[str], count: int, outputs: Collection[str] = ()
) -> list[str]:
    """Returns the parameters to which `count` positional arguments belong: those of `free` in order, without `outputs`.
    If `count` is too small for all parameters, the last optional tensors are left out."""
    required = sum(p not in optional and p not in outputs for p in free)
    absent = [p for p in free if p in optional][max(count - required, 0) :]
    return [p for p in free if p not in absent and p not in outputs]
