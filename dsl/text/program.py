"""Loads a `.tile` file as a program: the kernels, functions, schedules, dispatches and examples of the file and its
imports."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import lru_cache
from os.path import normpath
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.lowering.ir.choices import is_key
from dsl.lowering.ir.location import Errors, Loc, Source, TileError, closest
from dsl.lowering.ir.plugins import Plugins, current
from dsl.lowering.text.level import is_ir
from dsl.text import tree as ast
from dsl.text.branches import expand
from dsl.text.elsewhere import instead_of
from dsl.text.files import is_file, read_text, resolved
from dsl.text.heads import KernelHead, head_of
from dsl.text.modules import qualified
from dsl.text.syntax import Read, parse, read
from dsl.text.tree import names_in

Found = TypeVar("Found")
ScheduleLine = ast.Assign | ast.Tune | ast.LayoutLine | ast.Property | ast.Contract


class ImportedFile(Struct, frozen=True):
    """A file that a program imports, apart from the compiler's own files. `asked` is its path as the import names it,
    and `path` is the same without symbolic links."""

    asked: Path
    path: Path
    text: str


class Program(Struct, eq=False):
    """The blocks of a file and of its imports, by name. `path` is None for a text that is not from a file. `plugins`
    are the plug-ins with which the program is compiled.

    A part is a schedule without a kernel, which other schedules include with `like`."""

    source: Source
    path: Path | None = None
    kernels: dict[str, ast.KernelDef] = field(default_factory=dict)
    functions: dict[str, ast.Def] = field(default_factory=dict)
    schedules: dict[tuple[str, str], ast.Schedule] = field(default_factory=dict)  # (kernel, schedule)
    parts: dict[str, ast.Schedule] = field(default_factory=dict)  # schedules of no kernel
    dispatches: dict[str, ast.Dispatch] = field(default_factory=dict)
    examples: list[ast.Example] = field(default_factory=list)
    plugins: Plugins = field(default_factory=current)
    found: dict[Any, Any] = field(default_factory=dict)  # the results that `once` caches
    broken: set[str] = field(default_factory=set)  # names of blocks that do not parse
    imported: list[ImportedFile] = field(default_factory=list)

    def once(self, what: Callable[..., Found], *names: Hashable) -> Found:
        """Returns `what(self, *names)`. The result is computed at the first call, and then cached. It must depend only
        on `names` and on the program's text, which does not change."""
        key = (what, *names)
        if key not in self.found:
            self.found[key] = what(self, *names)
        return self.found[key]

    def head(self, kernel: str) -> KernelHead:
        """Returns the signature of a kernel."""
        return self.once(_head, kernel)

    def schedules_of(self, kernel: str) -> dict[str, ast.Schedule]:
        """Returns the schedules of a kernel, keyed by name, in the order of the file."""
        return {name: s for (of, name), s in self.schedules.items() if of == kernel}

    def function(self, name: str) -> ast.Def | None:
        """Returns the file's function `name`, or else the library's function of that name. Returns None if neither
        exists. The value of a kernel's constant may be the name of such a function."""
        return self.functions.get(name) or library_functions(name).get(name)

    def schedule(self, kernel: str, name: str, loc: Loc | None = None) -> ast.Schedule:
        """Returns the schedule `name` of a kernel. Raises TileError at `loc` if the kernel has no such schedule."""
        if (kernel, name) in self.schedules:
            return self.schedules[kernel, name]
        known = self.schedules_of(kernel)
        hint = closest(name, [*known, *self.parts]) or (f"known: {', '.join(known)}" if known else None)
        if name in self.parts:
            hint = f"'{name}' is a part: name it at a launch of '{kernel}', as in: {kernel} with {name}"
        raise TileError("name", loc, f"kernel '{kernel}' has no schedule '{name}'", hint)

    def like(self, line: ast.Property, kernel: str | None) -> tuple[ast.Schedule, str | None]:
        """Resolves `SCHEDULE` or `KERNEL.SCHEDULE` of a line `like` to a schedule and that schedule's kernel.
        The line is in a schedule of `kernel`, or in a part if `kernel` is None. Raises TileError if no such schedule
        exists."""
        if line.subject:
            raise TileError("schedule", line.loc, "'like' takes schedules", "like SCHEDULE, or like KERNEL.SCHEDULE")
        match line.values:
            case [ast.Name(id=name)]:
                if kernel is not None and (kernel, name) in self.schedules:
                    return self.schedules[kernel, name], kernel
                if name in self.parts:
                    return self.parts[name], None
            case [ast.Attribute(value=ast.Name(id=other), name=name)]:
                if (other, name) in self.schedules:
                    return self.schedules[other, name], other
        known = [name if of == kernel else f"{of}.{name}" for of, name in self.schedules] + [*self.parts]
        hint = f"known: {', '.join(known)}" if known else None
        raise TileError("name", line.loc, "there is no such schedule", hint)

    def family(self, kernel: str | None, schedule: ast.Schedule) -> list[ast.Schedule]:
        """Returns a schedule of `kernel`, and all schedules that it includes with `like`, directly or indirectly.
        `kernel` is None if the schedule is a part."""
        found = [(schedule, kernel)]
        # The loop appends to the list that it iterates over: each schedule adds the schedules that it includes.
        for member, of in found:
            for line in member.lines:
                if isinstance(line, ast.Property) and line.name == "like":
                    try:
                        other = self.like(line, of)
                    except TileError:  # The evaluation of the line reports this error.
                        continue
                    # Each schedule is added only once, so a cycle of `like` lines ends here. The evaluation of these
                    # lines reports the cycle.
                    if not any(other[0] is known for known, _ in found):
                        found.append(other)
        return [member for member, _ in found]

    def family_of(self, kernel: str) -> list[ast.Schedule]:
        """Returns the schedules of a kernel, and all schedules that they include with `like`."""
        found = [each for schedule in self.schedules_of(kernel).values() for each in self.family(kernel, schedule)]
        return list({id(schedule): schedule for schedule in found}.values())

    def read_by_schedules(self, kernel: str) -> set[str]:
        """Returns the names that expressions in the schedules of a kernel read."""
        lines = (line for schedule in self.family_of(kernel) for line in schedule.lines)
        return set().union(*(names_in(node) for line in lines for node in _expressions(line)))

    def sources(self) -> list[Source]:
        """Returns the source files of the program's blocks. The program's own file comes first."""
        groups = (self.kernels, self.functions, self.schedules, self.parts, self.dispatches)
        blocks: list[ast.KernelDef | ast.Def | ast.Schedule | ast.Dispatch] = [b for g in groups for b in g.values()]
        return list({source.name: source for source in (self.source, *(block.loc.source for block in blocks))}.values())

    def digest(self) -> str:
        """Returns the hexadecimal SHA-256 digest of the texts of all source files."""
        texts = "\0".join(source.text for source in self.sources())
        return hashlib.sha256(texts.encode()).hexdigest()

    def settable(self, kernel: str) -> frozenset[str]:
        """Returns the names that a caller may set for a kernel: its constants, the names that its schedules set or
        tune, and `warps`."""
        return self.once(_settable, kernel)

    def check_constant(self, kernel: str, name: str, loc: Loc | None) -> None:
        """Raises TileError `name` if a launch of the kernel cannot set the constant `name`."""
        known = self.settable(kernel) | self.head(kernel).types.keys()
        if name not in known:
            message = f"kernel '{kernel}' has no constant '{name}'"
            raise TileError("name", loc, message, closest(name, known) or f"known: {', '.join(sorted(known))}")

    def kernel(self, name: str) -> ast.KernelDef:
        if name in self.dispatches:
            message = f"'{name}' is a dispatch, which chooses among kernels; name one of them"
            raise TileError("name", None, message, "known: " + ", ".join(self.kernels))
        if name not in self.kernels:
            hint = closest(name, self.kernels) or "known: " + (", ".join(self.kernels) or "none")
            raise TileError("name", None, f"{self.source.name} has no kernel '{name}'", hint)
        return self.kernels[name]


