"""A program that is parsed when something asks for more than its names. A program of the compile cache has been parsed
before without errors, by another process."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from dsl.kernels.identity import compiler_digest, is_unchanged
from dsl.lowering.ir.location import TileError
from dsl.runtime.store import Store, key_of, store
from dsl.text.files import read_text, resolved

if TYPE_CHECKING:
    from dsl.lowering.ir.plugins import Plugins
    from dsl.text.program import Program


class KeptImport(Struct, frozen=True):
    """An imported file: its path as it was asked for, its path without symbolic links, both relative to the folder of
    the program, and the digest of its text."""

    asked: str
    path: str
    digest: str


class KeptProgram(Struct, frozen=True):
    """A text that parses: what it imports, and the names of its dispatches and kernels."""

    imports: tuple[KeptImport, ...]
    dispatches: tuple[str, ...]
    kernels: tuple[str, ...]


class Shelf(Struct, frozen=True):
    """The place in a store for what is compiled of one program. `key` is a digest of the program's texts and names, of
    its plug-ins, and of the compiler, which `compiler` is a digest of."""

    store: Store
    compiler: str
    key: str

    @staticmethod
    def numbers() -> bytes:
        """The numbers of the user's own GPUs, which decide costs."""
        return _own_numbers()

    def key_of(self, *parts: str) -> str:
        """Returns the key of an entry. The numbers of a user's GPU decide costs, so they belong to each key."""
        return key_of(self.key, _own_numbers(), *parts)

    def put(self, kind: str, key: str, content: bytes | Struct, texts: Mapping[str, str] | None = None) -> None:
        """Writes an entry, unless the compiler's files have changed since this process imported them. `texts` are PTX
        to which the entry refers, by their keys."""
        if not is_unchanged():
            return
        for each, text in (texts or {}).items():
            if self.store.get("ptx", each) is None:  # it may be there, and damaged
                self.store.put("ptx", each, text.encode())
        self.store.put(kind, key, content)


def _own_numbers() -> bytes:
    from dsl.lowering.ir.machines import own_rows

    try:
        return own_rows().read_bytes()
    except OSError:
        return b""


class LoadedProgram:
    """The program of a module. `name` is that of its file in errors. `shelf` is None if nothing of it is kept."""

    def __init__(
        self,
        name: str,
        path: Path | None,
        names: tuple[Sequence[str], Sequence[str]],
        shelf: Shelf | None = None,
        program: Program | None = None,
        text: str = "",
        plugins: Plugins | None = None,
        imported: Mapping[Path, str] | None = None,
    ):
        self.name, self.path, self.shelf = name, path, shelf
        self.dispatches, self.kernels = names
        self._text, self._plugins, self._imported = text, plugins, imported or {}
        if program is not None:
            self.program = program

    @classmethod
    def of(cls, program: Program, shelf: Shelf | None = None) -> LoadedProgram:
        return cls(program.source.name, program.path, ([*program.dispatches], [*program.kernels]), shelf, program)

    @property
    def is_parsed(self) -> bool:
        return "program" in vars(self)

    @cached_property
    def program(self) -> Program:
        """The parsed program, of the texts that were read when it was loaded, whatever the files contain now."""
        assert self.path is not None  # a text without a file is parsed at once
        return _load(self.path, self.name, self._plugins, {**self._imported, resolved(self.path): self._text})


def load_lazily(path: str | Path, name: str | None, plugins: Sequence[str | Path]) -> LoadedProgram:
    """Reads the program in a file. The program is not parsed if the compile cache knows that it parses. Raises
    TileError."""
    path, kept, given = Path(path), store(), None
    if plugins:
        from dsl.kernels.plugin_files import load_plugins

        given = load_plugins(plugins)
    compiler = None if kept is None or not is_known(given) else compiler_digest(kept)
    if kept is None or compiler is None:
        return LoadedProgram.of(_load(path, name, given))
    return _Lazily(kept, compiler, path, name or str(path), given).load()


def _load(path: Path, name: str | None, plugins: Plugins | None, texts: Mapping[Path, str] | None = None) -> Program:
    """Parses a file. Without plug-ins the program has none, also where the command line names some."""
    from dsl.kernels.garbage import imports

    with imports():
        from dsl.lowering.ir.plugins import NONE
        from dsl.text.program import load

    return load(path, name, NONE if plugins is None else plugins, texts)


def parse_lazily(text: str, name: str) -> LoadedProgram:
    """Like `load_lazily`, for a text without a file."""
    from dsl.lowering.ir.plugins import current
    from dsl.text.program import parse_program

    kept, plugins = store(), current()
    compiler = None if kept is None or not is_known(plugins) else compiler_digest(kept)
    program = parse_program(text, name)
    if kept is None or compiler is None:
        return LoadedProgram.of(program)
    return LoadedProgram.of(
        program, Shelf(kept, compiler, key_of("text", compiler, name, text, *plugin_texts(plugins)))
    )


