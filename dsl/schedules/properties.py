"""The properties of schedules, each a row: what it is about, what it takes, what it does.

What a line means, its errors and hints, `dsl explain` and the table of docs/language.md come from the row. A row
without a `field` reaches `Function.attrs` under its own name, as the value, or as {subject: value}: a new property is
one row, and a line where a pass or the emission reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from textwrap import wrap
from typing import Any

from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.plugins import Added, Plugins
from dsl.lowering.ir.schedule import Named, Pin, SwizzlePin
from dsl.lowering.ir.targets import LEAST_REGISTERS, MOST_REGISTERS
from dsl.text import renamed
from dsl.text import tree as ast
from dsl.text.program import ELSEWHERE
from dsl.values.numbers import Numbers
from dsl.values.walk import WORDS


@dataclass(frozen=True, slots=True)
class Setting:
    """A property of one subject (None without), as written. caller: the `like` line that brought it. axis: of a value,
    behind its name. is_static: the word stands before the values."""

    row: PropertyRow
    subject: ast.Name | None
    values: list[ast.Expr]
    loc: Loc
    parts: dict[str, ast.Sequence] | None = None
    caller: Loc | None = None
    axis: ast.Expr | None = None
    is_static: bool = False

    def read(self, evaluate: Numbers) -> Any:
        return self.row.takes.read(self, evaluate)


class Takes:
    """What a property takes: `text` for people, `read` the value. count: how many expressions; None if `read` looks."""

    count: int | None = 1
    text: str = ""

    @property
    def behind(self) -> str:
        """What stands behind a subject."""
        return f": {self.text}"

    def read(self, setting: Setting, evaluate: Numbers) -> Any:
        raise NotImplementedError

    def said(self, value: Any) -> str:
        """The text that `read` makes a value of; none where naming the subject says it."""
        return str(value)

    def subject(self, name: str, value: Any) -> str:
        """What stands before the colon."""
        return name


@dataclass(frozen=True, slots=True)
class PropertyRow:
    """subject: what stands before the colon, None of a property of the whole kernel. example: a whole line. field: the
    field of `ResolvedSchedule` that it fills."""

    name: str
    subject: str | None
    takes: Takes
    doc: str
    example: str
    field: str = "attrs"

    @property
    def usage(self) -> str:
        """`unroll COUNTER: N`."""
        if self.subject is None:
            return f"{self.name} {self.takes.text}"
        return f"{self.name} {self.subject.upper()}{self.takes.behind}"

    def line(self, subject: str | None, value: Any) -> str:
        """The line of a schedule that says this value."""
        said = self.takes.said(value)
        if subject is None:
            return f"{self.name} {said}"
        return f"{self.name} {self.takes.subject(subject, value)}" + (f": {said}" if said else "")


class Word(Takes):
    """One of some words."""

    def __init__(self, *words: str):
        self.words, self.text = words, "|".join(words)

    def read(self, setting: Setting, evaluate: Numbers) -> str:
        (node,) = setting.values
        if not isinstance(node, ast.Name) or node.id not in self.words:
            near = closest(node.id, self.words) if isinstance(node, ast.Name) else None
            raise TileError("schedule", node.loc, f"{setting.row.name} is one of {', '.join(self.words)}", near)
        return node.id


class NameOf(Takes):
    """A name of the kernel."""

    def __init__(self, what: str):
        self.text = what

    def read(self, setting: Setting, evaluate: Numbers) -> str:
        (node,) = setting.values
        if not isinstance(node, ast.Name):
            raise TileError("schedule", node.loc, f"'{setting.row.name}' takes a name: {setting.row.usage}")
        return node.id


class Switch(Takes):
    """One of two words, or a condition that chooses the second: so that it can be tuned; or one of others. `where`
    chooses among all of these."""

    def __init__(self, off: str, on: str, *others: str):
        self.words, self.text = (off, on, *others), f"{'|'.join((off, on, *others))}|CONDITION"

    def read(self, setting: Setting, evaluate: Numbers) -> str:
        (node,) = setting.values
        while isinstance(node, ast.Call) and getattr(node.function, "id", "") == "where" and len(node.args) == 3:
            chosen = evaluate(node.args[0])
            if not isinstance(chosen, bool):
                break
            node = node.args[1 if chosen else 2]
        if isinstance(node, ast.Name) and node.id in self.words:
            return node.id
        try:
            value = evaluate(node)
        except TileError:
            if not isinstance(node, ast.Name) or node.id in WORDS:
                raise
            value = None
        if not isinstance(value, bool):
            word = node.id if isinstance(node, ast.Name) else ""
            near = renamed.new_option(setting.row.name, word) or closest(word, self.words)
            message = f"{setting.row.name} is one of {', '.join(self.words)}, true, false"
            raise TileError("schedule", node.loc, message, near)
        return self.words[value]


class Whole(Takes):
    """An integer of a range."""

    text = "N"

    def __init__(self, low: int, high: int | None = None):
        self.low, self.high = low, high

    def read(self, setting: Setting, evaluate: Numbers) -> int:
        (node,) = setting.values
        number = evaluate.integer(node, setting.row.name)
        if number < self.low or (self.high is not None and number > self.high):
            span = f"{self.low} or more" if self.high is None else f"from {self.low} to {self.high}"
            nearest = self.low if self.high is None or number < self.low else self.high
            written = setting.row.name if setting.subject is None else f"{setting.row.name} {setting.subject.id}:"
            message = f"{setting.row.name} is {span}; this is {number}"
            raise TileError("schedule", node.loc, message, f"{written} {nearest}")
        return number


class WholeOr(Whole):
    """How many, or a word, which reads as 0."""

    def __init__(self, word: str, low: int, high: int | None = None):
        super().__init__(low, high)
        self.word, self.text = word, f"N|{word}"

    def read(self, setting: Setting, evaluate: Numbers) -> int:
        (node,) = setting.values
        if isinstance(node, ast.Name) and node.id == self.word:
            return 0
        try:
            return super().read(setting, evaluate)
        except TileError as error:
            hint = f"{error.hint or 'a number'}, or {self.word}"
            raise TileError(error.code, error.loc, error.message, hint) from None

    def said(self, value: int) -> str:
        return str(value or self.word)


class InstructionSetting(Takes):
    """`mma.sync.m16n8k32.satfinite`: its shape and modifier; or `wgmma`."""

    text = "mma.sync.SHAPE|wgmma"

    def read(self, setting: Setting, evaluate: Numbers) -> Named:
        from dsl.lowering.hopper.warpgroup import INSTRUCTION
        from dsl.lowering.machine.tensor_cores import shapes

        (node,) = setting.values
        if isinstance(node, ast.Name) and node.id == INSTRUCTION:
            return Named((INSTRUCTION, ""), node.loc)
        words: list[str] = []
        rest = node
        while isinstance(rest, ast.Attribute):
            words.insert(0, rest.name)
            rest = rest.value
        name = ".".join(words[1:])
        if not isinstance(rest, ast.Name) or rest.id != "mma" or words[:1] != ["sync"] or name not in shapes():
            word = node.id if isinstance(node, ast.Name) else name
            message = f"an instruction is {INSTRUCTION}, or named as in mma.sync.m16n8k16"
            known = f"{INSTRUCTION}, or mma.sync and one of {', '.join(shapes())}"
            raise TileError("schedule", node.loc, message, closest(word, [INSTRUCTION, *shapes()]) or known)
        shape, _, modifier = name.partition(".")
        return Named((shape, modifier), node.loc)

    def said(self, value: Named) -> str:
        from dsl.lowering.hopper.warpgroup import INSTRUCTION

        return INSTRUCTION if value.name[0] == INSTRUCTION else ".".join(filter(None, ("mma.sync", *value.name)))


class Swizzle(Takes):
    """`none`, or three numbers."""

    text = "none, or BITS, BASE, SHIFT"
    count = None

    def read(self, setting: Setting, evaluate: Numbers) -> SwizzlePin:
        values = setting.values
        if len(values) == 1 and isinstance(values[0], ast.Name) and values[0].id == "none":
            return SwizzlePin(None, setting.loc)
        if len(values) != 3:
            raise TileError("schedule", setting.loc, setting.row.usage, setting.row.example)
        bits, base, shift = (evaluate.integer(v, "a swizzle's bits") for v in values)
        return SwizzlePin((bits, base, shift), setting.loc)

    def said(self, value: SwizzlePin) -> str:
        return "none" if value.bits is None else ", ".join(map(str, value.bits))


class Rows(Takes):
    """Rows of a layout, each with a list."""

    text = "vector […], lanes […], warps […]"
    words = ("vector", "lanes", "warps", "contiguous", "register", "lane", "warp")

    def read(self, setting: Setting, evaluate: Numbers) -> Pin:
        parts = setting.parts or {}
        unknown = sorted(parts.keys() - set(self.words))
        if unknown:
            hint = closest(unknown[0], self.words) or "vector, lanes, warps; warps, contiguous; or register, lane, warp"
            raise TileError("layout", setting.loc, f"a layout has no '{unknown[0]}'", hint)
        return Pin({key: [evaluate(item) for item in row.items] for key, row in parts.items()}, setting.loc)

    def said(self, value: Pin) -> str:
        return ", ".join(f"{key} {list(row)}" for key, row in value.parts.items())


class Nothing(Takes):
    """Naming it is all."""

    count = 0
    behind = ""

    def read(self, setting: Setting, evaluate: Numbers) -> Loc:
        return setting.loc if setting.subject is None else setting.subject.loc

    def said(self, value: Loc) -> str:
        return ""


class Condition(Takes):
    """Whether it holds; without a condition it does."""

    text = "CONDITION"
    count = None
    behind = "[: CONDITION]"

    def read(self, setting: Setting, evaluate: Numbers) -> bool:
        value = evaluate(setting.values[0]) if len(setting.values) == 1 else not setting.values or None
        if not isinstance(value, bool):
            raise TileError("schedule", setting.loc, setting.row.usage, setting.row.example)
        return value

    def said(self, value: bool) -> str:
        return "" if value else "false"


class Peeled(Takes):
    """Whether it holds, or a flag of the kernel."""

    count = None
    behind = "[: CONDITION or FLAG]"
    condition = Condition()

    def read(self, setting: Setting, evaluate: Numbers) -> bool | str:
        try:
            return self.condition.read(setting, evaluate)
        except TileError as error:
            flag = setting.values[0] if len(setting.values) == 1 else None
            if error.code != "name" or not isinstance(flag, ast.Name):
                raise
            return flag.id

    def said(self, value: bool | str) -> str:
        return value if isinstance(value, str) else self.condition.said(value)


class PartsSetting(Takes):
    """The axis, how many elements along it make a part, and whether all parts are written out."""

    text = "[static] N"
    behind = ", AXIS: [static] N"

    def read(self, setting: Setting, evaluate: Numbers) -> tuple[int, int, bool]:
        (node,) = setting.values
        assert setting.axis is not None
        axis, part = evaluate.integer(setting.axis, "an axis"), evaluate.integer(node, "a part")
        if part < 1 or part & (part - 1):
            message = f"a part has a power of two of elements; this is {part}"
            raise TileError("schedule", node.loc, message, setting.row.example)
        return axis, part, setting.is_static

    def said(self, value: tuple[int, int, bool]) -> str:
        return f"{'static ' * value[2]}{value[1]}"

    def subject(self, name: str, value: tuple[int, int, bool]) -> str:
        return f"{name}, {value[0]}"


class ExtentsSetting(Takes):
    """How many elements a part has along each axis."""

    count = None
    text = "N, ..."

    def read(self, setting: Setting, evaluate: Numbers) -> tuple[int, ...]:
        parts = tuple(evaluate.integer(node, "a part") for node in setting.values)
        for node, part in zip(setting.values, parts, strict=True):
            if part < 1 or part & (part - 1):
                message = f"{setting.row.name} have a power of two of elements along each axis; this is {part}"
                raise TileError("schedule", node.loc, message, setting.row.example)
        return parts

    def said(self, value: tuple[int, ...]) -> str:
        return ", ".join(map(str, value))


_ROWS = (
    PropertyRow(
        "layout",
        "values",
        Rows(),
        "How the elements of these values lie in registers, lanes and warps; `s.copy`: the threads of copies into `s`. "
        "The lanes multiply to 32 and the warps to `warps`. Of a product: `warps`, and how many are `contiguous`; the "
        "instruction says the rest. Raw bases (`register`, `lane`, `warp`) say for each bit of the number, the lowest "
        "first, the coordinates by which it moves.",
        "layout v: vector [1, 8], lanes [1, 32], warps [4, 1]",
        "pins",
    ),
    PropertyRow(
        "instruction",
        "values",
        InstructionSetting(),
        "The tensor-core instruction of these products.",
        "instruction acc: mma.sync.m16n8k16",
        "instructions",
    ),
    PropertyRow(
        "swizzle",
        "tiles",
        Swizzle(),
        "How bits of offsets in these shared tiles move, in place of what the compiler chooses; none within an access.",
        "swizzle s: 3, 4, 3",
        "swizzles",
    ),
    PropertyRow(
        "specialize",
        "dims",
        Condition(),
        "The code is made for the values of these dims and scalars; with a condition, where it holds.",
        "specialize cols: cols <= 1024",
        "specialize",
    ),
    PropertyRow(
        "barriers",
        None,
        Word("manual", "automatic"),
        "`manual` adds no barriers between accesses of the text.",
        "barriers manual",
    ),
    PropertyRow(
        "require",
        None,
        Word("async"),
        "A `copy` that is no `cp.async` is an error.",
        "require async",
    ),
    PropertyRow(
        "contract",
        None,
        Switch("off", "fast"),
        "`fast` lets products and sums become fused ones.",
        "contract fast",
    ),
    PropertyRow(
        "maxnreg",
        None,
        Whole(LEAST_REGISTERS, MOST_REGISTERS),
        "Registers of a thread at most; more than the assembler chose by itself may end spills.",
        "maxnreg 128",
    ),
    PropertyRow("blocks_per_sm", None, Whole(1, 32), "Blocks that a multiprocessor must hold.", "blocks_per_sm 2"),
    PropertyRow(
        "cluster",
        None,
        Whole(1, 16),
        "Blocks of a cluster along the grid's first axis, which is a multiple of it (sm_90 and later; over 8 only "
        "where the device allows it). With `stage … : tma` they copy boxes for each other, of any number of tiles.",
        "cluster 2",
    ),
    PropertyRow(
        "l2_group",
        None,
        Whole(1, 1024),
        "Blocks take the tiles of a grid of two or three axes in groups of N along the first one, so that those that "
        "run at once share both operands in the L2. By itself 8 for products; 1: in the order of the grid.",
        "l2_group 8",
    ),
    PropertyRow(
        "persistent",
        None,
        Whole(0, 32),
        "As many blocks are launched as run at once, N on each multiprocessor; each takes every so many-th tile. 0: a "
        "block for each tile.",
        "persistent 1",
    ),
    PropertyRow(
        "split",
        "counter",
        WholeOr("stream", 1, 65535),
        "The rounds of this loop, which only adds to sums, or joins as the reduction behind it does, are dealt to N "
        "blocks for each tile. The last of them to arrive joins what they made, in order, and does what follows. 1: "
        "one block does all rounds. `stream`: as many blocks as run at once take equal shares of the rounds of all "
        "tiles.",
        "split p: 4",
    ),
    PropertyRow(
        "precompute",
        "values",
        NameOf("COUNTER"),
        "These flags come from bits that are computed before the loop over COUNTER, one a round.",
        "precompute inside: t",
    ),
    PropertyRow(
        "stage",
        "names",
        Switch("registers", "shared", "tma"),
        "`shared`: what loops load of these tensors goes through shared memory, by copies; `tma`: by copies of whole "
        "boxes (TMA, sm_90), which a warp of its own starts, and of what is stored by boxes that leave while the block "
        "goes on, as `shared` where its rows may end in the middle of 16 bytes; `registers`: it does not; "
        "`where(n % 8 == 0, tma, shared)` chooses. By itself, what feeds products does where 4 aligned bytes or more "
        "are copied at a time. A value that `loop` does in parts stays there from loop to loop.",
        "stage a, b: shared",
    ),
    PropertyRow(
        "pipeline",
        "counters",
        Whole(1, 16),
        "The copies of this loop run ahead, into a ring of N slots. Of a loop in a loop that is named too, they go on "
        "from the last round of one to the first of the next. By itself 3 slots, 2 where no more fit. 1: no ring. What "
        "each tile of a `persistent` block copies by TMA is of `tile`.",
        "pipeline p: 4",
    ),
    PropertyRow(
        "prefetch_fragments",
        "counters",
        Word("whole", "early", "late"),
        "The products of this pipelined loop go step by step along k, the k of one instruction: a step's fragments are "
        "read before the products of the step before it (`early`), or where the fragment in its registers is used last "
        "(`late`, fewer registers). `whole`: a round reads all of its operands first.",
        "prefetch_fragments p: late",
    ),
    PropertyRow(
        "pingpong",
        "value",
        Condition(),
        "Groups of four warps make this value, and begin the products that take it, one after the other: one "
        "multiplies while another one computes. Of a round whose copies are `tma`; with a condition, where it holds.",
        "pingpong e",
    ),
    PropertyRow(
        "math",
        "functions",
        Word("exact", "fast"),
        "`fast`: the approximation of this function (`exp.approx` of `exp`) stands for it in the kernel; `exact`: it "
        "does not. By itself `exp` is fast where all floats in memory have 16 bits or fewer.",
        "math exp: fast",
    ),
    PropertyRow(
        "subtile",
        "value",
        ExtentsSetting(),
        "This tile and all that is computed with it is done as tiles of so many elements along each axis, without a "
        "loop; loops carry all of them. Its extents are any multiples of these. By itself a sum of products "
        "is done in four, where a warp has 32 x 32 of each.",
        "subtile acc: 128, 64",
    ),
    PropertyRow(
        "align",
        "values",
        Whole(1, 64),
        "The rows that these values are made of begin anywhere, and are accessed N elements at a time from multiples "
        "of N on, as is all that lies as they do; the fewer than N elements before and behind are a part of their own. "
        "Rows that are known to begin at multiples of N stay as they are. By itself: rows that are reduced, 16 bytes "
        "at a time. 1: as they begin.",
        "align v: 8",
    ),
    PropertyRow(
        "loop",
        "value",
        PartsSetting(),
        "This wide value and all that is computed with it along the axis is computed in parts of N elements: one loop "
        "between two reductions. `static` writes the parts out, and keeps in registers what is needed again; else it "
        "is computed again, down to its loads, or kept by `stage`. The extent is any multiple of N. By itself: whole, "
        "or static where the extent is no power of two.",
        "loop v, 1: static 512",
    ),
    PropertyRow(
        "unroll",
        "counter",
        WholeOr("all", 1),
        "Rounds of this loop of the run in one; 1 leaves it. `all`: its rounds, of a constant number, are written out "
        "ahead of all else, as those of a `for static`.",
        "unroll p: 4",
    ),
    PropertyRow(
        "peel",
        "counter",
        Peeled(),
        "A last round of this loop of the run that is not whole is done apart, so that no other one needs a mask for "
        "its end. With a flag that the loop computes: the rounds before the first one in which an element of it is "
        "off, so that none of these computes it.",
        "peel p",
    ),
    PropertyRow(
        "evict",
        "tensor",
        Word("first", "last", "normal", "unchanged", "no_allocate"),
        "What the L2 does with lines of this tensor, where an access does not say.",
        "evict x: first",
    ),
    PropertyRow(
        "cache",
        "tensor",
        Word("all", "global", "streaming", "last_use", "write_back", "write_through"),
        "Which caches accesses of this tensor use, where an access does not say.",
        "cache y: streaming",
    ),
)
PROPERTIES = {row.name: row for row in _ROWS}


def rows_of(plugins: Plugins) -> Mapping[str, PropertyRow]:
    """The properties, with those that plug-ins add. TileError `plugin` for one that cannot be."""
    return _with_added(plugins) if plugins.added else PROPERTIES


@lru_cache(maxsize=64)
def _with_added(plugins: Plugins) -> Mapping[str, PropertyRow]:
    found = dict(PROPERTIES)
    for each in plugins.every("directive"):
        if not each.name.isidentifier() or each.name in (*found, "like", "choose"):
            raise each.wrong(f"adds a property '{each.name}', which is no new word", "another word")
        about = each.about
        found[each.name] = PropertyRow(each.name, about["subject"], _takes(each), about["doc"], about["example"])
    return found


def _takes(added: Added) -> Takes:
    """What a plug-in's property takes, as it says so in values of Python."""
    match added.about["takes"]:
        case range(step=1) as span if len(span):
            return Whole(span.start, span.stop - 1)
        case (str(), *_) as words if all(isinstance(each, str) for each in words):
            return Word(*words)
        case None if added.about["subject"] is not None:
            return Nothing()
        case kind if kind is bool and added.about["subject"] is not None:
            return Condition()
    hint = "range(1, 9), ('on', 'off'); bool or None, of a subject"
    raise added.wrong(f"takes {added.about['takes']!r:.60}, which says no values", hint)