def _head(program: Program, kernel: str) -> KernelHead:
    return head_of(program.kernels[kernel])


def _settable(program: Program, kernel: str) -> frozenset[str]:
    names = {c.name for c in program.kernels[kernel].constants if c.types is None} | {"warps"}
    for schedule in program.family_of(kernel):
        for line in schedule.lines:
            if isinstance(line, ast.Tune):
                names.add(line.name)
            elif isinstance(line, ast.Property) and line.name == "choose":
                names |= {ast.choice_key(key) for key in line.subject}
            elif isinstance(line, ast.Assign):
                names |= {t.id for t in line.targets if isinstance(t, ast.Name)}
    return frozenset(names)


def tiles_of(program: Program, name: str) -> list[tuple[str, ast.Expr, bool]]:
    """Returns the dims that a kernel splits into tiles, by `cdiv(dim, TILE)` or `range(0, dim, TILE)`. With each dim,
    returns the expression TILE, and whether it is the step of a loop."""
    calls = [node for node in ast.walk(program.kernels[name].body) if isinstance(node, ast.Call)]
    found = [(getattr(call.function, "id", ""), call.args[-2:]) for call in calls if len(call.args) > 1]
    tiles = [(dim, tile, by == "range") for by, (dim, tile) in found if by in ("cdiv", "range")]
    return [(dim.id, tile, is_step) for dim, tile, is_step in tiles if isinstance(dim, ast.Name)]


