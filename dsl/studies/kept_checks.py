"""What `dsl check` has found before, in the compile cache. The findings of a file that has not changed are read. Of a
file that has changed, the parts are checked again whose text, or whose arguments, have changed.

A part is a kernel with one schedule, a launch of an example, or a contract. Only parts without errors and notes are
kept, because errors have locations, which an edit moves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, msgpack

from dsl.kernels.loaded import Shelf, load_kept, shelf_of
from dsl.kernels.request import Request
from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.runtime.store import key_of
from dsl.studies.findings import Findings
from dsl.text.files import tuned_text

if TYPE_CHECKING:
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


class KeptPart(Struct, frozen=True):
    """A part without errors and notes. `variants` is the number of its variants. `steps` and `operations` are what its
    guesses cost, and `most` is the limit of further guesses. `requests` are those of a launch."""

    variants: int = 0
    built: bool = False
    steps: int = 0
    operations: int = 0
    most: int | None = None
    requests: tuple[Request, ...] = ()


class KeptParts(Struct):
    """The parts of one file that were without findings when it was last checked, by their keys."""

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
        self._texts = TextsOfBlocks(program)

    def key(self, kind: str, *parts: Any) -> str:
        return "" if self.shelf is None else key_of(self.shelf.compiler, self.shelf.numbers(), kind, repr(parts))

    def key_of_kernel(self, kernel: str, schedule: str | None, *parts: Any) -> str:
        """Returns the key of a part that depends on a kernel with a schedule."""
        return "" if self.shelf is None else self.key("kernel", self._texts.of_kernel(kernel, schedule), parts)

    def key_of_requests(self, requests: Iterable[Request], *parts: Any) -> str:
        """Returns the key of a part that depends on several variants."""
        if self.shelf is None:
            return ""
        return self.key("requests", [self._texts.of_kernel(each.kernel, each.schedule) for each in requests], parts)

    def key_of_launch(self, *parts: Any) -> str:
        """Returns the key of a part that depends on all blocks but the examples."""
        return "" if self.shelf is None else self.key("launch", self._texts.without_examples(), parts)

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

    def save(self, ended: bool = True) -> None:
        """Records the parts of this check. Those that it did not use belong to a text that is gone, unless the check
        has not ended."""
        used = self._used if ended else {**self._known, **self._used}
        if self.shelf is not None and self.is_whole and used != self._known:
            self.shelf.put("clean", self._key, KeptParts(used))


class TextsOfBlocks:
    """The texts on which parts depend. A comment between blocks changes none of them, and neither does an edit of
    another block of the file. An edit of an imported file changes all."""

    def __init__(self, program: Program):
        self.program = program
        self._starts: dict[str, list[int]] = {}
        self._known: dict[Any, str] = {}

    def of(self, loc: Loc) -> str:
        """Returns the text of the block at `loc`, without the comments behind it."""
        from dsl.text.syntax_errors import block_starts

        text = loc.source.text
        if loc.source.name not in self._starts:
            self._starts[loc.source.name] = [0, *block_starts(text), len(text)]
        starts = self._starts[loc.source.name]
        after = bisect_right(starts, loc.start, hi=len(starts) - 1)
        lines = text[starts[after - 1] : starts[after]].rstrip().split("\n")
        while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
            lines.pop()
        return "\n".join(lines)

    def _several(self, locs: Iterable[Loc]) -> list[str]:
        return sorted({f"{loc.source.name}: {self.of(loc)}" for loc in locs})

    def of_kernel(self, kernel: str, schedule: str | None) -> str:
        """Returns the texts of a kernel, of a schedule and those that it includes, and of all functions."""
        key = kernel, schedule
        if key not in self._known:
            program = self.program
            own = program.schedules.get((kernel, schedule or ""))
            family = [] if own is None else program.family(kernel, own)
            blocks = [program.kernels[kernel], *family, *program.functions.values()]
            # Names of a schedule may be set by others, and what a caller may set follows from all schedules.
            names = sorted(program.settable(kernel)), sorted(program.schedules_of(kernel))
            texts = self._several(block.loc for block in blocks)
            self._known[key] = key_of(kernel, schedule or "", repr(names), *texts, *self._imported())
        return self._known[key]

    def without_examples(self) -> str:
        if "all" not in self._known:
            program = self.program
            groups = program.kernels, program.functions, program.schedules, program.parts, program.dispatches
            locs = [block.loc for group in groups for block in group.values()]
            self._known["all"] = key_of(*self._several(locs), *self._imported())
        return self._known["all"]

    def _imported(self) -> list[str]:
        return [part for each in self.program.imported for part in (str(each.asked), each.text)]


def same_request(request: Request | None) -> Any:
    """Returns what distinguishes a request, as data whose text is the same in all processes."""
    from dsl.kernels.variants import request_key

    return None if request is None else request_key(request)
