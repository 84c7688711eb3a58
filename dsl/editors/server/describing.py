"""What an editor shows about a name: its kind and definition, its type, layout and cost in the variants that examples
launch, and what `dsl explain` says about words of the language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dsl.editors.server.messages import KernelSeen
from dsl.editors.server.scan import MEMBER, NameUse, ScannedBlock, pieces_of
from dsl.editors.server.symbols import Meaning, Symbols
from dsl.lowering.ir.location import Loc

Explained = Mapping[str, Mapping[str, str]]
_DOTTED = re.compile(r"\.?[A-Za-z_][\w.]*")
MOST_ROWS = 6
"""Of the tiles of one name: a name may have another type in each branch."""


def word_at(text: str, offset: int, known: Explained) -> tuple[int, int, str] | None:
    """Returns the word of the language at an offset: where it starts and ends, and its name in the table. A function's
    name may have dots, as `ex2.approx.ftz`, and a method begins with one."""
    begin = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    for found in _DOTTED.finditer(text, begin, len(text) if end < 0 else end):
        if not found.start() <= offset <= found.end():
            continue
        whole, start = found[0], found.start()
        if whole in known:
            return start, found.end(), whole
        # `v.to`: the method behind the last dot ahead of the offset, or the name itself.
        for part in re.finditer(r"\w+", whole):
            first, last = start + part.start(), start + part.end()
            if first <= offset <= last:
                method = f".{part[0]}"
                name = method if whole[part.start() - 1 : part.start()] == "." and method in known else part[0]
                return (first, last, name) if name in known else None
    return None


def explained(name: str, known: Explained) -> str:
    """Returns a row of `dsl explain` as Markdown."""
    said = known[name]
    lines = [f"**{name}**"]
    for label, text in said.items():
        if label in ("operation", "property", "line"):
            lines.append(f"```tile\n{text}\n```")
        elif text:
            lines.append(text if label in ("means", "does", "word", "meaning", "counts") else f"*{label}*: {text}")
    return "\n\n".join(lines)


def kernel_of(symbols: Symbols, offset: int) -> str | None:
    """Returns the kernel whose variants say something about the name at an offset."""
    meaning = symbols.meaning(offset)
    if meaning is None:
        return None
    if meaning.kind == "block":
        block = symbols.by_name.get(meaning.use.name)
        return block.name if block is not None and block.kind == "kernel" else None
    if meaning.kind == "schedule":
        schedules = [each for each in symbols.blocks if each.kind == "schedule" and each.name == meaning.use.name]
        return next((each.kernels[0] for each in schedules if each.kernels), None)
    own = symbols.block_at(offset)
    kernels = [each.name for each in meaning.blocks if each.kind == "kernel"]
    return own.name if own is not None and own.name in kernels else next(iter(kernels), None)


def described(symbols: Symbols, offset: int, known: Explained, seen: Sequence[KernelSeen]) -> str | None:
    """Returns what is known of the name at an offset as Markdown."""
    meaning = symbols.meaning(offset)
    if meaning is not None and (meaning.kind != "other" or meaning.use.role == MEMBER):
        said = [*_said(symbols, meaning, offset, seen)]
        if said:
            return "\n\n".join(said)
    word = word_at(symbols.text, offset, known)
    return None if word is None else explained(word[2], known)


def _said(symbols: Symbols, meaning: Meaning, offset: int, seen: Sequence[KernelSeen]) -> Iterator[str]:
    defined = symbols.definition(meaning)
    if isinstance(defined, Loc):
        yield f"```tile\n{head_of(defined.source.text, defined.start)}\n```"
        if comment := comment_above(defined.source.text, defined.start):
            yield comment
        yield f"of {defined.source.name}"
    elif defined is not None and meaning.kind in ("block", "schedule"):
        yield f"```tile\n{head_of(symbols.text, defined.start)}\n```"
        if comment := comment_above(symbols.text, defined.start):
            yield comment
    elif defined is not None:
        yield f"```tile\n{definition_line(symbols, defined)}\n```"
    name = meaning.use.name
    if meaning.kind == "local":
        yield from _of_variants(name, seen)
    else:
        for each in seen:
            if meaning.kind == "block" or f"schedule {name} of" in each.schedule:
                yield f"{each.title}: {', '.join(each.facts)}\n```tile\n{each.schedule}\n```"


def _of_variants(name: str, seen: Sequence[KernelSeen]) -> Iterator[str]:
    for each in seen:
        rows = dict.fromkeys(
            f"- `{value.type}`: {value.layout}" + (f"; {value.registers} registers a thread" if value.registers else "")
            for value in each.values
            if value.name == name or value.name == f"s{name}"
        )
        rows |= dict.fromkeys(
            f"- `{line}`" for line in re.findall(rf"^ +({re.escape(name)} = .*)", each.schedule, re.M)
        )
        if rows:
            yield "\n".join([f"{each.title}:", "", *[*rows][:MOST_ROWS]])


def head_of(text: str, offset: int) -> str:
    """Returns the first line of the block at an offset, up to its colon, which may be several lines below."""
    start = text.rfind("\n", 0, offset) + 1
    depth = 0
    for piece in pieces_of(text, start):
        depth += (piece.text in ("(", "[")) - (piece.text in (")", "]"))
        if not depth and piece.text == ":":
            return text[start : piece.end]
        if not depth and piece.kind == "newline":
            return text[start : piece.start].rstrip()
    return text[start:].rstrip()


def comment_above(text: str, offset: int) -> str:
    """Returns the comment that ends right above the line at an offset, as one paragraph."""
    lines = text[: text.rfind("\n", 0, offset) + 1].split("\n")[:-1]
    found: list[str] = []
    while lines and lines[-1].startswith("#"):
        found.insert(0, lines.pop().lstrip("# "))
    return " ".join(found)


def definition_line(symbols: Symbols, use: NameUse) -> str:
    """Returns the definition of a local name: its parameter with its type, or the line that binds it."""
    block = symbols.block_at(use.start)
    if (
        block is not None
        and use.start < block.start + len(head_of(symbols.text, block.start))
        and block.kind != "schedule"
    ):
        return f"{_parameter(symbols.text, use)}  # of {block.kind} {block.name}"
    start = symbols.text.rfind("\n", 0, use.start) + 1
    return symbols.text[start : symbols.text.find("\n", use.start) % (len(symbols.text) + 1)].strip()


def _parameter(text: str, use: NameUse) -> str:
    depth = 0
    for piece in pieces_of(text, use.start):
        if depth == 0 and piece.text in (",", ";", ")", "]"):
            return " ".join(text[use.start : piece.start].split())
        depth += (piece.text in ("(", "[")) - (piece.text in (")", "]"))
    return use.name


def block_title(block: ScannedBlock) -> str:
    of = f" of {', '.join(block.kernels)}" if block.kernels else ""
    return f"{block.name}{of}" if block.name else block.kind