OURS = "dsl_"
"""The prefix of names that the compiler itself makes in a kernel's PTX."""
RESERVED = frozenset({"vprintf", "WARP_SZ", "_"})
"""Names that a kernel cannot have in PTX. `vprintf` is PTX's print function, `WARP_SZ` is a PTX constant, and `_` is no
PTX identifier. Other PTX words, such as `add` and `shared`, are allowed."""


def dim_names(kernel: ast.KernelDef, absent: Collection[str] = ()) -> list[str]:
    """Returns the dims of a kernel's tensors, in the order of their first use. The tensors in `absent` are ignored."""
    constants = {c.name for c in kernel.constants}
    tensors = [p.type for p in kernel.params if isinstance(p.type, ast.TensorAnnotation) and p.name not in absent]
    named = (d.id for t in tensors for d in t.dims if isinstance(d, ast.Name))
    return list(dict.fromkeys(name for name in named if name not in constants))


def load(
    path: str | Path,
    name: str | None = None,
    plugins: Plugins | None = None,
    texts: Mapping[Path, str] | None = None,
) -> Program:
    """Reads the program in a file. Raises TileError of code 'file' if the file cannot be read. `plugins` replace the
    plug-ins of the command line. `texts` are those of files that were read before, by their paths without symbolic
    links: they are not read again."""
    path, texts = Path(path), texts or {}
    known = texts.get(resolved(path)) if texts else None
    text = read_text(path) if known is None else known
    # The text of an IR would give a syntax error in its first line, which would not help the user.
    if is_ir(text):
        message = f"{path} is a kernel's IR; this takes the program that it was made of"
        raise TileError("file", None, message, f"dsl run FILE.tile --from {path}")
    program = parse_program(text, name or str(path), resolved(path).parent, texts)
    program.path = path
    program.plugins = program.plugins if plugins is None else plugins
    return program


def parse_program(
    text: str, name: str = "<text>", folder: Path | None = None, texts: Mapping[Path, str] | None = None
) -> Program:
    """Parses a text to a program. `import` reads files relative to `folder`. If `folder` is None, `import` is an
    error. `texts` is as in `load`."""
    program, errors = examine_program(text, name, folder, texts)
    if errors:
        raise Errors(errors)
    return program


def examine_program(
    text: str, name: str, folder: Path | None, texts: Mapping[Path, str] | None = None
) -> tuple[Program, list[TileError]]:
    """Returns a program with the blocks that parse, and all errors: syntax errors and wrong references between blocks.
    Raises TileError if too little of the text parses to check references. `texts` is as in `load`."""
    found = read(text, name)
    if found.broken is None:
        raise Errors(found.errors)
    program, errors = Program(found.file.source), list(found.errors)
    program.broken |= found.broken
    reading = FilesSoFar(errors, dict(texts or {}))
    _add(program, found.file, folder, folder, reading, [name], top=True)
    _check_references(program, errors)
    return program, [error for error in errors if not follows(program, error)]


def follows(program: Program, error: TileError) -> bool:
    """Whether an error only follows from a syntax error: a block with a syntax error may define the unknown name that
    the error reports."""
    named = re.findall(r"'([\w.]+)'", error.message)
    return error.code in ("name", "call", "constant") and not program.broken.isdisjoint(named)


class FilesSoFar(Struct):
    """What the files of a program have in common while they are read: the errors so far, and texts that are known
    already, by path."""

    errors: list[TileError]
    texts: dict[Path, str]


