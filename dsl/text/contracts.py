"""Contracts: lines such as `expect registers <= 128`, which state requirements on a kernel's code. Each row of `_ROWS`
defines a term, such as `registers`.

The row determines the term's meaning and errors, and its text in `dsl explain` and docs/contracts.md. The row's field
`read` names the method of `Evidence` (`dsl/examples/evidence.py`) that measures the term's figure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from textwrap import wrap
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.location import TileError, closest
from dsl.text import tree as ast

COMPILED, ASSEMBLED, COUNTED, TIMED = "compiled", "assembled", "counted", "timed"
KNOWN = {
    COMPILED: "`dsl check`, `dsl run`",
    ASSEMBLED: "`dsl check --assemble`, `dsl run`",
    COUNTED: "`dsl run` on the emulator",
    TIMED: "`dsl run` on a GPU",
}
"""Stage at which a term's figure becomes known → the commands that report the figure."""
CHOICE, COPY = "choice", "copy"
IN_REGISTERS = (
    *(
        "matrix",
        "vector",
        "partial",
        "convert_layout",
        "gather",
        "unroll",
        "subtile",
        "prefetch_fragments",
        "loop",
        "peel",
    ),
    *("recompute", "chain", "instruction", "warps", "contiguous", "layout", "copy", "registers", "math", "pairs"),
    *("bytes", "precompute", "hoist", "address", "stage", "access", "pipeline", "index", "divisor", "level"),
)
"""The kinds of choices that affect the number of registers or of instructions."""
OF_SECTORS = ("vector", "access", "partial", "align", "layout", "stage", "divisor")
OF_BARRIERS = ("barrier", "place", "convert_layout", "gather", "stage", "pipeline")


class Term(Struct, frozen=True):
    """A term of contracts: the name of a measurable figure of a kernel, such as its register count.

    `of` describes the argument in parentheses after the term, such as `tensor`. It is None for a term without
    parentheses. `unit` is the unit of the figure. `known` is the stage at which the figure becomes known. `source`
    states what measures or computes the figure. `kinds` lists the kinds of choices that affect the figure, the most
    important first. `read` names the method of `Evidence` that returns the figure."""

    name: str
    of: str | None
    unit: str
    known: str
    source: str
    kinds: tuple[str, ...]
    doc: str
    example: str
    read: str

    @property
    def usage(self) -> str:
        if self.name == CHOICE:
            return "choice KEY"
        return self.name if self.of is None else f"{self.name}({self.of.upper()})"


_ROWS = tuple(Term(*row) for row in (
    ("registers", None, "registers a thread", ASSEMBLED, "ptxas; on a GPU its driver", IN_REGISTERS,
     "Registers of a thread.", "registers <= 128", "registers"),
    ("spills", None, "bytes a thread", ASSEMBLED, "ptxas; on a GPU its driver", IN_REGISTERS,
     "What spills to local memory.", "spills == 0", "spills"),
    ("instructions", None, "machine instructions", ASSEMBLED, "ptxas", IN_REGISTERS,
     "Instructions in the machine code.", "instructions <= 500", "instructions"),
    ("occupancy", None, "of 1", ASSEMBLED, "registers, shared memory and threads; on a GPU its driver",
     ("place", *IN_REGISTERS), "Threads that a multiprocessor holds at once, over its limit.",
     "occupancy >= 0.25", "occupancy"),
    ("shared", None, "bytes a block", COMPILED, "the kernel's header",
     ("place", "stage", "pipeline", "subtile", "split", "convert_layout", "gather"),
     "Dynamic shared memory.", "shared <= 49152", "shared"),
    ("conflicts", "tile", "passes", COMPILED, "offsets and swizzle, as `dsl layout` shows them",
     ("swizzle", "matrix", "vector", "access", "copy", "layout"),
     "Passes over the banks, beyond one a phase, of the worst access to this shared tile.",
     "conflicts(sa) == 0", "conflicts_of"),
    ("conflicts", None, "a block", COUNTED, "the emulator",
     ("swizzle", "matrix", "vector", "access", "convert_layout", "gather", "layout"),
     "Passes over the banks that only conflicts cause.", "conflicts == 0", "conflicts"),
    ("wavefronts", None, "times the fewest", COUNTED, "the emulator",
     ("swizzle", "matrix", "vector", "access", "convert_layout", "gather", "copy", "layout"),
     "Passes over the banks, over those without conflicts: 1 where `conflicts` is 0.",
     "wavefronts <= 1.0", "wavefronts"),
    ("sectors", None, "times the fewest", COUNTED, "the emulator", OF_SECTORS,
     "Sectors (32 bytes) of global memory that are moved, over as few as hold all distinct bytes accessed. "
     "Neighbours that several instructions store count as one sector.", "sectors <= 1.05", "sectors"),
    ("sectors", "tensor", "times the fewest", COUNTED, "the emulator", OF_SECTORS,
     "Sectors of accesses to this tensor.", "sectors(y) <= 1.05", "sectors_of"),
    ("barriers", None, "a block", COUNTED, "the emulator", OF_BARRIERS,
     "Block barriers executed.", "barriers == 2", "barriers"),
    ("barriers", "counter", "an iteration", COMPILED, "the code of the loop", OF_BARRIERS,
     "Block barriers in this loop.", "barriers(k) == 1", "barriers_in"),
    (CHOICE, "key", "option", COMPILED, "the record of choices, as `dsl why` lists it", (),
     "The option taken; of a key without a number, by all that have it.", "choice swizzle.sa == 3, 4, 4", "option"),
    ("time", None, "µs", TIMED, "events around the launch, the L2 cold: the median of 20", (),
     "Time of a launch line. `copy(BYTES)` is the time in which the device copies so much, read and written together.",
     'time <= 1.05 * copy(bytes(x) + bytes(y)) on "H200"', "time"),
))  # fmt: skip
TERMS = {(row.name, row.of is not None): row for row in _ROWS}
NAMES = tuple(dict.fromkeys(row.name for row in _ROWS))


