"""Inserts marks: points where each warp records the time, for a timeline of a kernel (docs/timeline.md).

`function.attrs["marks"]` selects the marks: `barriers`, `loops`, and lines of the `.tile` file. A mark is a pair of
`mark` operations, one before and one after the marked operations. Both are in the same block, so the marks of a warp
nest. This pass runs last, so that marks do not influence other passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.ir.function import Block, Function, Op, walk
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ops import OPS

LIFE, EMPTY = "life", "empty"
"""The kinds of the first two marks. One covers the life of a warp. The other is empty and measures the cost of a
mark."""
BARRIERS, LOOPS, LINES = "barriers", "loops", "lines"
EMPTY_PAIRS = 4
"""Number of empty marks at the start of a kernel. There are several because the first mark is slower: its instructions
are not in the cache yet."""
MOST_LINE = 10**7
LineRange = tuple[int, int]


def parse_marks(text: str) -> tuple[set[str], list[LineRange]]:
    """Parses a text such as `barriers,loops,12-20`. Returns the kinds of marks and the ranges of lines. Raises
    TileError `option` if the text is not of this form."""
    kinds: set[str] = set()
    ranges: list[LineRange] = []
    for word in filter(None, map(str.strip, text.split(","))):
        if word in (BARRIERS, LOOPS):
            kinds.add(word)
            continue
        first, dash, last = word.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            hint = "'barriers', 'loops', and lines of the file: --marks barriers,12,20-24"
            raise TileError("option", None, f"'{word[:40]}' is nothing that can have marks", hint)
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= MOST_LINE:
            raise TileError("option", None, f"the lines {word[:40]} are none: the first is 1, and the last comes later")
        ranges.append((low, high))
    ranges = sorted(set(ranges), key=lambda each: (each[0], -each[1]))
    # Ranges may nest but must not overlap: otherwise the marks of a warp would not nest.
    for i, (low, high) in enumerate(ranges):
        for other in ranges[i + 1 :]:
            if low < other[0] <= high < other[1]:
                message = f"the lines {range_text((low, high))} and {range_text(other)} overlap"
                raise TileError("option", None, message, "let one hold the other, or let them be apart")
    if not kinds and not ranges:
        raise TileError("option", None, "no marks are requested", "--marks barriers,loops")
    return kinds, ranges


def lines_name(lines: LineRange) -> str:
    """Returns the name of the mark for these lines."""
    return f"line{'s' * (lines[0] != lines[1])} {range_text(lines)}"


def range_text(lines: LineRange) -> str:
    """Returns a range of lines as text: `12` or `12-20`."""
    return str(lines[0]) if lines[0] == lines[1] else f"{lines[0]}-{lines[1]}"


class Stretch(Struct, frozen=True):
    """The operations of one block that a mark covers: those at positions `first` to `last`."""

    first: int
    last: int
    kind: str
    name: str
    line: int
    loc: Loc | None


def marks(function: Function) -> None:
    """Inserts the marks that the function's attribute `marks` selects. Inserts no marks if the function lacks this
    attribute."""
    asked = function.word("marks")
    if asked is None:
        return
    kinds, ranges = parse_marks(asked)
    numbers: dict[tuple[str, str, int], int] = {}  # all copies of a mark, which unrolling makes, share one number

    def mark(of: Stretch, begins: bool) -> Op:
        number = numbers.setdefault((of.kind, of.name, of.line), len(numbers))
        attrs = {"number": number, "begins": begins, "kind": of.kind, "name": of.name, "line": of.line}
        return Op(OPS["mark"], [], [], attrs, (), of.loc)

    life = Stretch(0, len(function.body.ops) - 1, LIFE, "life of a warp", 0, function.loc)
    empty = replace(life, kind=EMPTY, name="an empty mark")
    head = [mark(life, True), *(mark(empty, begins) for _ in range(EMPTY_PAIRS) for begins in (True, False))]
    _in_block(function, function.body, kinds, ranges, mark)
    function.body.ops = [*head, *function.body.ops, mark(life, False)]


def _in_block(
    function: Function, block: Block, kinds: set[str], ranges: list[LineRange], mark: Callable[[Stretch, bool], Op]
) -> None:
    """Inserts marks in a block and in the regions of its operations. If a line range covers an operation, the regions
    of this operation get no second mark for the range."""
    for op in block.ops:
        for region in op.regions if op.spec.control.flows else ():
            inside = [each for each in ranges if not _is_in(each, line_of(function, op))]
            if LOOPS in kinds and op.spec.control.loops and region is op.regions[-1]:
                ends = 0, len(region.ops) - 2
                iteration = Stretch(*ends, LOOPS, f"iteration of {_loop_name(op)}", line_of(function, op), op.loc)
                _in_block(function, region, kinds, inside, mark)
                region.ops = [mark(iteration, True), *region.ops[:-1], mark(iteration, False), region.ops[-1]]
            else:
                _in_block(function, region, kinds, inside, mark)
    stretches = [each for lines in ranges for each in _runs(function, block, lines)]
    stretches += _waits_and_loops(function, block, kinds)
    # Outer marks come first. If two marks cover the same operations, the mark of the range encloses the mark of the
    # loop or barrier.
    stretches.sort(key=lambda each: (each.first, -each.last))
    made: list[Op] = []
    for at, op in enumerate(block.ops):
        made += [mark(each, True) for each in stretches if each.first == at]
        made.append(op)
        made += [mark(each, False) for each in reversed(stretches) if each.last == at]
    block.ops = made


def _waits_and_loops(function: Function, block: Block, kinds: set[str]) -> Iterator[Stretch]:
    for at, op in enumerate(block.ops):
        if op.spec.access.waits and BARRIERS in kinds:
            yield Stretch(at, at, BARRIERS, op.spec.access.waits.format(**op.attrs), line_of(function, op), op.loc)
        if op.spec.control.loops and LOOPS in kinds:
            yield Stretch(at, at, LOOPS, _loop_name(op), line_of(function, op), op.loc)


def _runs(function: Function, block: Block, lines: LineRange) -> Iterator[Stretch]:
    """Yields each run of consecutive operations that belong to these lines. A run may also contain operations of other
    lines if they cost almost nothing. There may be several runs, because an unrolled loop contains each line several
    times."""
    run: list[int] = []
    for at, op in enumerate(block.ops):
        if _is_slight(op):
            continue
        if _is_in(lines, line_of(function, op)) and not op.spec.control.ends:
            run.append(at)
        elif run:
            yield _stretch_of(block, run, lines)
            run = []
    if run:
        yield _stretch_of(block, run, lines)


def _stretch_of(block: Block, run: list[int], lines: LineRange) -> Stretch:
    return Stretch(run[0], run[-1], LINES, lines_name(lines), lines[0], block.ops[run[0]].loc)


def marked_lines(function: Function) -> set[int]:
    """Returns the lines that can have a mark."""
    marked = [op for op in walk(function.body) if not _is_slight(op) and not op.spec.control.ends]
    return {line_of(function, op) for op in marked} - {0}


def _is_slight(op: Op) -> bool:
    """Whether an operation costs almost nothing: it computes scalars, or a tile whose elements are all equal."""
    return op.spec.pure and (op.spec.elements.splat or not any(result.shape for result in op.results))


def _is_in(lines: LineRange, line: int) -> bool:
    return lines[0] <= line <= lines[1]


def line_of(function: Function, op: Op) -> int:
    """Returns the line of the kernel's file to which an operation belongs, or 0 if there is none. If an operation was
    inlined from another file, it belongs to the line of the innermost call in the kernel's file."""
    assert function.loc is not None
    place = op.loc
    while place is not None and place.source is not function.loc.source:
        place = place.caller
    return 0 if place is None else place.line


def _loop_name(op: Op) -> str:
    if not op.spec.control.counters:
        return "while loop"
    counter = op.regions[0].args[0].name
    return "loop" if counter is None else f"loop {counter}"
