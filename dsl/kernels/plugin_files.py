"""Loads plug-ins, which are the user's Python files. Each file is read once. All files together become one `Plugins`
object, with which a program is compiled.

A file is read again if its text or the text of its instruction rows has changed. The functions that a file marks with
`dsl.plugin` are checked here. A function that cannot be added is an error at its line, before anything is compiled.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.location import Source, TileError, closest
from dsl.lowering.ir.plugins import NONE, OPEN, Added, Plugins, guarded, instruction_rows, of_line, reading
from dsl.lowering.ops import OPS
from dsl.lowering.passes import passes_of
from dsl.schedules.properties import rows_of
from dsl.text.files import read_text, resolved


class PluginFile(Struct, frozen=True):
    """A plug-in file, as it was when it was read. `beside` lists the files with its instruction rows. `rows` maps the
    names of instructions to these rows."""

    path: Path
    text: str
    added: tuple[Added, ...]
    beside: tuple[Source, ...]
    rows: dict[str, Any]

    @property
    def digest(self) -> str:
        texts = "\0".join((self.text, *(each.text for each in self.beside)))
        return hashlib.sha256(texts.encode()).hexdigest()[:12]

    def is_as_read(self, text: str) -> bool:
        """Whether `text` is the text that was read, and the files in `beside` are unchanged."""
        try:
            return self.text == text and all(read_text(Path(each.name)) == each.text for each in self.beside)
        except TileError:
            return False


_files: dict[Path, PluginFile] = {}
_joined: dict[tuple[tuple[Path, str], ...], Plugins] = {}


def load_plugins(paths: Sequence[str | Path]) -> Plugins:
    """Loads plug-in files into one `Plugins`. Equal paths and texts give the same object. Raises TileError `plugin` for
    a function that cannot be added, and `file` for a file that cannot be read."""
    files = {each.path: each for each in map(_read, paths)}
    if not files:
        return NONE
    key = tuple((path, each.digest) for path, each in files.items())
    if key not in _joined:
        _joined[key] = _join(list(files.values()))
    return _joined[key]


def plugin_texts(path: str | Path) -> dict[str, str]:
    """The texts of a plug-in file and of the files that it names, by their paths from its folder."""
    path = Path(path)
    read = _read(path)
    folder = resolved(path).parent
    beside = {os.path.relpath(resolved(Path(each.name)), folder): each.text for each in read.beside}
    return {path.name: read.text, **beside}


def _read(path: str | Path) -> PluginFile:
    path, name = resolved(Path(path)), str(path)
    text = read_text(path)
    known = _files.get(path)
    # Running a file again would make new functions. Variants compiled with the old functions would not be found.
    if known is not None and known.is_as_read(text):
        return known
    source = Source(name, text)
    module = ModuleType(f"dsl_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look up annotations there
    with reading(source) as found, guarded(of_line(source, 1), "reading it"):
        exec(compile(text, name, "exec"), module.__dict__)
    for each in found:
        _examine(each)
    beside = [(each, _beside(path, each)) for each in found if each.kind == "instructions"]
    rows: dict[str, Any] = {}
    for each, toml in beside:
        rows |= instruction_rows(each, toml, rows)
    made = PluginFile(path, text, tuple(found), tuple(toml for _, toml in beside), rows)
    _teach([each for each in found if each.kind == "semantics"], str(path))
    _files[path] = made
    return made


def _beside(path: Path, added: Added) -> Source:
    """Reads a file that a plug-in names, relative to the plug-in's folder. Raises TileError `plugin` if it cannot be
    read."""
    named = Path(added.loc.source.name).parent / added.name
    try:
        return Source(str(named), read_text(path.parent / added.name))
    except TileError as error:
        raise TileError("plugin", added.loc, error.message, "a file beside this one") from None


def _join(files: Sequence[PluginFile]) -> Plugins:
    rows: dict[str, Any] = {}
    digests: dict[str, str] = {}
    for each in files:
        twice = rows.keys() & each.rows.keys()
        if twice or each.path.name in digests:
            what = f"the instruction '{min(twice)}'" if twice else f"the name '{each.path.name}'"
            raise TileError("plugin", of_line(Source(str(each.path), each.text), 1), f"two plug-ins have {what}")
        rows |= each.rows
        digests[each.path.name] = each.digest
    paths = tuple(str(each.path) for each in files)
    plugins = Plugins(paths, digests, tuple(added for each in files for added in each.added), rows)
    # These functions are called only for their errors. For example, a property may already exist, or each of two passes
    # may have to come after the other.
    passes_of(plugins)
    rows_of(plugins)
    for (kind, _), several in plugins.by_name.items():
        names = [each.label for each in several]
        if kind == "rule" and len(set(names)) < len(names):
            raise several[-1].wrong("is the name of two rules for one operation")
    return plugins


def _examine(added: Added) -> None:
    """Raises TileError `plugin` for a marked function that cannot be added, such as a pass without `after=` or
    `before=`."""
    if added.kind in ("pass", "directive") and (added.about["after"] is None) == (added.about["before"] is None):
        raise added.wrong("is a pass that stands nowhere", 'after="recompute", or before=')
    if added.kind == "option" and added.name not in OPEN:
        hint = closest(added.name, OPEN) or f"open: {', '.join(OPEN)}"
        raise added.wrong(f"is an option of '{added.name}', a kind of choices that is not open", hint)
    if added.kind == "rule":
        spec = OPS.get(added.name)
        if spec is None:
            message = f"is a rule for '{added.name}', and there is no such operation"
            raise added.wrong(message, closest(added.name, OPS))
        if not spec.pure or spec.elements.splat or not (spec.elementwise or added.about["whole"]):
            why = "rules are for operations that do nothing but compute"
            raise added.wrong(f"is a rule for '{added.name}', which has none: {why}", "elementwise ones, or whole=True")


def _teach(semantics: Sequence[Added], owner: str) -> None:
    """Registers with the emulator the plug-ins' functions that emulate instructions."""
    if semantics:
        # The emulator needs numpy. Plug-ins without semantics do not load it.
        from dsl.runtime.emulator.extension import extend

        for each in semantics:
            try:
                extend(each.name, each, owner, each.wrong)
            except ValueError as error:
                raise each.wrong(f"is no form that the emulator can take: {error}") from None
