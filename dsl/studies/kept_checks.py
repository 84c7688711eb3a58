"""What `dsl check` has found before, in the compile cache. The findings of a file that has not changed are read. Of a
file that has changed, the parts are checked again whose text, or whose arguments, have changed.

A part is a kernel with one schedule, a launch of an example, or a contract. Comments and white space belong to none.
Only parts without errors are kept. Notes are kept with the node of the tree at which they are, because an edit moves
locations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, msgpack

from dsl.kernels.loaded import Shelf, load_kept, shelf_of
from dsl.kernels.request import Request
from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.runtime.store import key_of
from dsl.studies.findings import Findings
from dsl.text.files import tuned_text

_LINE = re.compile(r"\bline \d|:\d")

if TYPE_CHECKING:
    from dsl.text import tree as ast
    from dsl.text.program import Program


class KeptLoc(Struct, frozen=True):
    """A location, in a source that is named."""

    file: str
    start: int
    end: int
    caller: KeptLoc | None = None


class KeptError(Struct, frozen=True):
    """An error or a note."""

    code: str
    loc: KeptLoc | None
    message: str
    hint: str | None


class KeptFindings(Struct, frozen=True):
    """All errors and notes of a file. `sources` are the texts in which they have locations, by name."""

    variants: int
    errors: tuple[KeptError, ...]
    notes: tuple[KeptError, ...]
    sources: dict[str, str]


def kept_findings(path: Path) -> Findings | None:
    """Returns the findings of a file that was checked before, or None. Raises TileError if it cannot be read."""
    loaded = load_kept(path)
    if loaded is None or loaded.shelf is None:
        return None
    kept = loaded.shelf.store.record("check", _key(loaded.shelf, path), KeptFindings)
    if kept is None:
        return None
    sources = {name: Source(name, text) for name, text in kept.sources.items()}
    errors, notes = ([_error(each, sources) for each in part] for part in (kept.errors, kept.notes))
    return Findings(errors, notes, kept.variants)


def keep_findings(program: Program, path: Path, found: Findings) -> None:
    """Records the findings of a file that parses."""
    if (shelf := shelf_of(program)) is None:
        return
    sources: dict[str, str] = {}
    errors, notes = (tuple(_kept(each, sources) for each in part) for part in (found.errors, found.notes))
    shelf.put("check", _key(shelf, path), KeptFindings(found.variants, errors, notes, sources))


def _key(shelf: Shelf, path: Path) -> str:
    data = tuned_text(path)
    return shelf.key_of("check", "" if data is None else f"tuned {data}")


def _error(kept: KeptError, sources: Mapping[str, Source]) -> TileError:
    return TileError(kept.code, _loc(kept.loc, sources), kept.message, kept.hint)


def _loc(kept: KeptLoc | None, sources: Mapping[str, Source]) -> Loc | None:
    return None if kept is None else Loc(sources[kept.file], kept.start, kept.end, _loc(kept.caller, sources))


def _kept(error: TileError, sources: dict[str, str]) -> KeptError:
    return KeptError(error.code, _kept_loc(error.loc, sources), error.message, error.hint)


def _kept_loc(loc: Loc | None, sources: dict[str, str]) -> KeptLoc | None:
    if loc is None:
        return None
    sources[loc.source.name] = loc.source.text
    return KeptLoc(loc.source.name, loc.start, loc.end, _kept_loc(loc.caller, sources))


# ---- parts of a file ----


class KeptNote(Struct, frozen=True):
    """A note at a node of a block: the place of the block among those on which the part depends, and of the node in the
    block."""

    block: int
    node: int
    message: str
    hint: str | None


class KeptPart(Struct, frozen=True):
    """A part without errors. `variants` is the number of its variants. `steps` and `operations` are what its guesses
    cost, and `most` is the limit of further guesses. `requests` are those of a launch."""

    variants: int = 0
    built: bool = False
    steps: int = 0
    operations: int = 0
    most: int | None = None
    requests: tuple[Request, ...] = ()
    notes: tuple[KeptNote, ...] = ()


class KeptParts(Struct):
    """The parts of one file that were without errors when it was last checked, by their keys."""

    parts: dict[str, KeptPart] = field(default_factory=dict)


class CheckedParts:
    """The parts that a check uses and makes. Without a shelf, none are. `is_whole` says whether the check may keep
    parts: the program has no errors so far."""

    def __init__(self, program: Program, shelf: Shelf | None, path: str, is_whole: bool):
        self.program, self.shelf, self.is_whole = program, shelf, is_whole
        self._key = "" if shelf is None else key_of("clean", shelf.compiler, path)
        kept = None if shelf is None else shelf.store.record("clean", self._key, KeptParts)
        self._known = kept.parts if kept is not None else {}
        self._used: dict[str, KeptPart] = {}
        self._words = WordsOfBlocks(program)

    def key(self, kind: str, *parts: Any) -> str:
        return "" if self.shelf is None else key_of(self.shelf.compiler, self.shelf.numbers(), kind, repr(parts))

    def key_of_kernel(self, kernel: str, schedule: str | None, *parts: Any) -> str:
        """Returns the key of a part that depends on a kernel with a schedule."""
        return "" if self.shelf is None else self.key("kernel", self._words.of_kernel(kernel, schedule), parts)

    def key_of_requests(self, requests: Iterable[Request], *parts: Any) -> str:
        """Returns the key of a part that depends on several variants."""
        if self.shelf is None:
            return ""
        return self.key("requests", [self._words.of_kernel(each.kernel, each.schedule) for each in requests], parts)

    def key_of_launch(self, *parts: Any) -> str:
        """Returns the key of a part that depends on all blocks but the examples."""
        return "" if self.shelf is None else self.key("launch", self._words.without_examples(), parts)

    def find(self, key: str) -> KeptPart | None:
        found = self._used.get(key) or self._known.get(key)
        if found is not None:
            self._used[key] = found
        return found

    def keep(self, key: str, part: KeptPart) -> None:
        if self.shelf is None:
            return
        try:  # a constant of a request may be an object of the compiler
            if msgpack.decode(msgpack.encode(part), type=KeptPart) == part:
                self._used[key] = part
        except (TypeError, ValueError, OverflowError):
            return

    def kept_notes(self, notes: Sequence[TileError], kernel: str, schedule: str | None) -> tuple[KeptNote, ...] | None:
        """Returns notes of a part that depends on a kernel with a schedule. Returns None if one of them cannot be kept:
        it is not at a node, or says a number of a line."""
        if not notes or self.shelf is None:
            return ()
        places = {node.loc: at for at, node in self._nodes(kernel, schedule).items()}
        found = []
        for note in notes:
            place = None if note.loc is None else places.get(note.loc)
            if place is None or _LINE.search(f"{note.message} {note.hint}"):
                return None
            found.append(KeptNote(*place, note.message, note.hint))
        return tuple(found)

    def notes(self, kept: KeptPart, kernel: str, schedule: str | None) -> list[TileError]:
        """Returns the notes of a part, where they are now."""
        if not kept.notes:
            return []
        nodes = self._nodes(kernel, schedule)
        return [TileError("check", nodes[each.block, each.node].loc, each.message, each.hint) for each in kept.notes]

    def _nodes(self, kernel: str, schedule: str | None) -> dict[tuple[int, int], ast.Node]:
        """The nodes of the blocks on which a kernel with a schedule depends. Blocks of equal words have equal nodes."""
        from dsl.text.tree import walk

        blocks = self._words.blocks_of(kernel, schedule)
        return {(i, k): node for i, block in enumerate(blocks) for k, node in enumerate(walk(block))}

    def save(self, ended: bool = True) -> None:
        """Records the parts of this check. Those that it did not use belong to a text that is gone, unless the check
        has not ended."""
        used = self._used if ended else {**self._known, **self._used}
        if self.shelf is not None and self.is_whole and used != self._known:
            self.shelf.put("clean", self._key, KeptParts(used))


class WordsOfBlocks:
    """The words of the blocks on which parts depend, as digests of their trees without locations. Comments and white
    space change none of them, and neither does an edit of another block of the file. An edit of an imported file
    changes all."""

    def __init__(self, program: Program):
        self.program = program
        self._known: dict[Any, str] = {}

    def of(self, block: ast.Node) -> str:
        if block not in self._known:
            from dsl.text.tree import PARTS  # the findings of a file that has not changed are read without it

            out: list[str] = []
            _write(block, PARTS, out)
            self._known[block] = key_of(block.loc.source.name, *out)
        return self._known[block]

    def _sorted(self, blocks: Iterable[ast.Node]) -> list[ast.Node]:
        """Returns the blocks without duplicates, in an order that only their words decide."""
        return [block for _, block in sorted({self.of(block): block for block in blocks}.items())]

    def blocks_of(self, kernel: str, schedule: str | None) -> list[ast.Node]:
        """Returns a kernel, a schedule and those that it includes, and all functions."""
        program = self.program
        own = program.schedules.get((kernel, schedule or ""))
        family = [] if own is None else program.family(kernel, own)
        return self._sorted([program.kernels[kernel], *family, *program.functions.values()])

    def of_kernel(self, kernel: str, schedule: str | None) -> str:
        """Returns a digest of a kernel, of a schedule and those that it includes, and of all functions."""
        key = kernel, schedule
        if key not in self._known:
            program = self.program
            # Names of a schedule may be set by others, and what a caller may set follows from all schedules.
            names = sorted(program.settable(kernel)), sorted(program.schedules_of(kernel))
            words = map(self.of, self.blocks_of(kernel, schedule))
            self._known[key] = key_of(kernel, schedule or "", repr(names), *words, *self._imported())
        return self._known[key]

    def without_examples(self) -> str:
        if "all" not in self._known:
            program = self.program
            groups = program.kernels, program.functions, program.schedules, program.parts, program.dispatches
            blocks = [block for group in groups for block in group.values()]
            self._known["all"] = key_of(*map(self.of, self._sorted(blocks)), *self._imported())
        return self._known["all"]

    def _imported(self) -> list[str]:
        return [part for each in self.program.imported for part in (str(each.asked), each.text)]


def _write(part: Any, parts: Mapping[type, Sequence[str]], out: list[str]) -> None:
    """Adds the words of a tree to `out`, with signs that tell where its nodes begin and end. `parts` are those of each
    class of nodes."""
    if (names := parts.get(type(part))) is not None:
        out.append(f"({type(part).__name__}")
        for name in names:
            _write(getattr(part, name), parts, out)
        out.append(")")
    elif isinstance(part, Loc):  # it is a tuple
        return
    elif isinstance(part, list | tuple):
        out.append("[")
        for each in part:
            _write(each, parts, out)
        out.append("]")
    elif isinstance(part, dict):
        _write([*part.items()], parts, out)
    else:
        out.append(repr(part))


def same_request(request: Request | None) -> Any:
    """Returns what distinguishes a request, as data whose text is the same in all processes."""
    from dsl.kernels.variants import request_key

    return None if request is None else request_key(request)