def _of_command(path: Path) -> _Lazily | None:
    """Returns what finds the program in a file for a command, or None if the cache is off. A command may have plug-ins
    of its own."""
    from dsl.lowering.ir.plugins import NONE, current

    kept = store() if current() is NONE else None
    compiler = None if kept is None else compiler_digest(kept)
    return None if kept is None or compiler is None else _Lazily(kept, compiler, path, str(path), None)


def load_kept(path: Path) -> LoadedProgram | None:
    """Returns the program in a file for a command, if the compile cache knows that it parses. Raises TileError if the
    file cannot be read."""
    found = _of_command(path)
    return None if found is None else found.kept(read_text(path))


def shelf_of(program: Program) -> Shelf | None:
    """Returns the shelf of a program that a command has parsed without errors, as `load_kept` finds it later."""
    found = None if program.path is None else _of_command(Path(program.path))
    return None if found is None or found.name != program.source.name else found.shelf(program)


def parts_shelf() -> Shelf | None:
    """Returns a shelf for parts of programs. Its own key is empty, since the keys of parts say all that they depend
    on. It is None if the cache is off, or if plug-ins are given."""
    from dsl.lowering.ir.plugins import NONE, current

    kept = store() if current() is NONE else None
    compiler = None if kept is None else compiler_digest(kept)
    return None if kept is None or compiler is None else Shelf(kept, compiler, "")


class _Lazily:
    def __init__(self, store: Store, compiler: str, path: Path, name: str, plugins: Plugins | None):
        self.store, self.compiler, self.path, self.name, self.plugins = store, compiler, path, name, plugins

    def load(self) -> LoadedProgram:
        text = read_text(self.path)
        if (kept := self.kept(text)) is not None:
            return kept
        program = _load(self.path, self.name, self.plugins, {resolved(self.path): text})
        return LoadedProgram.of(program, self.shelf(program))

    def key(self, text: str) -> str:
        return key_of("file", self.compiler, self.name, text, *plugin_texts(self.plugins))

    def kept(self, text: str) -> LoadedProgram | None:
        """Returns the program if another process has parsed it, with the same imported files."""
        key = self.key(text)
        kept = self.store.record("file", key, KeptProgram)
        imported = None if kept is None else known_texts(kept, resolved(self.path).parent)
        if kept is None or imported is None:
            return None
        shelf = Shelf(self.store, self.compiler, self.key_of_texts(key, kept))
        names = kept.dispatches, kept.kernels
        return LoadedProgram(self.name, self.path, names, shelf, None, text, self.plugins, imported)

    def shelf(self, program: Program) -> Shelf | None:
        """Records that a program parses, and returns its shelf."""
        root, key = resolved(self.path).parent, self.key(program.source.text)
        try:
            imports = tuple(
                KeptImport(_relative(each.asked, root), _relative(each.path, root), key_of(each.text))
                for each in program.imported
            )
        except ValueError:  # not below the folder
            return None
        kept = KeptProgram(imports, tuple(program.dispatches), tuple(program.kernels))
        shelf = Shelf(self.store, self.compiler, self.key_of_texts(key, kept))
        if self.store.record("file", key, KeptProgram) != kept:
            shelf.put("file", key, kept)
        return shelf

    def key_of_texts(self, key: str, kept: KeptProgram) -> str:
        return key_of("program", key, *(part for each in kept.imports for part in (each.asked, each.path, each.digest)))


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def known_texts(kept: KeptProgram, root: Path) -> dict[Path, str] | None:
    """Returns the texts of the imported files by path, if all are as they were. Returns None otherwise."""
    texts: dict[Path, str] = {}
    for each in kept.imports:
        try:
            path = resolved(root / each.asked)
            if path != root / each.path:
                return None
            text = read_text(path)
        except TileError:
            return None
        if key_of(text) != each.digest:
            return None
        texts[path] = text
    return texts


# ---- plug-ins ----


def plugin_texts(plugins: Plugins | None) -> list[str]:
    """Returns the names of plug-ins, and the digests of their texts and instruction rows."""
    digests = {} if plugins is None else plugins.digests
    return [part for name, digest in sorted(digests.items()) for part in (name, digest)]


def is_known(plugins: Plugins | None) -> bool:
    """Whether the texts of the plug-ins are all that they consist of. A plug-in that imports other files of the user
    may change although its text does not, so nothing that was compiled with it is kept."""
    if plugins is None or not plugins.files:
        return True
    import ast as python  # takes 2 ms

    allowed = sys.stdlib_module_names | {"dsl"}
    try:
        trees = [python.parse(read_text(Path(file))) for file in plugins.files]
    except (SyntaxError, TileError, ValueError):
        return False
    for node in (node for tree in trees for node in python.walk(tree)):
        named: list[str] = []
        if isinstance(node, python.Import):
            named = [each.name for each in node.names]
        elif isinstance(node, python.ImportFrom):
            named = [node.module or ""] if not node.level else [""]
        if any(name.partition(".")[0] not in allowed for name in named):
            return False
    return True
