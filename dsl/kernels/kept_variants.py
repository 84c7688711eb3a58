"""Compiled variants in the compile cache: the PTX of kernels, and which variants of a family share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dsl.kernels.loaded import Shelf
from dsl.kernels.request import Request
from dsl.runtime.store import Store, key_of

if TYPE_CHECKING:
    from dsl.kernels.compile import Compiled
    from dsl.runtime.header import Header
    from dsl.text.program import Program


class KeptText(Struct, frozen=True):
    """PTX text, and its key, which is a digest of it."""

    key: str
    text: str

    @classmethod
    def of(cls, text: str) -> KeptText:
        return cls(key_of("ptx", text), text)


def kept_text(store: Store, key: str) -> KeptText | None:
    raw = store.get("ptx", key)
    return None if raw is None else KeptText(key, raw.decode())


class KeptCompiled:
    """Compiled code that was read from the compile cache. It has the attributes of `Compiled`. Those that are not in
    the PTX, such as the IR, are made when somebody asks: the variant is compiled again, to the same code."""

    def __init__(self, ptx: str, request: Request, again: Callable[[], Compiled]):
        self.ptx, self.request, self._again = ptx, request, again

    @cached_property
    def header(self) -> Header:
        from dsl.runtime.header import read

        return next(iter(read(self.ptx).values()))

    @property
    def body(self) -> str:
        return self.ptx.partition("\n")[2]  # the header is one line

    @cached_property
    def whole(self) -> Compiled:
        return self._again()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.whole, name)


def compiled_again(program: Callable[[], Program], request: Request, ptx: str) -> KeptCompiled:
    """Returns the code of a request whose PTX is known."""

    def again() -> Compiled:
        from dsl.kernels.compile import compile_variant, import_generator

        import_generator()
        return compile_variant(program(), request)

    return KeptCompiled(ptx, request, again)


class KeptMember(Struct, frozen=True):
    """A variant of a family. `code` is the digest of its LLVM IR. `text` is the key of the PTX that serves it, and
    `served` the request for which this PTX was compiled."""

    request: Request
    divisors: dict[str, int]
    code: str
    text: str
    served: Request


class KeptFamily(Struct, frozen=True):
    """The compiled variants of a family, which differ only in the divisors of dims."""

    members: tuple[KeptMember, ...]


class KeptFamilies:
    """The families of one program."""

    def __init__(self, shelf: Shelf):
        self.shelf = shelf

    def key(self, family: Sequence[str]) -> str | None:
        """Returns the key of a family's entry. Returns None if the family is known only to this process: the text of an
        object without a text of its own has its address."""
        return None if any(" at 0x" in text for text in family) else self.shelf.key_of("family", *family)

    def find(self, family: Sequence[str]) -> list[tuple[KeptMember, str]]:
        """Returns the members of a family, each with the PTX that serves it."""
        key = self.key(family)
        kept = None if key is None else self.shelf.store.record("family", key, KeptFamily)
        texts = [(each, kept_text(self.shelf.store, each.text)) for each in (kept.members if kept else ())]
        return [(each, found.text) for each, found in texts if found is not None]

    def keep(self, family: Sequence[str], members: Sequence[tuple[Request, dict[str, int], str, str, Request]]) -> None:
        """Records the members of a family: (request, divisors, digest of the LLVM IR, PTX, request of the PTX). If
        another process has recorded other members meanwhile, they are made again when they are needed."""
        key = self.key(family)
        if key is None:
            return
        kept, texts = [], dict[str, str]()
        for request, divisors, code, ptx, served in members:
            text = KeptText.of(ptx)
            texts[text.key] = text.text
            kept.append(KeptMember(request, divisors, code, text.key, served))
        self.shelf.put("family", key, KeptFamily(tuple(kept)), texts)
