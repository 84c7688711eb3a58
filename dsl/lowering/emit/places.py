"""Writes locations in `.tile` files as debug metadata of LLVM IR."""

from __future__ import annotations

from dsl.lowering.ir.function import Function, Op, walk
from dsl.lowering.ir.location import Loc, Source

MAX_COLUMN = 65535
"""The greatest column number, since LLVM stores columns in 16 bits."""


class DebugInfo:
    """Debug metadata that links PTX instructions to `.tile` lines.

    If `numbered` is true, the metadata contains operation numbers instead of lines. Operations are numbered from 1 in
    the order of `walk`, and the last number is for the start of the kernel. A line alone does not identify the
    operation or the calls through which it was inlined.
    """

    def __init__(self, function: Function, numbered: bool = False):
        self.numbers = {op: number for number, op in enumerate(walk(function.body), 1)} if numbered else None
        self.lines: list[str] = []
        self.files: dict[int, tuple[int, int]] = {}  # maps a source to its file and the scope of code inlined from it
        self.sources: list[Source] = []
        self.known: dict[tuple, int] = {}
        self.count = 0
        assert function.loc is not None
        # The unit is node 0, and its file is node 1.
        self.unit = self.add(
            "distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: DebugDirectivesOnly)"
        )
        self.own = function.loc.source
        file, _ = self.file_of(self.own)
        line = function.loc.line if self.numbers is None else len(self.numbers) + 1
        self.function_scope = self.subprogram(function.name, file, line)
        self.head = self.add(f"!DILocation(line: {line}, column: 1, scope: !{self.function_scope})")

    def add(self, text: str) -> int:
        number = self.count
        self.count += 1
        self.lines.append(f"!{number} = {text}")
        return number

    def subprogram(self, name: str, file: int, line: int) -> int:
        kind = self.add("!DISubroutineType(types: !{})")
        return self.add(
            f'distinct !DISubprogram(name: "{name}", file: !{file}, line: {line}, scopeLine: {line}, type: !{kind}, '
            f"spFlags: DISPFlagDefinition, unit: !{self.unit})"
        )

    def file_of(self, source: Source) -> tuple[int, int]:
        if id(source) not in self.files:
            name = source.name.replace("\\", "\\5C").replace('"', "\\22")
            file = self.add(f'!DIFile(filename: "{name}", directory: "")')
            scope = self.subprogram("inlined", file, 1)
            self.files[id(source)] = (file, scope)
            self.sources.append(source)  # keeps the source alive so that its id() stays unique
        return self.files[id(source)]

    def scope_in(self, source: Source) -> int:
        """Returns the scope of code of the kernel itself. A line of a schedule may be in another file."""
        if source is self.own:
            return self.function_scope
        if (id(source),) not in self.known:
            file, _ = self.file_of(source)
            text = f"distinct !DILexicalBlock(scope: !{self.function_scope}, file: !{file}, line: 1, column: 1)"
            self.known[(id(source),)] = self.add(text)
        return self.known[(id(source),)]

    def of(self, op: Op) -> int | None:
        """Returns the number of the metadata node for an operation's location. Returns None if the operation has no
        location."""
        if self.numbers is None:
            return None if op.loc is None else self.place(op.loc)
        number = self.numbers[op]
        if (number,) not in self.known:
            text = f"!DILocation(line: {number}, column: 1, scope: !{self.function_scope})"
            self.known[(number,)] = self.add(text)
        return self.known[(number,)]

    def place(self, loc: Loc) -> int:
        """Returns the number of the metadata node for a location. If the code was inlined, this node refers to the node
        for the location of the call."""
        starts = tuple([each.start for each in (loc, *loc.callers)])
        key = (id(loc.source), id(loc.caller.source) if loc.caller else 0, starts)
        known = self.known.get(key)
        if known is None:
            line, column = loc.source.position(loc.start)
            column = min(column, MAX_COLUMN)
            if loc.caller is None:
                text = f"!DILocation(line: {line}, column: {column}, scope: !{self.scope_in(loc.source)})"
            else:
                outer = self.place(loc.caller)
                scope = self.file_of(loc.source)[1]
                text = f"distinct !DILocation(line: {line}, column: {column}, scope: !{scope}, inlinedAt: !{outer})"
            known = self.known[key] = self.add(text)
        return known