def _add(
    program: Program,
    file: ast.File,
    folder: Path | None,
    root: Path | None,
    reading: FilesSoFar,
    chain: list[str],
    top: bool,
    inside: tuple[str, ...] = (),
) -> None:
    errors, modules = reading.errors, dict[str, dict[str, Any]]()
    imports = [block for block in file.blocks if isinstance(block, ast.Import)]
    # Imports are handled first, wherever they are in the file. A block may use a name that a later line imports.
    for block in [*imports, *(block for block in file.blocks if not isinstance(block, ast.Import))]:
        try:
            if isinstance(block, ast.Import):
                members = _import(program, block, folder, root, reading, chain, inside)
                if block.alias is not None:
                    if block.alias in modules:
                        raise TileError("import", block.loc, f"'{block.alias}' names two files")
                    modules[block.alias] = members
                continue
            if modules:
                found = len(errors)
                block = qualified(block, {}, modules, errors)
                if isinstance(block, ast.Schedule) and len(errors) > found:
                    continue
            if isinstance(block, ast.Example):
                # Examples of imported files are ignored, since they may need data or take long.
                if top:
                    program.examples.append(block)
            elif isinstance(block, ast.Schedule):
                for kernel in block.kernels:
                    _put(program.schedules, (kernel, block.name), block, f"schedule '{block.name}' of '{kernel}'")
                if not block.kernels:
                    _put(program.parts, block.name, block, f"schedule '{block.name}'")
            else:
                _define(program, block)
        except TileError as error:
            errors += error.errors


def _define(program: Program, block: ast.KernelDef | ast.Def | ast.Dispatch) -> None:
    if isinstance(block, ast.KernelDef) and (block.name in RESERVED or block.name.startswith(OURS)):
        raise TileError("name", block.loc, f"a kernel cannot be called '{block.name}': PTX has that name already")
    kinds: dict[type, dict[str, Any]] = {
        ast.KernelDef: program.kernels,
        ast.Def: program.functions,
        ast.Dispatch: program.dispatches,
    }
    # A call may name any of these blocks, so they share one namespace.
    known = next((kind for kind in kinds.values() if block.name in kind), kinds[type(block)])
    _put(known, block.name, block, f"'{block.name}'")


def _put(known: dict[Any, Any], key: Any, block: Any, what: str) -> None:
    """Adds a block to the dictionary `known`. Raises TileError `name` if the key exists already."""
    if key in known:
        raise TileError("name", block.loc, f"{what} is defined twice", f"first at {known[key].loc}")
    known[key] = block


def _import(
    program: Program,
    block: ast.Import,
    folder: Path | None,
    root: Path | None,
    reading: FilesSoFar,
    chain: list[str],
    inside: tuple[str, ...],
) -> dict[str, Any]:
    """Adds the blocks of an imported file to the program. In a file imported as `rows`, functions, choices and
    schedules without a kernel get qualified names such as `rows.body`. These members are returned, keyed by their plain
    names."""
    is_packaged = block.path.startswith(f"{STD.name}/")
    if is_packaged:
        folder, root = STD.parent, STD
    if folder is None or root is None:
        raise TileError("import", block.loc, "a text without a file imports nothing")
    try:
        path = resolved(folder / block.path)
    except TileError as error:
        raise TileError("import", block.loc, error.message) from None
    of_what = "library" if is_packaged else "file"
    if not path.is_relative_to(root):  # An untrusted file must not read the user's other files.
        raise TileError("import", block.loc, f'"{block.path}" is outside the folder of the {of_what}')
    if str(path) in inside:
        raise TileError("import", block.loc, f'"{block.path}" imports itself')
    if block.alias is None and str(path) in chain:  # The file was already imported, so its blocks are already defined.
        return {}
    beside = Path(block.loc.source.name).parent
    name = block.path if is_packaged else normpath(beside / block.path)  # Messages show this path to the user.
    text = _imported_text(block, path, folder, is_packaged, reading)
    if not is_packaged:
        program.imported.append(ImportedFile(folder / block.path, path, text))
    found = _read_once(text, name)
    file = _own_copy(found.file)
    reading.errors += found.errors
    program.broken |= found.broken or set()
    if block.alias is None:
        chain.append(str(path))
        _add(program, file, path.parent, root, reading, chain, False, inside)
        return {}
    module = Program(file.source, imported=program.imported)
    _add(module, file, path.parent, root, reading, [str(path)], False, (*inside, str(path)))
    members: dict[str, Any] = {**module.functions, **module.parts}
    names = {each: f"{block.alias}.{each}" for each in members}
    for kind in ("functions", "parts"):
        for each, node in getattr(module, kind).items():
            made = qualified(node, names, {}, reading.errors)
            made.name = names[each]
            getattr(program, kind)[made.name] = made
    return members


