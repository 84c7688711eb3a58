"""The pipeline for one variant: syntax → IR → passes → LLVM IR → PTX with its header."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.kernels.garbage import imports
from dsl.kernels.in_place import in_place_pairs
from dsl.kernels.variant import Request, Resolved, Variant, build_variant, record_access, resolve
from dsl.lowering.ir.budget import Budget
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.lowering.passes import Pass, blamed, check_complete, named, passes_of, run_passes
from dsl.lowering.text.level import Level
from dsl.schedules.rules import multiplies
from dsl.text.program import Program

if TYPE_CHECKING:
    from dsl.runtime.header import Header

LLVM_PREFIX = ";dsl "
BUILT = "build"
"""Stands for the IR before all passes, where the name of a pass is expected."""


class Compiled(Struct):
    """The compiled code of a variant. `body` is the PTX without its header. `seconds` maps steps of the compilation to
    times."""

    variant: Variant
    header: Header
    llvm: str
    body: str
    ptx: str
    generated: Generated
    seconds: dict[str, float]
    level: Level

    @property
    def ir(self) -> str:
        """The tile IR after all passes, as text that the IR reader can parse."""
        from dsl.lowering.text.printer import printed  # a compile prints nothing

        return printed(self.level)


class Lowered(Struct):
    """A variant after its passes, ready for the generation of LLVM IR. `passes` lists the names of the passes that ran,
    in order."""

    variant: Variant
    seconds: dict[str, float]
    passes: list[str] = field(default_factory=list)

    def level(self, program: Program) -> Level:
        """Returns the variant as a `Level`, which can be printed as text and parsed again."""
        v = self.variant
        parts = (v.schedule.name, v.constants, v.requires, self.passes)
        return Level(v.function, v.target, program.source, *parts)


def lower(
    program: Program,
    request: Request,
    passes: Sequence[Pass] | None = None,
    check: bool = False,
    budget: Budget | None = None,
    resolved: Resolved | None = None,
) -> Lowered:
    """Builds the variant and runs the passes. `passes` defaults to the program's passes. With `check`, the IR is
    verified after each pass. `budget` and `resolved` are as in `build_variant`. Raises TileError or Errors for mistakes
    in the file."""
    start = time.perf_counter()
    while True:
        variant = build_variant(program, request, budget, resolved)
        built = time.perf_counter()
        try:
            trace = run_passes(variant.function, variant.target, passes, check)
        except TileError as error:
            # A rule chooses an option before later passes look at the kernel. If a later pass refuses this option, the
            # user made no mistake. The kernel is then built again with another option. Each time, fewer options are
            # left, so the loop ends.
            retreats = variant.function.choices.retreat(error)
            # If the schedule itself names a pipeline depth that does not fit, this is a mistake of the user, even if
            # another depth would fit.
            is_named = error.code == "shared" and error.loc in variant.function.lines.values()
            if is_named or not retreats:
                raise
            request = replace(request, retreats={**request.retreats, **retreats})
            continue
        check_complete(variant.function)
        record_access(variant.function)
        seconds = {"build": built - start, **trace}
        return Lowered(variant, seconds, list(trace))


def settled(program: Program, request: Request) -> Request:
    """Returns the request with its field `retreats` set, which replaces the options that a pass refused. A caller that
    runs the passes one by one needs this, because only `lower` retries after a refusal."""
    if not program.once(multiplies, request.kernel):
        # Only matrix products, and schedule lines that stage or pipeline copies, lead to choices that a pass may
        # refuse.
        attrs = resolve(program, request).schedule.attrs
        if not {"stage", "pipeline"} & attrs.keys():
            return request
    return lower(program, request).variant.request


def compile_variant(program: Program, request: Request, **options: Any) -> Compiled:
    """Compiles one variant to PTX. `options` are those of `lower`, plus `llvm_level`, the optimization level of LLVM's
    code generation."""
    llvm_level = options.pop("llvm_level", None)
    return compile_lowered(program, lower(program, request, **options), llvm_level)


def compile_lowered(
    program: Program, lowered: Lowered, llvm_level: int | None = None, known: Mapping[str, str] | None = None
) -> Compiled:
    """Compiles a lowered variant to PTX. `known` maps digests of LLVM IR to its PTX without header, for the same
    target, so that LLVM need not compile it again."""
    level = lowered.level(program)
    made = generate(level, llvm_level, known)
    # The pairs of tensors that may share memory are proved here and not in `generate`, because the proof needs the
    # kernel's text. A level that was read from IR has no such text.
    pairs = in_place_pairs(program.kernel(lowered.variant.request.kernel), lowered.variant.function)
    made.header = replace(made.header, in_place=pairs)
    lowered.seconds |= made.seconds
    texts = (made.llvm, made.body, made.ptx)
    return Compiled(lowered.variant, made.header, *texts, made, lowered.seconds, level)


class Generated(Struct):
    """The code generated from a kernel's IR after all passes. `version` is the PTX version. `llvm_level` is the
    optimization level of LLVM's code generation."""

    header: Header
    llvm: str
    body: str
    seconds: dict[str, float]
    version: tuple[int, int]
    llvm_level: int

    @property
    def llvm_text(self) -> str:
        """The LLVM IR, after a comment line with the header. `ptx_of_llvm` compiles this text."""
        from dsl.runtime.header import to_json

        row = {"ptx": self.version, "level": self.llvm_level, "header": to_json(self.header)}
        return f"{LLVM_PREFIX}{json.dumps(row, allow_nan=False, separators=(',', ':'))}\n{self.llvm}"

    @property
    def ptx(self) -> str:
        from dsl.runtime.header import write

        return write(self.header) + self.body


