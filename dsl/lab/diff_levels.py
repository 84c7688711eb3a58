"""The texts of a kernel at all levels, and the first level at which two kernels differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from dsl.kernels.compile import Compiled, levels_of
from dsl.kernels.levels import tree
from dsl.kernels.plain_rows import ptx_lines
from dsl.kernels.variant import Request
from dsl.lab.diff_text import difference, numbered_row, plain_instruction, rows_of
from dsl.lowering.text.printer import PrintedNames, printed
from dsl.text.program import Program

CODE_LEVELS = ("ast", "llvm", "ptx", "sass")
"""The levels that are not the IR after a pass."""


class KernelTexts(Struct):
    """The texts of a kernel by level, in order: `ast`, `build`, the passes, `llvm`, `ptx`, `sass`.

    `entry` is the kernel's name in the PTX. `missing` lists the reasons why levels are missing.
    """

    texts: dict[str, str]
    entry: str | None = None
    missing: list[str] = field(default_factory=list)


def kernel_texts(program: Program, request: Request, compiled: Compiled) -> KernelTexts:
    """The texts of a compiled variant at all levels."""
    texts = {"ast": tree(program.kernels[request.kernel])}
    # Values keep their printed names from level to level, so that only real changes are shown.
    names = PrintedNames()
    for name, _, level in levels_of(program, request):
        texts[name] = printed(level, names)
    made = code_texts(compiled.ptx, compiled.header, compiled.header.entry)
    return KernelTexts(texts | {"llvm": compiled.llvm} | made.texts, made.entry, made.missing)


def code_texts(ptx: str, header: Any, entry: str, arch: str | None = None) -> KernelTexts:
    """The PTX and the machine code. The first row of the PTX text contains the launch parameters.

    For PTX of another compiler, `header` is None and `arch` is the target.
    """
    first, cap = ("", None) if header is None else (launch_row(header), header.maxnreg)
    code, why = machine_text(ptx, arch or header.arch, entry, cap)
    texts = {"ptx": first + ptx} | ({} if code is None else {"sass": code})
    return KernelTexts(texts, entry, [] if why is None else [f"no sass: {why}"])


@lru_cache(maxsize=16)
def machine_text(ptx: str, arch: str, entry: str, maxnreg: int | None) -> tuple[str | None, str | None]:
    """Returns (machine code, error), of which one is None. Each row has a source line and an instruction without
    register numbers.

    Results are cached, because the two sides often have the same text.
    """
    from dsl.runtime.errors import DeviceError, LaunchError
    from dsl.runtime.machine_code import listing
    from dsl.runtime.tools import assemble

    try:
        listed = listing(assemble(ptx, arch, entry, maxnreg).cubin, entry)
    except (DeviceError, LaunchError) as error:
        return None, str(error).splitlines()[0]
    lines = [line for _, line in ptx_lines(ptx)]
    rows = [(plain_instruction(each.text), each.ptx_line) for each in listed]
    return "\n".join(numbered_row(text, lines[at - 1] if at else None) for text, at in rows), None


def launch_row(header: Any) -> str:
    """A row of text with the launch parameters: grid, threads, shared memory, cluster, register limit."""
    figures = {"threads": header.threads, "shared bytes": header.shared_bytes, "cluster": header.cluster}
    figures |= {} if header.maxnreg is None else {"registers at most": header.maxnreg}
    grid = " x ".join(map(said_tree, header.grid))
    return f"launch: grid {grid}, {', '.join(f'{name} {value}' for name, value in figures.items())}\n"


def said_tree(tree: Any) -> str:
    """Writes an expression of a header as text, such as `cdiv(m, TM)`."""
    return f"{tree[0]}({', '.join(map(said_tree, tree[1:]))})" if isinstance(tree, list | tuple) else str(tree)


def kind_of(level: str) -> str:
    return level if level in CODE_LEVELS else "ir"


def compared_levels(a: KernelTexts, b: KernelTexts, context: int) -> dict[str, Any]:
    """Compares the levels that both kernels have, in order, and names the first level that differs.

    If a side skips a pass, the IR of this side from before the pass is compared. `only` maps each level that just one
    side has to the side's letter. `missing` lists the reasons why levels are missing.
    """
    order = merged([*a.texts], [*b.texts])
    texts = [carried(each.texts, order) for each in (a, b)]
    # All levels share the names of layouts, so a changed layout shows once, at the pass that changed it.
    layouts: dict[str, str] = {}
    levels = []
    for level in (each for each in order if each in texts[0] and each in texts[1]):
        kind = kind_of(level)
        mine, others = (rows_of(kind, t[level], layouts, k.entry) for t, k in zip(texts, (a, b), strict=True))
        levels.append(difference(level, kind, mine, others, context))
    first = next((each["level"] for each in levels if each["hunks"]), None)
    only = {level: "A" if level in texts[0] else "B" for level in order if (level in texts[0]) != (level in texts[1])}
    missing = [*dict.fromkeys([*a.missing, *b.missing])]
    return {"first_difference": first, "levels": levels, "only": only, "missing": missing}


def merged(a: Sequence[str], b: Sequence[str]) -> list[str]:
    """Merges two lists of names: `[x, z]` and `[x, y, z]` become `[x, y, z]`. The order agrees with both lists if
    possible."""
    out: list[str] = []
    rest = list(b)
    for name in a:
        if name in rest:
            at = rest.index(name)
            out += [each for each in rest[:at] if each not in a]
            rest = rest[at + 1 :]
        out.append(name)
    return out + [each for each in rest if each not in a]


def carried(texts: dict[str, str], order: Sequence[str]) -> dict[str, str]:
    """The texts by level, where a skipped pass has the same IR as the level before it."""
    out: dict[str, str] = {}
    last: str | None = None
    for level in order:
        if kind_of(level) == "ir":
            last = texts.get(level, last)
            if last is not None:
                out[level] = last
        elif level in texts:
            out[level] = texts[level]
    return out