@lru_cache(maxsize=32)
def _read_once(text: str, name: str) -> Read:
    """Parses an imported file, once in a process: the compiler's own files take most of the time of parsing a sample.
    While somebody edits a file, those that it imports stay as they are."""
    return read(text, name)


def _own_copy(file: ast.File) -> ast.File:
    """Returns a file whose dispatches are nodes of their own. A program changes no other nodes (`expand`)."""
    return ast.File(file.source, [replace(b) if isinstance(b, ast.Dispatch) else b for b in file.blocks])


def _imported_text(block: ast.Import, path: Path, folder: Path, is_packaged: bool, reading: FilesSoFar) -> str:
    """Returns the text of an imported file. Raises TileError at the import if there is no such file."""
    if path in reading.texts:
        return reading.texts[path]
    if not is_file(path):
        near = packaged_files() if is_packaged else [p.name for p in folder.glob("*.tile")]
        hint = closest(block.path, near) or (f"the compiler's own: {', '.join(near)}" if is_packaged else None)
        raise TileError("import", block.loc, f'there is no file "{block.path}"', hint)
    try:
        return read_text(path)
    except TileError as error:
        raise TileError(error.code, block.loc, error.message) from None


def _check_references(program: Program, errors: list[TileError]) -> None:
    """Expands the dispatches. Adds errors to `errors`: for schedules and launches of unknown kernels, for names that a
    schedule sets but nothing reads, and for branches that cannot be expanded."""
    for (kernel, _), schedule in program.schedules.items():
        if kernel not in program.kernels:
            message = f"schedule '{schedule.name}' is of an unknown kernel '{kernel}'"
            errors.append(TileError("name", schedule.loc, message, closest(kernel, program.kernels)))
    _give_parts(program)
    errors += _unread(program)
    errors += expand(program)
    known = program.kernels.keys() | program.dispatches.keys()
    launches = [launch for dispatch in program.dispatches.values() for launch in dispatch.launches]
    launches += [line for example in program.examples for line in example.lines if isinstance(line, ast.Launch)]
    for launch in launches:
        if launch.name not in known:
            message = f"unknown kernel or dispatch '{launch.name}'"
            errors.append(TileError("name", launch.loc, message, closest(launch.name, known)))


def _give_parts(program: Program) -> None:
    """Makes each part that a launch or `fits` names with a kernel a schedule of this kernel, unless the kernel has a
    schedule of this name."""
    lines = [[dispatch.lines for dispatch in program.dispatches.values()], [each.lines for each in program.examples]]
    named: list[tuple[str, str]] = []
    for node in ast.walk(lines):
        if isinstance(node, ast.Launch):
            named += [(node.name, item.name) for item in reversed(node.items) if item.value is None]
        elif isinstance(node, ast.WithSchedule) and isinstance(node.kernel, ast.Name):
            named.append((node.kernel.id, node.schedule))
    # The tree is walked backwards. The first schedule that the text names is the first of the kernel.
    for kernel, name in reversed(named):
        if kernel in program.kernels and name in program.parts and (kernel, name) not in program.schedules:
            program.schedules[kernel, name] = replace(program.parts[name], kernels=[kernel])


def _unread(program: Program) -> list[TileError]:
    """Returns an error for each name that a schedule sets, if neither its kernels nor their schedules read the name."""
    errors: list[TileError] = []
    # A schedule of several kernels has an entry for each of them.
    schedules = {id(each): each for each in (*program.schedules.values(), *program.parts.values())}
    read_by: dict[int, set[str]] = {}  # id of a schedule → the names that it reads
    users: dict[int, list[ast.KernelDef]] = {}  # id of a schedule → the kernels whose schedules include it
    for at, schedule in schedules.items():
        read_by[at] = set().union(*(names_in(n) for line in schedule.lines for n in _expressions(line)))
    read_of: dict[str, set[str]] = {}

    def set_of(kernels: list[ast.KernelDef]) -> set[str]:
        lines = [line for kernel in kernels for each in program.family_of(kernel.name) for line in each.lines]
        return {"warps"} | {target.id for line in lines for target in _set_by(line)}

    for kernel in program.kernels.values():
        family = program.family_of(kernel.name)
        defaults = (names_in(c.default) for c in kernel.constants if c.default is not None)
        read_of[kernel.name] = set().union(*defaults, *(read_by[id(schedule)] for schedule in family))
        for schedule in family:
            users.setdefault(id(schedule), []).append(kernel)
    for at, schedule in schedules.items():
        known = [program.kernels[k] for k in schedule.kernels if k in program.kernels]
        # A part that this file does not use may be meant for files that import this file.
        kernels = known if schedule.kernels else users.get(at, [])
        if not kernels or len(known) < len(schedule.kernels):
            continue
        constants = {c.name for kernel in kernels for c in kernel.constants} | {"warps"}
        read = constants.union(*(read_of[kernel.name] for kernel in kernels))
        for target in (target for line in schedule.lines for target in _set_by(line)):
            if not is_key(target.id) and target.id not in read:
                message = f"nothing reads '{target.id}': {_listed(kernels)} no such constant, and no line needs it"
                hint = instead_of(target.id) or closest(target.id, constants)
                if target.id == "cost":
                    hint = "a property has no '=': 'cost gpu_launch_time'"
                # Parts of other files may set names for other kernels, but no name like one that nothing sets.
                if schedule.loc.source is program.source or closest(target.id, constants - set_of(kernels)):
                    errors.append(TileError("name", target.loc, message, hint))
    return errors