def code_digest(llvm: str) -> str:
    """Returns a digest of LLVM IR, by which equal code is found, also that of other processes."""
    return hashlib.sha256(llvm.encode()).hexdigest()


def import_generator() -> None:
    """Imports what makes code of a kernel's IR: `dsl check` does without it. A compile calls this first, since the
    objects of a kernel that exists already would go to the oldest generation with those of the modules."""
    with imports():
        for name in ("kernels.launch_header", "lowering.emit.codegen", "runtime.launch"):
            import_module(f"dsl.{name}")


def generate(level: Level, llvm_level: int | None = None, known: Mapping[str, str] | None = None) -> Generated:
    """Generates LLVM IR, and from it PTX with its header. `known` is as in `compile_lowered`."""
    from dsl.kernels.launch_header import make_header
    from dsl.lowering.emit import emit
    from dsl.lowering.emit.codegen import llvm_level_for, to_ptx

    start = time.perf_counter()
    with blamed(level.function, passes_of(level.function.choices.plugins), "emission"):
        llvm, version = emit(level.function, level.target)
    emitted = time.perf_counter()
    # LLVM takes most of the time. Therefore LLVM runs only once for variants that differ only in their headers.
    body = known.get(code_digest(llvm)) if known else None
    llvm_level = llvm_level_for(level.function) if llvm_level is None else llvm_level
    if body is None:
        try:
            body = to_ptx(llvm, level.target, version, llvm_level)
        except RuntimeError as error:
            raise refused(level.function, llvm) or error from error
    seconds = {"emit": emitted - start, "llvm": time.perf_counter() - emitted}
    # Choices are checked after emission, because emission also makes choices.
    level.function.choices.check_met()
    with blamed(level.function, passes_of(level.function.choices.plugins), "the header"):
        header = make_header(level)
    return Generated(header, llvm, body, seconds, version, llvm_level)


