"""What a name means: its definition, and all places that mean the same. The names of a kernel go on in its schedules,
in the dispatches and examples that launch it, and in functions that get its constants by `...`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from dsl.editors.server.scan import (
    ARGUMENT,
    CONSTANT,
    HEAD,
    LAUNCHED,
    MEMBER,
    PLAIN,
    SCHEDULE,
    SUBJECT,
    NameUse,
    ScannedBlock,
    blocks_of,
)
from dsl.editors.words import words
from dsl.lowering.ir.location import Loc
from dsl.text.program import Program

_NAME = re.compile(r"[A-Za-z_]\w*")
OF_THE_LANGUAGE = frozenset({"warps"})
"""Names that schedules set and that the compiler reads."""
CALLABLE = ("kernel", "def", "dispatch")


class CannotRename(Exception):
    """Why a name cannot be renamed."""


class Meaning(Struct):
    """What a name at a place means. `kind` is "block", "schedule", "local" or "other". `blocks` are those in which a
    local name means the same."""

    use: NameUse
    kind: str
    blocks: tuple[ScannedBlock, ...] = ()


class Symbols:
    """The names of one text. `program` is the last one that was made of it, for names of imported files."""

    def __init__(self, text: str, program: Program | None):
        self.text, self.program = text, program
        self.blocks = blocks_of(text)
        self.by_name: dict[str, ScannedBlock] = {}
        for block in self.blocks:
            if block.kind in CALLABLE:
                self.by_name.setdefault(block.name, block)

    # ---- what is at a place ----

    def block_at(self, offset: int) -> ScannedBlock | None:
        return next((each for each in self.blocks if each.start <= offset <= each.end), None)

    def use_at(self, offset: int) -> tuple[ScannedBlock, NameUse] | None:
        for block in self.blocks:
            if block.start <= offset <= block.end:
                for use in block.uses:
                    if use.start <= offset <= use.end:
                        return block, use
        return None

    def meaning(self, offset: int) -> Meaning | None:
        found = self.use_at(offset)
        if found is None:
            return None
        block, use = found
        if use.role == SCHEDULE:
            return Meaning(use, "schedule")
        owners = self._owners(block, use)
        if owners:
            return Meaning(use, "local", tuple(self._component(owners, use.name)))
        if use.role == PLAIN and (use.name in self.by_name or self._imported(use.name) is not None):
            return Meaning(use, "block")
        return Meaning(use, "other")

    def _owners(self, block: ScannedBlock, use: NameUse) -> list[ScannedBlock]:
        """Returns the blocks to whose names a use belongs. It is empty for names of blocks and of the language."""
        name = use.name
        if use.role == MEMBER or (use.role == PLAIN and use.of in (HEAD, LAUNCHED)):
            return []
        if use.role == ARGUMENT:
            callee = self.by_name.get(use.of)
            return [callee] if callee is not None and name in callee.head else []
        if use.role == CONSTANT:
            return self._set_by(use.of, name)
        if use.role == SUBJECT:
            return [each for each in self.kernels_of(block) if name in each.bound]
        if name in block.bound:
            return [block]
        # A name of a kernel that its schedule, or a block that launches it, reads.
        found = [each for each in self.kernels_of(block) if self._has(each, name, block)]
        return [*found, *(each for each in self._inlined(block) if name in each.bound)]

    def _has(self, kernel: ScannedBlock, name: str, by: ScannedBlock | None = None) -> bool:
        """Whether a name is of the kernel, or one that its schedules set. A dispatch or an example `by` reads only what
        a launch knows."""
        if by is not None and by.kind != "schedule":
            return name in kernel.facts
        return name in kernel.bound or any(name in each.bound for each in self._schedules(kernel))

    def _launched(self, name: str, seen: frozenset[str] = frozenset()) -> list[ScannedBlock]:
        """Returns the kernels that a launch of a kernel or dispatch reaches, and dispatches on the way."""
        block = self.by_name.get(name)
        if block is None or name in seen:
            return []
        further = [each for other in block.launched for each in self._launched(other, seen | {name})]
        return [block, *further] if block.kind != "def" else []

    def _set_by(self, launched: str, name: str, seen: frozenset[str] = frozenset()) -> list[ScannedBlock]:
        """Returns the blocks whose name a launch sets by `with`: kernels, or the first dispatch that has the option."""
        block = self.by_name.get(launched)
        if block is None or launched in seen or block.kind == "def":
            return []
        if block.kind == "kernel" or name in block.bound:
            return [block] if self._has(block, name) else []
        return [each for other in block.launched for each in self._set_by(other, name, seen | {launched})]

    def kernels_of(self, block: ScannedBlock) -> list[ScannedBlock]:
        if block.kind == "schedule":
            named = [*block.kernels, *(k for each in self._including(block) for k in each.kernels)]
            return [self.by_name[each] for each in dict.fromkeys(named) if each in self.by_name]
        reached = [each for name in dict.fromkeys(block.launched) for each in self._launched(name)]
        return [each for each in reached if each.kind == "kernel"]

    def _inlined(self, schedule: ScannedBlock) -> list[ScannedBlock]:
        """Returns the functions that a schedule's kernels call. The schedule applies to their tiles and loops, too."""
        if schedule.kind != "schedule":
            return []
        found: list[ScannedBlock] = []
        waiting = [name for kernel in self.kernels_of(schedule) for name in kernel.called]
        while waiting:
            each = self.by_name.get(waiting.pop())
            if each is not None and each.kind == "def" and each not in found:
                found.append(each)
                waiting += each.called
        return found

    def _schedules(self, kernel: ScannedBlock) -> list[ScannedBlock]:
        own = [each for each in self.blocks if each.kind == "schedule" and kernel.name in each.kernels]
        return [*own, *self._included(own)]

    def _included(self, schedules: Iterable[ScannedBlock]) -> list[ScannedBlock]:
        found: list[ScannedBlock] = []
        waiting = [name for each in schedules for name in each.included]
        while waiting:
            name = waiting.pop()
            for each in self.blocks:
                if each.kind == "schedule" and each.name == name and each not in found:
                    found.append(each)
                    waiting += each.included
        return found

    def _including(self, schedule: ScannedBlock) -> list[ScannedBlock]:
        return [each for each in self.blocks if each.kind == "schedule" and schedule in self._included([each])]

    # ---- all places of a meaning ----

    def _neighbours(self, block: ScannedBlock, name: str) -> Iterator[ScannedBlock]:
        """Yields the blocks in which a local name of `block` goes on."""
        for other in self.blocks:
            for one, two in ((block, other), (other, block)):
                if other is not block and self._goes_on(one, two, name):
                    yield other
                    break

    def _goes_on(self, one: ScannedBlock, two: ScannedBlock, name: str) -> bool:
        if one.kind == "schedule" and two.kind == "kernel":
            return one.mentions(name) and two in self.kernels_of(one) and self._has(two, name)
        if one.kind == "schedule" and two.kind == "def":
            return one.mentions(name) and name in two.bound and two in self._inlined(one)
        if one.kind == two.kind == "schedule":
            return one.mentions(name) and two.mentions(name) and two in self._included([one])
        if one.kind == "dispatch" and two.name in one.by_name and name in two.head and name not in two.facts:
            return name in one.bound
        if one.kind in ("dispatch", "example") and two.kind == "kernel":
            reads = any(use.name == name and use.role == PLAIN for use in one.uses) and name not in one.bound
            return reads and name in two.facts and two in self.kernels_of(one)
        return two.kind == "def" and two.name in one.rest and name in two.head and one.mentions(name)

    def _component(self, owners: list[ScannedBlock], name: str) -> list[ScannedBlock]:
        found, waiting = [*owners], [*owners]
        while waiting:
            for each in self._neighbours(waiting.pop(), name):
                if each not in found:
                    found.append(each)
                    waiting.append(each)
        return found

    def places(self, meaning: Meaning) -> list[NameUse]:
        """Returns all places of the text that mean the same, in order."""
        found = []
        for block in self.blocks:
            for use in block.uses:
                if use.name == meaning.use.name and self._means(block, use, meaning):
                    found.append(use)
        return found

    def _means(self, block: ScannedBlock, use: NameUse, meaning: Meaning) -> bool:
        if meaning.kind == "schedule":
            return use.role == SCHEDULE
        if use.role in (SCHEDULE, MEMBER):
            return False
        owners = self._owners(block, use)
        if meaning.kind == "local":
            return any(each in meaning.blocks for each in owners)
        return use.role == PLAIN and not owners

    # ---- definitions ----

    def definition(self, meaning: Meaning) -> NameUse | Loc | None:
        """Returns where a name is defined: in this text, or in an imported one."""
        name = meaning.use.name
        if meaning.kind == "local":
            kinds = ("kernel", "def", "dispatch", "schedule", "example", "import")  # lines of no block follow an import
            for block in sorted(meaning.blocks, key=lambda each: kinds.index(each.kind)):
                found = next((use for use in block.uses if use.name == name and use.binds), None)
                if found is not None:
                    return found
            return None
        role = SCHEDULE if meaning.kind == "schedule" else PLAIN
        for block in self.blocks:
            for use in block.uses:
                if use.name == name and use.binds and use.role == role and use.of == HEAD:
                    return use
        return self._imported(name if not self._alias(meaning.use) else f"{meaning.use.of}.{name}")

    def _alias(self, use: NameUse) -> bool:
        return use.role in (MEMBER, SCHEDULE) and bool(use.of) and self._imported(f"{use.of}.{use.name}") is not None

    def _imported(self, name: str) -> Loc | None:
        """Returns the definition of a name in another file."""
        if self.program is None:
            return None
        groups = self.program.kernels, self.program.functions, self.program.dispatches, self.program.parts
        for group in groups:
            if name in group and group[name].loc.source is not self.program.source:
                return group[name].loc
        found = (each.loc for (_, schedule), each in self.program.schedules.items() if schedule == name)
        return next((loc for loc in found if loc.source is not self.program.source), None)

    # ---- renaming ----

    def renamed(self, offset: int, new: str) -> list[NameUse]:
        """Returns the places to replace. Raises CannotRename if the new text might mean something else."""
        meaning = self.meaning(offset)
        if meaning is None or meaning.kind == "other":
            raise CannotRename("only names that this file defines can be renamed")
        name = meaning.use.name
        if name in OF_THE_LANGUAGE:
            raise CannotRename(f"'{name}' is a name of the language")
        if not _NAME.fullmatch(new) or new in self._words():
            raise CannotRename(f"'{new}' cannot be a name")
        if any(use.name == new for block in self.blocks for use in block.uses):
            raise CannotRename(f"'{new}' is a name of this file already")
        defined = self.definition(meaning)
        if not isinstance(defined, NameUse):
            raise CannotRename(f"'{name}' is defined in another file")
        if (other := self._elsewhere(meaning)) is not None:
            raise CannotRename(f"'{name}' is a name of {other}, too")
        return self.places(meaning)

    @staticmethod
    def _words() -> frozenset[str]:
        known = words()
        return known.keywords | known.types | known.values | known.functions | known.operators | known.directives

    def _elsewhere(self, meaning: Meaning) -> str | None:
        """Returns the name of an imported file in which the name goes on, or None."""
        program, name = self.program, meaning.use.name
        if program is None or meaning.kind == "block":
            return None
        named = set()
        for block in meaning.blocks if meaning.kind == "local" else ():
            named |= {*block.included, *block.rest, *block.by_name}
            if name not in block.bound:
                named |= {*block.launched, *block.kernels}
            if block.kind == "kernel":
                named |= {each for own in self._schedules(block) for each in own.included}
                launching = (each for each in self.blocks if block in self.kernels_of(each))
                named |= {use.name for each in launching for use in each.uses if use.role == SCHEDULE}
        for group in (program.parts, program.functions, program.kernels):
            for member, each in group.items():
                source = each.loc.source
                is_named = member in named or member.rpartition(".")[2] in named
                if source is program.source or not is_named:
                    continue
                if re.search(rf"\b{re.escape(name)}\b", source.text):
                    return source.name
        return None