def _listed(kernels: list[ast.KernelDef]) -> str:
    names = " and ".join(f"'{k.name}'" for k in kernels)
    return f"{names} {'has' if len(kernels) == 1 else 'have'}"


def _set_by(line: ScheduleLine) -> list[ast.Name]:
    if isinstance(line, ast.Assign):
        return [t for t in line.targets if isinstance(t, ast.Name)]
    return [ast.Name(line.loc, line.name)] if isinstance(line, ast.Tune) else []


def _expressions(line: ScheduleLine) -> list[ast.Expr]:
    if isinstance(line, ast.Assign):
        return [line.value]
    if isinstance(line, ast.Contract):
        return [line.bound]
    if isinstance(line, ast.LayoutLine):
        return list(line.parts.values())
    return [*line.values, *(line.subject if isinstance(line, ast.Property) else ())]


LIBRARY = Path(__file__).parents[1] / "library"
STD = Path(__file__).parents[1] / "std"
"""The folder of the files that come with the compiler and are imported with `import "std/…"`."""


def packaged_files() -> list[str]:
    """Returns the paths of the compiler's own files, as they are written in `import "std/…"`."""
    return sorted(path.relative_to(STD.parent).as_posix() for path in STD.rglob("*.tile"))


# The index uses only file names, since parsing the whole library to find one function would slow down every start.
@lru_cache(maxsize=1)
def _library_index() -> dict[str, str]:
    """Maps each library function to its file. A file's name lists its public functions, joined by '-'. The file's other
    functions are private."""
    return {name: path.name for path in LIBRARY.glob("*.tile") for name in path.stem.split("-")}


@lru_cache(maxsize=64)
def _library_file(name: str) -> dict[str, ast.Def]:
    path = LIBRARY / name
    file = parse(read_text(path), f"library/{name}")
    return {b.name: b for b in file.blocks if isinstance(b, ast.Def)}


def library_names() -> frozenset[str]:
    """Returns the names of the library functions, which are written in the language itself."""
    return frozenset(_library_index())


def library_functions(name: str) -> dict[str, ast.Def]:
    """Returns all functions of the library file that defines `name`. The result is empty if no library file defines
    it."""
    file = _library_index().get(name)
    return {} if file is None else _library_file(file)


def reached_kernels(program: Program, example: ast.Example | None) -> list[ast.KernelDef]:
    """Returns the kernels that an example's launches may run. If `example` is None, returns all kernels of the
    program."""
    if example is None:
        return list(program.kernels.values())
    launches = [line for line in example.lines if isinstance(line, ast.Launch)]
    names = dict.fromkeys(name for launch in launches for name in launched_kernels(program, launch.name))
    return [program.kernels[name] for name in names]


def launched_kernels(program: Program, name: str) -> list[str]:
    """Returns the names of the kernels that a launch of `name` may run. `name` is a kernel or a dispatch."""
    if name in program.kernels:
        return [name]
    launches = program.dispatches[name].launches if name in program.dispatches else []
    return [launch.name for launch in launches if launch.name in program.kernels]


def type_parameters(kernels: Iterable[ast.KernelDef]) -> dict[str, list[str]]:
    """Maps the type parameters of the kernels to their alternatives. If several kernels declare a type parameter, the
    first kernel's alternatives are used."""
    found: dict[str, list[str]] = {}
    for kernel in kernels:
        for constant in kernel.constants:
            if constant.types is not None:
                found.setdefault(constant.name, constant.types)
    return found