def settings_of(
    line: ast.LayoutLine | ast.Property, rows: Mapping[str, PropertyRow], caller: Loc | None = None
) -> dict[tuple[str, str | None], Setting]:
    """The settings of a line by property and subject, one of `rows`; `caller`: the `like` line that brought it.
    TileError for a property that there is not, or another form."""
    if isinstance(line, ast.LayoutLine):
        row, at = rows["layout"], line.loc
        named = {name: ast.Name(at, name) for name in line.names}
        return {("layout", name): Setting(row, node, [], at, line.parts, caller) for name, node in named.items()}
    if line.name not in rows:
        known = ["like", *rows]
        hint = _new_name(line) or ELSEWHERE.get(line.name) or closest(line.name, known) or ", ".join(known)
        raise TileError("schedule", line.loc, f"a schedule has no property '{line.name}'", hint)
    row, subjects, values = rows[line.name], line.subject, line.values
    if row.subject is not None and not subjects and row.takes.count in (None, 0):
        subjects, values = values, []
    if row.subject is None and (subjects or len(values) != 1):
        raise TileError("schedule", line.loc, f"'{row.name}' takes one value", row.example)
    if row.subject is not None and (not subjects or row.takes.count not in (None, len(values))):
        raise TileError("schedule", line.loc, row.usage, row.example)
    if row.subject is None:
        return {(row.name, None): Setting(row, None, values, line.loc, None, caller)}
    if line.is_static and not isinstance(row.takes, PartsSetting):
        raise TileError("schedule", line.loc, row.usage, row.example)
    if isinstance(row.takes, PartsSetting):
        value, axis = subjects if len(subjects) == 2 else (None, None)
        if not isinstance(value, ast.Name):
            raise TileError("schedule", line.loc, row.usage, row.example)
        return {(row.name, value.id): Setting(row, value, values, line.loc, None, caller, axis, line.is_static)}
    out: dict[tuple[str, str | None], Setting] = {}
    for subject in subjects:
        if not isinstance(subject, ast.Name):
            raise TileError("schedule", subject.loc, f"'{row.name}' takes names: {row.usage}", row.example)
        out[row.name, subject.id] = Setting(row, subject, values, line.loc, None, caller)
    return out


def _new_name(line: ast.Property) -> str | None:
    """What says what a property of version 0.1 said."""
    if line.name not in {*renamed.PROPERTIES, *renamed.BY_CHOICE}:
        return None
    written = "; ".join(renamed.new_lines(line.name, line.loc.text.partition(line.name)[2].strip()))
    return renamed.hint(written)


def table() -> str:
    """The properties as the table of docs/language.md; what is too long for a line goes on in further rows."""
    lines = ["| property | does |", "|---|---|"]
    for row in PROPERTIES.values():
        usage = row.usage.replace("|", "\\|")
        room = 120 - len(f"| `{usage}` |  |")
        does = wrap(row.doc, room)
        if len(does[-1]) + len(f" `{row.example}`") > room:
            does.append("")
        does[-1] = f"{does[-1]} `{row.example}`".lstrip()
        lines += [
            f"| {first} | {text} |" if first else f"| | {text} |"
            for first, text in zip([f"`{usage}`", *[""] * len(does)], does, strict=False)
        ]
    return "\n".join(lines) + "\n"
