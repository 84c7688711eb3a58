"""Where a program comes from. A pickled module, function or kernel holds this.

A pickled object holds no code. It holds the path of the `.tile` file (or the text of a module without a file), the
paths of plug-ins, and the options of `load`. The reader loads the file again, as Python does with a pickled
function, and compiles what it needs. Compiled variants, plans and workspaces are not copied."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from dsl.kernels.loaded import LoadedProgram, load_lazily, parse_lazily
from dsl.text.program import Program


class Origin(Struct, frozen=True):
    """Where a program comes from. `name` is that of the file in errors."""

    path: Path | None
    text: str
    name: str
    plugins: tuple[str, ...]

    def loaded(self) -> LoadedProgram:
        """Reads the program again. Raises TileError if the file is gone or no longer parses."""
        if self.path is None:
            return parse_lazily(self.text, self.name)
        return load_lazily(self.path, self.name, self.plugins)


def origin_of(program: Program) -> Origin:
    path = None if program.path is None else Path(program.path).absolute()
    return Origin(path, "" if path else program.source.text, program.source.name, program.plugins.files)