def refused(function: Function, llvm: str) -> TileError | None:
    """Returns the error for LLVM IR that LLVM rejects, if an emission rule of a plug-in wrote some of it. Returns None
    if the compiler wrote all of it. Then the compiler has a bug."""
    from dsl.lowering.emit.codegen import wrong_in
    from dsl.lowering.emit.rules import OWN

    taken = [made for made in function.choices.made if made.kind == "rule" and made.taken != OWN]
    rules = function.choices.plugins.every("rule")
    mine = [each for each in rules if any(made.taken == each.label for made in taken)]
    wrong = wrong_in(llvm) if mine else None
    if wrong is None:
        return None
    line, _, message = wrong
    others = ", ".join(each.place for each in mine[1:])
    text = llvm.splitlines()[line - 1].strip().partition(", !dbg")[0]
    hint = f"or that of {others}" if others else "w.llvm(dtype) is the type of an element"
    return mine[0].wrong(f"writes what LLVM does not take: {message}: {text}", hint)


def ptx_of_llvm(text: str, name: str) -> str:
    """Compiles LLVM IR to PTX with its header. `text` is what `Generated.llvm_text` returned, and a user may have
    edited it. Raises TileError `ir` at the faulty place in `text`."""
    from dsl.lowering.emit.codegen import to_ptx, wrong_in
    from dsl.lowering.ir.targets import target
    from dsl.runtime.header import parse, write

    source = Source(name, text)
    first, _, body = text.partition("\n")
    try:
        row = json.loads(first.removeprefix(LLVM_PREFIX))
        (major, minor), llvm_level, header = row["ptx"], row["level"], parse(row["header"])
        assert {*map(type, (major, minor, llvm_level))} == {int} and 0 <= llvm_level <= 3
    except (ValueError, KeyError, TypeError, AssertionError):
        hint = "keep that of 'dsl compile --emit llvm'"
        raise TileError("ir", Loc(source, 0, len(first)), "this is no header of LLVM IR", hint) from None
    chosen = target(header.arch)
    wrong = wrong_in(text)
    if wrong is not None:
        line, column, message = wrong
        start = min(source.starts[min(line, len(source.starts)) - 1] + max(column - 1, 0), len(text))
        raise TileError("ir", Loc(source, start, start + 1), message)
    return write(header) + to_ptx(body, chosen, (major, minor), llvm_level)


def levels_of(program: Program, request: Request) -> Iterator[tuple[str, float, Level]]:
    """Yields (name of the pass, seconds, level) after building and after each pass. The yielded `level` is always the
    same object, which the next pass modifies."""
    start = time.perf_counter()
    level = Lowered(build_variant(program, settled(program, request)), {}).level(program)
    yield BUILT, time.perf_counter() - start, level
    for each in passes_of(program.plugins):
        start = time.perf_counter()
        if go_through(level, [each]):
            yield each.name, time.perf_counter() - start, level


def level_after(program: Program, request: Request, name: str) -> Level:
    """Returns a variant after the pass `name`, or before all passes if `name` is `build`. Raises TileError `call` if
    the pass does not run."""
    if name != BUILT:
        named([name], passes_of(program.plugins))
    for done, _, level in levels_of(program, request):
        if done == name:
            return level
    raise TileError("call", None, f"the pass '{name}' is left out: there is no IR behind it")


def go_through(level: Level, passes: Sequence[Pass]) -> bool:
    """Runs passes on the IR of `level`. Returns False if all of these passes are switched off."""
    run = run_passes(level.function, level.target, passes)
    level.passes += run
    return bool(run)


def finish(level: Level, llvm_level: int | None = None, choices: Mapping[str, str] | None = None) -> Generated:
    """Compiles tile IR that was read from text. `level.passes` lists the passes that have already run. Only later
    passes run, with the options in `choices`."""
    passes = passes_of(level.function.choices.plugins)
    last = max((i for i, each in enumerate(passes, 1) if each.name in level.passes), default=0)
    level.function.choices.force(choices or {}, "--choose")
    go_through(level, passes[last:])
    check_complete(level.function)
    record_access(level.function)
    return generate(level, llvm_level)