def row_of(contract: ast.Contract) -> Term:
    return TERMS[contract.term, contract.of is not None]


def head_of(node: ast.Expr) -> str:
    """Returns the name at the beginning of a condition. Returns an empty text if the condition does not begin with a
    name."""
    left = node.operands[0] if isinstance(node, ast.Compare) else node
    left = left.function if isinstance(left, ast.Call) else left
    return left.id if isinstance(left, ast.Name) else ""


def read(node: ast.Expr, device: str | None) -> ast.Contract:
    """Converts a condition of the form `TERM OP BOUND` to a contract. Raises TileError `expect` for a condition of
    another form and for an unknown term."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        raise TileError("expect", node.loc, "a contract is TERM OP NUMBER", "expect spills == 0, registers <= 128")
    left, bound = node.operands
    call = left if isinstance(left, ast.Call) else None
    head = left if call is None else call.function
    if not isinstance(head, ast.Name) or head.id not in NAMES:
        name = head.id if isinstance(head, ast.Name) else ""
        hint = closest(name, NAMES) or "terms: " + ", ".join(NAMES)
        raise TileError("expect", left.loc, f"there is no term '{name}'" if name else "this is no term", hint)
    if head.id == CHOICE:
        raise TileError("expect", left.loc, "a choice has a key", "expect choice swizzle.s == 3, 4, 4")
    of = None
    if call is not None:
        if (head.id, True) not in TERMS:
            hint = f"expect {TERMS[head.id, False].example}"
            raise TileError("expect", left.loc, f"'{head.id}' is a figure of the whole kernel", hint)
        row = TERMS[head.id, True]
        if len(call.args) != 1 or call.keywords or not isinstance(call.args[0], ast.Name):
            raise TileError("expect", left.loc, f"'{head.id}' is of a {row.of}", f"expect {row.example}")
        of = call.args[0].id
    return ast.Contract(node.loc, head.id, of, node.ops[0], bound, device)


def is_contract(node: ast.Expr, bound: Collection[str]) -> bool:
    """Whether the condition of an example's `expect` is a contract. `bound` contains the names that the example
    assigns. An assigned name does not count as a term, since an array may be called `shared`."""
    return isinstance(node, ast.Compare) and head_of(node) in NAMES and head_of(node) not in bound


# ---- bounds ----


def has_copy(node: ast.Expr) -> bool:
    return any(_is_copy(each) for each in ast.walk(node))


def _is_copy(node: Any) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.function.id == COPY


def folded(contract: ast.Contract, evaluate: Callable[[ast.Expr], Any]) -> ast.Expr:
    """Evaluates the contract's bound to a number. Calls of `copy` stay in the expression, since only a GPU can measure
    the time of a copy. Raises TileError `expect` if the bound is not a number or has the wrong unit."""
    row = row_of(contract)

    def refused(node: ast.Expr, message: str) -> TileError:
        return TileError("expect", node.loc, message, f"expect {row.example}")

    def number(node: ast.Expr) -> ast.Number:
        value = evaluate(node)
        value = value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise refused(node, f"the bound of '{row.name}' is a number: {row.unit}")
        return ast.Number(node.loc, value)

    def fold(node: ast.Expr) -> ast.Expr:
        if not has_copy(node):
            return number(node)
        if contract.term != "time":
            raise refused(node, f"'{row.name}' is in {row.unit}, and 'copy' in µs, as 'time' alone is")
        match node:
            case ast.Binary():
                return ast.Binary(node.loc, node.op, fold(node.left), fold(node.right))
            case ast.Call(args=[size], keywords=named) if _is_copy(node) and not named and not has_copy(size):
                found = number(size)
                # 2^48 bytes are 256 TiB, which exceeds the memory of every device.
                if 0 <= found.value < 1 << 48:
                    return ast.Call(node.loc, node.function, [found], {})
                raise refused(size, f"'copy' takes a count of bytes; this is {found.value}")
        raise refused(node, "the bound of a time is made of numbers and 'copy(BYTES)'")

    return fold(contract.bound)


def with_copies(node: ast.Expr, copy: Callable[[float], float]) -> ast.Expr:
    """Replaces each `copy(BYTES)` in a bound from `folded` by a time in µs. The function `copy` maps a number of bytes
    to this time."""
    match node:
        case ast.Binary():
            return ast.Binary(node.loc, node.op, with_copies(node.left, copy), with_copies(node.right, copy))
        case ast.Call(args=[ast.Number(value=size)]):
            return ast.Number(node.loc, copy(size))
    return node


def option_of(node: ast.Expr, evaluate: Callable[[ast.Expr], Any]) -> str:
    """Converts an option of a choice to text. The option is a string, a word, a number, or a sequence of these."""
    if isinstance(node, ast.Sequence):
        return ", ".join(option_of(item, evaluate) for item in node.items)
    if isinstance(node, ast.String):
        return node.value
    return node.id if isinstance(node, ast.Name) else str(evaluate(node))


# ---- documents ----


def listing() -> str:
    """Formats the list of terms for docs/contracts.md. Each entry states the unit and the meaning of a figure, and how
    the figure becomes known. Only `dsl explain` shows the examples."""
    lines: list[str] = []
    for row in _ROWS:
        text = f"`{row.usage}`: {row.unit}, {row.known}. {row.doc} From {row.source}."
        lines += wrap(text, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"
