"""The functions `print` and `asm`."""

from __future__ import annotations

import re

from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DType
from dsl.lowering.ops import Mismatch
from dsl.values.bindings import Binding
from dsl.values.building import Building
from dsl.values.table import rows

row = rows("Text and machine code")

MOST = 16
"""The maximum number of operands of one `print` or `asm`."""


def _print(b: Building, loc: Loc, *args: Binding) -> tuple:
    if len(args) > MOST:
        b.error("call", loc, f"print takes 1 to {MOST} arguments; got {len(args)}")
    words = [a for a in args if isinstance(a, str)]
    values = [b.as_value(a, loc) for a in args if not isinstance(a, str)]
    if isinstance(args[0], str) and len(words) == 1 and args[0].count("{}"):
        if args[0].count("{}") != len(values):
            message = f"the text has {args[0].count('{}')} times '{{}}'; the call has {len(values)} to print"
            b.error("call", loc, message)
        text = args[0]
    else:
        text = " ".join(a if isinstance(a, str) else "{}" for a in args)
    b.place(loc)
    b.ir.op("print", b.ir.same_shape(values) if values else [], format=text)
    return ()


def _asm(b: Building, loc: Loc, *args: Binding) -> Binding:
    """Inserts PTX that runs on each element, as in `asm("add.s32 {d}, {0}, {1};", s32, a, b)`. If there are several
    results, they are called d0, d1, …"""
    if len(args) > MOST + 2:
        b.error("call", loc, f"asm takes 2 to {MOST + 2} arguments; got {len(args)}")
    if not isinstance(args[0], str):
        b.error("call", loc, "asm takes its text first", 'asm("add.s32 {d}, {0}, {1};", s32, a, b)')
    types = args[1] if isinstance(args[1], tuple) else (args[1],)
    if not types or not all(isinstance(t, DType) for t in types):
        b.error("type", loc, "asm takes the type of its result second (or a tuple of types)")
    values = b.ir.same_shape([b.as_value(v, loc) for v in args[2:]])
    places = set(re.findall(r"\{(\w+)\}", args[0]))
    names = {"d"} if len(types) == 1 else {f"d{i}" for i in range(len(types))}
    names |= {str(i) for i in range(len(values))}
    if places != names:
        wrong = sorted(places ^ names)[0]
        message = f"has no operand {{{wrong}}}" if wrong in places else f"does not use operand {{{wrong}}}"
        b.error("call", loc, f"the text {message}", "results are {d} (or {d0}, {d1}), arguments {0}, {1}")
    b.place(loc)
    try:
        results = b.ir.op("asm", values, text=args[0], types=list(types)).results
    except Mismatch as error:
        b.error("type", loc, f"asm: {error}")
    return tuple(results) if len(types) > 1 else results[0]


row("print(text, …)", "prints text and values of each thread", tiles=_print)
row("asm(text, T, …)", "PTX for each element; results {d} or {d0}, {d1}; arguments {0}, {1}", tiles=_asm)
