"""The properties that a schedule can set, such as `layout` or `unroll`. A table row defines each property: what it
applies to, its values, its effect.

The row defines the meaning of a schedule line. It also provides the errors and hints of the line, the text of `dsl
explain` and the list in docs/language.md. If a row has no `field`, its value goes to `Function.attrs` under the row's
name. If the property has subjects, the value is stored as {subject: value}. So a new property needs only two things: a
row, and code that reads the value in a pass or in the emission of LLVM IR.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from textwrap import wrap
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.plugins import Added, Plugins
from dsl.lowering.ir.schedule import Named, Pin, SwizzlePin
from dsl.lowering.ir.targets import LEAST_REGISTERS, MOST_REGISTERS
from dsl.text import renamed
from dsl.text import tree as ast
from dsl.text.elsewhere import instead_of
from dsl.values.numbers import Numbers
from dsl.values.walk import NUMBERS, WORDS


class Setting(Struct, frozen=True):
    """A property that a schedule line sets for one subject, before evaluation. In `unroll p: 4`, the subject is `p`.
    The subject is None for a property of the whole kernel.

    `caller` is the `like` line that included this line. `axis` is the 1 in `loop v, 1: static 512`. `is_static` tells
    whether the word `static` precedes the values.
    """

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
    """Base class for the kinds of values that a property accepts.

    `text` describes the values to users. `count` is the number of expressions, or None if `read` checks the number.
    """

    count: int | None = 1
    text: str = ""

    @property
    def behind(self) -> str:
        """The text after a subject in the usage, such as `: N`."""
        return f": {self.text}"

    def read(self, setting: Setting, evaluate: Numbers) -> Any:
        raise NotImplementedError

    def said(self, value: Any) -> str:
        """Formats a value as text that `read` accepts. The text is empty if the line needs no value."""
        return str(value)

    def subject(self, name: str, value: Any) -> str:
        """Formats the text before the colon, such as `v, 1` in `loop v, 1: 512`."""
        return name


class PropertyRow(Struct, frozen=True):
    """The definition of a property.

    `subject` describes what comes before the colon, such as `counter`. It is None for a property of the whole kernel.
    `example` is a whole line. `field` names the field of `ResolvedSchedule` that stores the property's value.
    """

    name: str
    subject: str | None
    takes: Takes
    doc: str
    example: str
    field: str = "attrs"

    @property
    def usage(self) -> str:
        """The form of a schedule line with this property, such as `unroll COUNTER: N`."""
        if self.subject is None:
            return f"{self.name} {self.takes.text}"
        return f"{self.name} {self.subject.upper()}{self.takes.behind}"

    def line(self, subject: str | None, value: Any) -> str:
        """Formats the schedule line that sets this value."""
        said = self.takes.said(value)
        if subject is None:
            return f"{self.name} {said}"
        return f"{self.name} {self.takes.subject(subject, value)}" + (f": {said}" if said else "")


class Word(Takes):
    """A value that is one of several words, such as `exact|fast`."""

    def __init__(self, *words: str):
        self.words, self.text = words, "|".join(words)

    def read(self, setting: Setting, evaluate: Numbers) -> str:
        (node,) = setting.values
        if not isinstance(node, ast.Name) or node.id not in self.words:
            near = closest(node.id, self.words) if isinstance(node, ast.Name) else None
            raise TileError("schedule", node.loc, f"{setting.row.name} is one of {', '.join(self.words)}", near)
        return node.id


class NameOf(Takes):
    """A value that is a name in the kernel, such as a loop counter."""

    def __init__(self, what: str):
        self.text = what

    def read(self, setting: Setting, evaluate: Numbers) -> str:
        (node,) = setting.values
        if not isinstance(node, ast.Name):
            raise TileError("schedule", node.loc, f"'{setting.row.name}' takes a name: {setting.row.usage}")
        return node.id


def chosen_word(node: ast.Expr, evaluate: Numbers) -> ast.Expr:
    """Returns what `where(CONDITION, WORD, WORD)` chooses, or `node` if it is something else."""
    while isinstance(node, ast.Call) and getattr(node.function, "id", "") == "where" and len(node.args) == 3:
        chosen = evaluate(node.args[0])
        if not isinstance(chosen, bool):
            break
        node = node.args[1 if chosen else 2]
    return node


class Switch(Takes):
    """A value that is one of several words, or a condition. `where(CONDITION, WORD, WORD)` may choose a word.

    A false condition selects the first word, and a true condition the second. So a tuned constant can be the condition.
    """

    def __init__(self, off: str, on: str, *others: str):
        self.words, self.text = (off, on, *others), f"{'|'.join((off, on, *others))}|CONDITION"

    def read(self, setting: Setting, evaluate: Numbers) -> str:
        (node,) = setting.values
        node = chosen_word(node, evaluate)
        if isinstance(node, ast.Name) and node.id in self.words:
            return node.id
        try:
            value = evaluate(node)
        except TileError:
            # The evaluation reports a misspelt word as an unknown name. The words of the property make a better hint.
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
    """An integer in a range."""

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
    """An integer, or a word. The word is read as 0."""

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
    """An instruction: `mma.sync` with or without its shape and modifier (`mma.sync.m16n8k32.satfinite`), or `wgmma`."""

    text = "mma.sync[.SHAPE]|wgmma"

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
        if isinstance(rest, ast.Name) and rest.id == "mma" and words == ["sync"]:
            return Named(("", ""), node.loc)
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
    """`none`, or three numbers: bits, base, shift."""

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
    """The parts of a layout, such as `vector [1, 8], lanes [1, 32]`. Each part is a word and a list."""

    text = "vector […], lanes […], warps […][, blocks […]]"
    words = ("vector", "lanes", "warps", "blocks", "contiguous", "register", "lane", "warp")

    def read(self, setting: Setting, evaluate: Numbers) -> Pin:
        parts = setting.parts or {}
        unknown = sorted(parts.keys() - set(self.words))
        if unknown:
            hint = closest(unknown[0], self.words) or "vector, lanes, warps; warps, contiguous; or register, lane, warp"
            raise TileError("layout", setting.loc, f"a layout has no '{unknown[0]}'", hint)
        pin = Pin({key: [evaluate(item) for item in row.items] for key, row in parts.items()}, setting.loc)
        blocks = [each for each in pin.parts.get("blocks", []) if isinstance(each, int)]
        if prod(blocks) > MOST_OF_CLUSTER:
            message = f"a cluster has 1 to {MOST_OF_CLUSTER} blocks; this has {prod(blocks)}"
            raise TileError("layout", setting.loc, message, f"blocks that multiply to {MOST_OF_CLUSTER} at most")
        return pin

    def said(self, value: Pin) -> str:
        return ", ".join(f"{key} {list(row)}" for key, row in value.parts.items())


class Nothing(Takes):
    """No value, because the line names only subjects."""

    count = 0
    behind = ""

    def read(self, setting: Setting, evaluate: Numbers) -> Loc:
        return setting.loc if setting.subject is None else setting.subject.loc

    def said(self, value: Loc) -> str:
        return ""


class Condition(Takes):
    """A condition. A line without a value means true."""

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
    """A condition, or the name of a flag that the kernel computes."""

    count = None
    behind = "[: CONDITION or FLAG]"
    condition = Condition()

    def read(self, setting: Setting, evaluate: Numbers) -> bool | str:
        try:
            return self.condition.read(setting, evaluate)
        except TileError as error:
            flag = setting.values[0] if len(setting.values) == 1 else None
            # Names of the kernel have no value in a schedule. An unknown name is assumed to be a flag, which `peel`
            # checks.
            if error.code != "name" or not isinstance(flag, ast.Name):
                raise
            return flag.id

    def said(self, value: bool | str) -> str:
        return value if isinstance(value, str) else self.condition.said(value)


class Microseconds(Takes):
    """The predicted time of a launch: a number, or an array with the number for each combination of `tune` values."""

    text = "MICROSECONDS"

    def read(self, setting: Setting, evaluate: Numbers) -> Any:
        value = evaluate(setting.values[0])
        is_time = isinstance(value, NUMBERS) or evaluate.joins(value)
        is_condition = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
        if not is_time or is_condition:
            raise TileError("schedule", setting.loc, "a cost is a number of microseconds", setting.row.example)
        return value


class PartsSetting(Takes):
    """The values of `loop`: the axis, the number of elements in each part along this axis, and whether the parts are
    unrolled."""

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
    """The number of elements of a subtile along each axis."""

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


MOST_OF_CLUSTER = 16


class ClusterShape(Takes):
    """The number of blocks in a cluster along the first axis of the grid, or along the first two axes."""

    count = None
    text = "N[, M]"

    def read(self, setting: Setting, evaluate: Numbers) -> tuple[int, int]:
        if not 1 <= len(setting.values) <= 2:
            message = f"'cluster' takes one or two numbers; here are {len(setting.values)}"
            raise TileError("schedule", setting.loc, message, "cluster 2, or cluster 2, 2")
        rows, *rest = (evaluate.integer(node, "cluster") for node in setting.values)
        columns = rest[0] if rest else 1
        if min(rows, columns) < 1 or rows * columns > MOST_OF_CLUSTER:
            message = f"a cluster has 1 to {MOST_OF_CLUSTER} blocks; this has {rows} x {columns}"
            raise TileError("schedule", setting.loc, message, "cluster 2, or cluster 2, 2")
        return rows, columns

    def said(self, value: tuple[int, int]) -> str:
        rows, columns = value
        return str(rows) if columns == 1 else f"{rows}, {columns}"


class SplitParts(Takes):
    """The number of parts of a loop, and where these meet: in `memory`, or in a `cluster`. The word `stream` is read as
    0, and N parts that meet in a cluster as -N."""

    count = None
    text = "N[, memory|cluster]|stream"
    # The parts extend the grid's last axis. Axes y and z of a grid have at most 65,535 blocks.
    parts, meeting = WholeOr("stream", 1, 65535), Switch("memory", "cluster")

    def read(self, setting: Setting, evaluate: Numbers) -> int:
        if not 1 <= len(setting.values) <= 2:
            message = f"'split' takes a number, and where the parts meet; here are {len(setting.values)} values"
            raise TileError("schedule", setting.loc, message, setting.row.example)
        parts = self.parts.read(replace(setting, values=setting.values[:1]), evaluate)
        meets = self.meeting.read(replace(setting, values=setting.values[1:]), evaluate) if setting.values[1:] else ""
        if meets == "cluster" and parts == 0:
            message = "the parts of 'stream' meet in memory: how many a tile has differs, and clusters are of one size"
            raise TileError("schedule", setting.values[1].loc, message, f"split p: stream, or {setting.row.example}")
        if meets != "cluster" or parts == 1:
            return parts
        if parts > MOST_OF_CLUSTER:
            message = f"a cluster has 1 to {MOST_OF_CLUSTER} blocks; this has {parts}"
            raise TileError("schedule", setting.values[0].loc, message, f"split p: {MOST_OF_CLUSTER}, cluster")
        return -parts

    def said(self, value: int) -> str:
        return f"{-value}, cluster" if value < 0 else self.parts.said(value)


_ROWS = (
    PropertyRow(
        "layout",
        "values",
        Rows(),
        "How these values lie in registers (`vector`), lanes and warps. The lanes multiply to 32, the warps to "
        "`warps`. `blocks [1, 4]`: four blocks of a cluster have a quarter of the columns each. Of a matrix product: "
        "`warps`, and how many elements of a thread are `contiguous`; the instruction fixes the rest. `s.copy`: the "
        "threads of copies into `s`. Raw bases (`register`, `lane`, `warp`): the coordinates by which each bit of "
        "those numbers moves, lowest first.",
        "layout v: vector [1, 8], lanes [1, 32], warps [4, 1]",
        "pins",
    ),
    PropertyRow(
        "instruction",
        "values",
        InstructionSetting(),
        "The tensor-core instruction of these matrix products.",
        "instruction acc: mma.sync.m16n8k16",
        "instructions",
    ),
    PropertyRow(
        "swizzle",
        "tiles",
        Swizzle(),
        "Replaces the compiler's swizzle of these shared tiles. It moves no bits within an access.",
        "swizzle s: 3, 4, 3",
        "swizzles",
    ),
    PropertyRow(
        "specialize",
        "dims",
        Condition(),
        "Compiles for the values of these dims and scalars; with a condition, where it holds.",
        "specialize cols: cols <= 1024",
        "specialize",
    ),
    PropertyRow(
        "cost",
        None,
        Microseconds(),
        "The predicted time of a launch, in microseconds. The values of the `tune` sets that it reads are those of the "
        "least cost, in place of the first; a launch with several schedules takes the cheapest one that compiles.",
        "cost gpu_launch_time + m * k * size(T) / gpu_memory_bandwidth",
        "costs",
    ),
    PropertyRow(
        "barriers",
        None,
        Word("manual", "automatic"),
        # Shared tiles that the compiler adds, for layout conversions and sums over warps, still have their barriers. No
        # line of the text could contain these barriers.
        "`manual`: the compiler adds no barriers between accesses of the text.",
        "barriers manual",
    ),
    PropertyRow(
        "require",
        None,
        Word("async"),
        "A `copy` that cannot be `cp.async` is an error.",
        "require async",
    ),
    PropertyRow(
        "contract",
        None,
        Switch("off", "fast"),
        "`fast`: a product and a sum may become one fused operation.",
        "contract fast",
    ),
    PropertyRow(
        "maxnreg",
        None,
        # `Target.cap` lowers N to what a block's registers allow. With 128 registers for each of 640 threads, no launch
        # was possible.
        Whole(LEAST_REGISTERS, MOST_REGISTERS),
        "At most N registers a thread. More than the assembler chose by itself may end spills.",
        "maxnreg 128",
    ),
    PropertyRow(
        "blocks_per_sm",
        None,
        Whole(0, 32),
        "A multiprocessor must hold N blocks at once. 0: the compiler decides.",
        "blocks_per_sm 2",
    ),
    PropertyRow(
        "cluster",
        None,
        ClusterShape(),
        # On an H100, an int8 matrix product of 8192 x 8192 x 8192 takes 704 us with clusters of two blocks, and 734 us
        # without clusters. Only clusters of up to 8 blocks are portable.
        "Clusters of N blocks along the grid's first axis, a multiple of N, or of N x M blocks along two axes "
        "(sm_90 and later; over 8 blocks only where the device allows it). With TMA copies they multicast boxes, for "
        "any number of tiles.",
        "cluster 2",
    ),
    PropertyRow(
        "l2_group",
        None,
        Whole(1, 1024),
        # Computing row and column of the tile costs 64 instructions, once per block.
        "Blocks take the tiles of a grid of two or three axes in groups of N along the first (GROUP_M, CTA swizzle), "
        "so that concurrent blocks share both operands in the L2. 1: in grid order. Default: 8 for matrix products.",
        "l2_group 8",
    ),
    PropertyRow(
        "persistent",
        None,
        Whole(0, 32),
        # With two loops for each tile, one of which copies data for the next tile, the kernel takes 289 us. With a
        # single loop, which checks in each iteration for which tile it copies, the kernel takes 337 us.
        "Persistent blocks, or clusters: as many as run at once, N blocks on each multiprocessor. Of B blocks, each "
        "takes every B-th tile. 0: one block a tile.",
        "persistent 1",
    ),
    PropertyRow(
        "split",
        "counter",
        SplitParts(),
        "Split-K: N blocks share this loop's iterations for each tile. The loop may only add to accumulators, or join "
        "as the reduction or `joined` behind it does. In `memory`, the last block to arrive joins the partial results "
        "in order and continues. In a `cluster`, each of its blocks joins a part of the accumulators and continues "
        "with it. 1: one block does all. `stream` (stream-K): as many blocks as run at once share the iterations of "
        "all tiles equally.",
        "split p: 4, cluster",
    ),
    PropertyRow(
        "precompute",
        "values",
        NameOf("COUNTER"),
        # An int8 convolution of 3 x 3 has 109 instructions per iteration instead of 116. For each pixel, a shift and a
        # test replace five comparisons.
        "Computes these flags as bits before the loop over COUNTER, one for each iteration.",
        "precompute inside: t",
    ),
    PropertyRow(
        "stage",
        "names",
        Switch("registers", "shared", "tma", "ahead"),
        # cp.async moves 4, 8 or 16 bytes, so the default rule does not stage narrower accesses. A TMA store writes a
        # row in units of 16 bytes. On an H100, where rows ended within such a unit, the store overwrote 420
        # neighbouring elements.
        "How loops load these tensors. `registers`: directly. `ahead`: directly, one iteration early. `shared`: by "
        "copies to shared memory. `tma`: by TMA boxes (sm_90), which a producer warp copies; stores leave by TMA "
        "boxes while the block goes on, or as with `shared` where rows of a view may end within 16 bytes. "
        "`where(n % 8 == 0, tma, shared)` chooses, with one condition for all operands of a product. A value that "
        "`loop` splits stays in shared memory from loop to loop. Default: `shared` for operands of matrix products "
        "where a copy moves 4 aligned bytes or more.",
        "stage a, b: shared",
    ),
    PropertyRow(
        "pipeline",
        "counters",
        Whole(1, 16),
        # If a third stage leaves an SM with a single block of four warps, the stage costs more time than it hides.
        # Attention with heads of 128 then takes 1.42 times as long.
        "The copies of this loop run ahead, in a ring of N stages. If an enclosing loop is named, too, they run on "
        "from the last iteration of one inner loop to the first of the next. 1: no ring. `tile` names the TMA copies "
        "of each tile of a `persistent` block. Default: 3 stages, 2 where 3 do not fit.",
        "pipeline p: 4",
    ),
    PropertyRow(
        "prefetch_fragments",
        "counters",
        Word("whole", "early", "late"),
        # f16 4096 cubed on an H200 (256 x 128 x 32) takes 295 us with `whole`, 286 us with `early` and four subtiles,
        # and 285 us if written by hand.
        "When this pipelined loop reads MMA fragments, in steps of one instruction's k. `early`: before the MMAs of "
        "the step before. `late`: where the fragment in the same registers is last used (fewer registers). `whole`: "
        "all at the start of an iteration.",
        "prefetch_fragments p: late",
    ),
    PropertyRow(
        "delay",
        "value",
        Condition(),
        # Attention of 16,384 tokens with heads of 256 takes 2929 us in place of 3481 (bf16, H200).
        "An iteration starts this product of the iteration before, behind its own first products. The tensor cores "
        "then compute it while warps compute its next left operand. The iteration's copies must be `tma`. Default: "
        "a `wgmma` whose left operand is computed from another one. With a condition: where it holds.",
        "delay acc",
    ),
    PropertyRow(
        "pingpong",
        "value",
        Condition(),
        # Without turns, the groups drift: all compute at the same time, then all wait for the tensor cores. Attention
        # with heads of 128 and 4096 keys on an H100 takes 858 us with turns and 933 us without.
        "Ping-pong: groups of four warps take turns to compute this value and start the MMAs that use it. One "
        "multiplies while another computes. The iteration's copies must be `tma`. With a condition: where it holds.",
        "pingpong e",
    ),
    PropertyRow(
        "math",
        "functions",
        Word("exact", "fast"),
        # exp.approx takes 2 instructions, exp takes 15 (dsl/values/fast_math.py).
        "`fast`: the kernel uses approximations of these functions (`exp.approx` for `exp`). Default: `exp` is fast "
        "where all floats in memory have at most 16 bits.",
        "math exp: fast",
    ),
    PropertyRow(
        "subtile",
        "value",
        ExtentsSetting(),
        # Loading fragments ahead needs the registers of two steps. For this, a warp's tile of 64 x 64 needs twice as
        # many registers as four subtiles of 32 x 32.
        "Subtiles: this tile, and all that is computed with it, becomes tiles of these extents, which divide its own. "
        "No loop is added; loops carry all of them. Default: an accumulator is done in four where a warp has 32 x 32 "
        "of each.",
        "subtile acc: 128, 64",
    ),
    PropertyRow(
        "align",
        "values",
        Whole(1, 64),
        # 64 rows of 1023 f16 take 33,152 warp instructions element by element, and 23,808 with `align`.
        "The rows of these values, and all that lies as they do, begin anywhere and are accessed N elements at a time "
        "from multiples of N on; fewer than N before and behind are accessed apart. Tiles of a persistent block are "
        "multiples of N apart. Rows known to begin at multiples of N are unchanged. 1: rows are accessed as they "
        "begin. Default: 16 bytes for rows that are reduced.",
        "align v: 8",
    ),
    PropertyRow(
        "loop",
        "value",
        PartsSetting(),
        # If its parts are written out, a softmax of 4096 columns has the same machine code as a softmax written by
        # hand: 400 instructions, 47 registers.
        "Computes this wide value, and all that is computed with it along AXIS, N elements at a time: one loop between "
        "two reductions. `static` writes the parts out and keeps in registers what is needed again; otherwise that is "
        "computed again from its loads, or kept by `stage`. N divides the extent. Default: whole, or `static` where "
        "the extent is no power of two.",
        "loop v, 1: static 512",
    ),
    PropertyRow(
        "unroll",
        "counter",
        WholeOr("all", 1),
        # If a loop is unrolled as many times as it has stages, positions in the ring of stages are constants. On an
        # H200, an f16 matrix product of 4096 x 4096 x 4096 then takes 299 us instead of 329 us. Attention's loop does
        # more than products. If this loop is unrolled twice, it becomes 6 % slower.
        "Unrolls this run-time loop N times. `all`: completely, ahead of all else, as `for static`; the number of "
        "iterations must be constant.",
        "unroll p: 4",
    ),
    PropertyRow(
        "peel",
        "counter",
        Peeled(),
        # Attention, f16, d = 64: without the flag's comparisons and selects, an iteration has 572 instructions instead
        # of 673.
        "Runs a partial last iteration of this run-time loop apart, so that the others need no mask for the end. With "
        "a flag that the loop computes: the iterations before the first in which an element of it is off run apart, "
        "without computing it.",
        "peel p",
    ),
    PropertyRow(
        "evict",
        "tensor",
        Word("first", "last", "normal", "unchanged", "no_allocate"),
        "L2 eviction priority of accesses to this tensor that give none.",
        "evict x: first",
    ),
    PropertyRow(
        "cache",
        "tensor",
        Word("all", "global", "streaming", "last_use", "write_back", "write_through"),
        "Cache operator of accesses to this tensor that give none.",
        "cache y: streaming",
    ),
)
PROPERTIES = {row.name: row for row in _ROWS}
OTHER_LINES = ("like", "choose")
"""The first words of schedule lines that have the form of a property but set none: they include other schedules, and
force choices of the compiler."""


def rows_of(plugins: Plugins) -> Mapping[str, PropertyRow]:
    """Returns the properties by name, including properties of plug-ins. Raises a TileError `plugin` for a property that
    cannot be added."""
    return _with_added(plugins) if plugins.added else PROPERTIES


@lru_cache(maxsize=64)
def _with_added(plugins: Plugins) -> Mapping[str, PropertyRow]:
    found = dict(PROPERTIES)
    for each in plugins.every("directive"):
        if not each.name.isidentifier() or each.name in (*found, *OTHER_LINES):
            raise each.wrong(f"adds a property '{each.name}': this word exists already, or is no name", "another word")
        about = each.about
        found[each.name] = PropertyRow(each.name, about["subject"], _takes(each), about["doc"], about["example"])
    return found


def _takes(added: Added) -> Takes:
    """Converts a plug-in's description of its property's values. The description is a Python value: a range, words,
    bool or None."""
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
    """Returns the settings that a schedule line makes, by (property, subject).

    `rows` contains the known properties. `caller` is the `like` line that included `line`. Raises a TileError for an
    unknown property, and for a line of the wrong form.
    """
    if isinstance(line, ast.LayoutLine):
        row, at = rows["layout"], line.loc
        named = {name: ast.Name(at, name) for name in line.names}
        return {("layout", name): Setting(row, node, [], at, line.parts, caller) for name, node in named.items()}
    if line.name not in rows:
        known = ["like", *rows]
        hint = _new_name(line) or instead_of(line.name) or closest(line.name, known) or ", ".join(known)
        raise TileError("schedule", line.loc, f"a schedule has no property '{line.name}'", hint)
    row, subjects, values = rows[line.name], line.subject, line.values
    # `peel p` has no colon, so the parser reads the subject as a value.
    if row.subject is not None and not subjects and row.takes.count in (None, 0):
        subjects, values = values, []
    if row.subject is None and (subjects or row.takes.count not in (None, len(values))):
        raise TileError("schedule", line.loc, f"'{row.name}' takes one value", row.example)
    if row.subject is not None and (not subjects or row.takes.count not in (None, len(values))):
        raise TileError("schedule", line.loc, row.usage, row.example)
    if row.subject is None:
        return {(row.name, None): Setting(row, None, values, line.loc, None, caller)}
    return _of_subjects(row, line, subjects, values, caller)


def _of_subjects(
    row: PropertyRow, line: ast.Property, subjects: list[ast.Expr], values: list[ast.Expr], caller: Loc | None
) -> dict[tuple[str, str | None], Setting]:
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
    """Returns the hint for a property of version 0.1: the line that replaces it now. Returns None for other names."""
    if line.name not in {*renamed.PROPERTIES, *renamed.BY_CHOICE}:
        return None
    written = "; ".join(renamed.new_lines(line.name, line.loc.text.partition(line.name)[2].strip()))
    return renamed.hint(written)


def listing() -> str:
    """Formats the list of properties for docs/language.md: usage and effect.

    Defaults are in docs/directives.md, and examples in `dsl explain`.
    """
    lines: list[str] = []
    for row in PROPERTIES.values():
        text = f"`{row.usage}`: {row.doc.partition(' Default: ')[0]}"
        lines += wrap(text, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"
