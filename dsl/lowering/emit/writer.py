"""The context of emission rules: the text of one function, and the data that the rules share."""

from __future__ import annotations

from dsl.lowering.emit.accesses import Accesses
from dsl.lowering.emit.calls import Calls
from dsl.lowering.emit.head import Head
from dsl.lowering.emit.maps import Maps
from dsl.lowering.emit.needed import Needed
from dsl.lowering.emit.switches import Switches
from dsl.lowering.emit.text import Text
from dsl.lowering.emit.words import Words
from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.targets import Target


class Writer:
    """Combines the objects that emission rules use, such as `text`, `registers` and `head`. `loops` is the number of
    loops around the current operation."""

    def __init__(self, function: Function, target: Target, numbered: bool = False):
        self.function, self.target = function, target
        self.text = text = Text(function, numbered)
        self.plugins = function.choices.plugins
        self.calls = calls = Calls(text, target, self.plugins.instructions)
        self.head = Head(text, calls, function)
        self.words = Words(text)
        self.registers = self.words.registers
        self.maps = Maps(function)
        self.switches = Switches(function.choices)
        self.accesses = Accesses(function, self.maps, self.switches)
        self.needed = Needed()
        self.globals: list[str] = []
        self.loops = 0
        self.has_warpgroups = any(op.spec.wgmma for op in walk(function.body))
        self.contract = " contract" if function.word("contract") == "fast" else ""
        # short names for what the rules use most
        self.facts = self.maps.facts
        self.index, self.llvm, self.bits = text.index, text.llvm, text.bits
        self.at, self.do, self.let = text.at, text.do, text.let
        self.start, self.fresh_label = text.start, text.fresh_label
        self.intrinsic, self.template = calls.intrinsic, calls.template
