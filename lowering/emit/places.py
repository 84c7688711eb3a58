"""Places in `.tile` files, as metadata of LLVM IR."""

from __future__ import annotations

from lowering.ir import Function
from lowering.location import Loc, Source

MAX_COLUMN = 65535
"""LLVM keeps columns in 16 bits."""


class DebugInfo:
    """Metadata that carries `.tile` lines into PTX."""

    def __init__(self, function: Function):
        self.lines: list[str] = []
        self.files: dict[int, tuple[int, int]] = {}  # source → its file and the scope of code inlined from it
        self.sources: list[Source] = []
        self.known: dict[tuple, int] = {}
        self.count = 0
        assert function.loc is not None
        # The unit is node 0 and its file node 1.
        self.unit = self.add(
            "distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: DebugDirectivesOnly)"
        )
        file, _ = self.file_of(function.loc.source)
        self.function_scope = self.subprogram(function.name, file, function.loc.line)
        self.head = self.add(f"!DILocation(line: {function.loc.line}, column: 1, scope: !{self.function_scope})")

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
            self.sources.append(source)  # keeps id() unique
        return self.files[id(source)]

    def place(self, loc: Loc) -> int:
        """The number of the metadata node of a place; an inlined one hangs below its caller."""
        key = (id(loc.source), loc.start, id(loc.caller.source) if loc.caller else 0, _chain(loc.caller))
        known = self.known.get(key)
        if known is None:
            line, column = loc.source.position(loc.start)
            column = min(column, MAX_COLUMN)
            if loc.caller is None:
                text = f"!DILocation(line: {line}, column: {column}, scope: !{self.function_scope})"
            else:
                outer = self.place(loc.caller)
                scope = self.file_of(loc.source)[1]
                text = f"!DILocation(line: {line}, column: {column}, scope: !{scope}, inlinedAt: !{outer})"
                text = "distinct " + text
            known = self.known[key] = self.add(text)
        return known


def _chain(loc: Loc | None) -> tuple:
    out = []
    while loc is not None:
        out.append(loc.start)
        loc = loc.caller
    return tuple(out)
