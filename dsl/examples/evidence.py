"""Finds the figures of a kernel for contracts. `Evidence` has a method for each term of `dsl/text/contracts.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dsl.kernels.variant import Request
from dsl.lowering.ir.choices import Choice, keys_of
from dsl.lowering.ir.function import Function, Op, walk
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.targets import WARP
from dsl.runtime.errors import DeviceError

if TYPE_CHECKING:
    from dsl.runtime.chips import DeviceFacts
    from dsl.runtime.header import Header
    from dsl.runtime.tools import Assembly


class NotKnown(Exception):
    """Raised if a figure is not known here. The message is the reason."""


class Evidence(Struct, dict=True):
    """The known facts about one kernel of a launch.

    `made` returns the kernel's header and PTX, which some terms need. `function` is the IR after all passes, or None if
    the kernel's text was edited by hand. `registers_known` and `spills_known` come from the driver. `counters` are the
    emulator's counters for `blocks` blocks. `time_us` is the time of the launch line on a GPU. `copy_us(bytes)` returns
    the time of copying so many bytes. `assembles` permits running the assembler."""

    request: Request
    function: Function | None
    facts: DeviceFacts
    device: str
    made: Callable[[], tuple[Header, str]]
    registers_known: int | None = None
    spills_known: int | None = None
    counters: Any = None
    blocks: int = 0
    time_us: float | None = None
    copy_us: Callable[[float], float] | None = None
    assembles: bool = True

    @property
    def label(self) -> str:
        """The kernel's name in messages, for example `softmax_rows with lanes (T=f16, rows=4096, cols=1000)`."""
        request = self.request
        about = ", ".join(f"{name}={value}" for name, value in {**request.types, **request.dims}.items())
        return (
            request.kernel
            + (f" with {request.schedule}" if request.schedule else "")
            + (f" ({about})" if about else "")
        )

    @property
    def code(self) -> Function:
        if self.function is None:
            raise NotKnown("the kernel's text was edited by hand")
        return self.function

    @cached_property
    def choices(self) -> dict[str, Choice]:
        return {} if self.function is None else self.function.choices.keyed()

    # ---- subjects of terms ----

    def names(self, kind: str) -> dict[str, Any]:
        """Maps names to the kernel's tensors, shared tiles or loops. `kind` is "tensor", "tile" or "counter" (of a
        loop)."""
        function = self.code
        if kind == "tensor":
            return {p.name: p for p in function.params if p.kind == "tensor" and p.value is not None}
        if kind == "tile":
            return {op.attrs["name"]: op for op in walk(function.body) if op.spec.allocates}
        return {name: op for op in walk(function.body) for name in counters_of(op)}

    def has(self, kind: str | None, name: str | None) -> bool:
        if kind == "key":
            return any(name in keys_of(each, choice) for each, choice in self.choices.items())
        return kind is None or name in self.names(kind)

    def missing(self, kind: str, name: str, loc: Loc) -> TileError:
        """Returns the error for a name that the kernel does not contain."""
        known = list(self.names(kind))
        what = {"tile": "shared tile", "counter": "loop of the run that counts with"}.get(kind, kind)
        hint = closest(name, known) or (f"known: {', '.join(known)}" if known else None)
        return TileError("expect", loc, f"'{self.request.kernel}' has no {what} '{name}'", hint)

    # ---- compiled ----

    def shared(self) -> int:
        return self.code.number("shared_bytes")

    def conflicts_of(self, tile: str) -> int:
        from dsl.lowering.passes.swizzle_shared import bank_conflicts

        mine = [(op, beyond) for op, beyond in bank_conflicts(self.code) if op.operands[0].name == tile]
        hidden = next((op for op, beyond in mine if beyond is None), None)
        worst = max((beyond for _, beyond in mine if beyond is not None), default=0)
        # An access with unknown conflicts matters only if the others have none. With known conflicts, the contract
        # fails in any case.
        if hidden is not None and worst == 0:
            place = "" if hidden.loc is None else f" in line {hidden.loc.line}"
            raise NotKnown(f"data or a mask decide where the access{place} goes; 'conflicts' counts them")
        return worst

    def barriers_in(self, counter: str) -> int:
        """Returns the number of block barriers in a loop with this counter. Several loops may have this counter, for
        example a loop and its peeled iterations. Then the greatest number is returned."""
        loops = [op for op in walk(self.code.body) if counter in counters_of(op)]
        inside = ([op for op in walk(loop.regions[-1]) if op.spec.orders == "threads"] for loop in loops)
        return max(sum(op.attrs["scope"] == "block" for op in barriers) for barriers in inside)

    def option(self, key: str) -> str:
        """Returns the options that the choices with this key took, without duplicates, as text."""
        made = self.code.choices.keyed().items()
        return "; ".join(dict.fromkeys(choice.taken for name, choice in made if key in keys_of(name, choice)))

    def keys(self, key: str) -> list[str]:
        """Returns the full names of the choices that match a key."""
        return [name for name, choice in self.choices.items() if key in keys_of(name, choice)]

    # ---- assembled ----

    def assembled(self) -> Assembly:
        """Assembles the kernel. Raises DeviceError if there is no assembler, and LaunchError if it rejects the PTX."""
        from dsl.runtime import assemble

        header, ptx = self.made()
        return assemble(ptx, header.arch, header.entry, header.maxnreg)

    @cached_property
    def assembly(self) -> Assembly:
        if not self.assembles:
            raise NotKnown("it needs the assembler: --assemble")
        try:
            return self.assembled()
        except DeviceError as error:
            raise NotKnown("; ".join(filter(None, [error.message, error.hint]))) from None

    def registers(self) -> int:
        # On a GPU the driver assembles the kernel. The driver's version may differ from the version of ptxas.
        return self.assembly.registers if self.registers_known is None else self.registers_known

    def spills(self) -> int:
        known = self.spills_known
        return self.assembly.spill_stores + self.assembly.spill_loads if known is None else known

    def instructions(self) -> int:
        from dsl.runtime.machine_code import instruction_count

        return instruction_count(self.assembly.cubin, self.made()[0].entry)

    def occupancy(self) -> float:
        from dsl.runtime.chips import occupancy

        header, _ = self.made()
        return occupancy(self.facts, self.registers(), header.threads, header.shared_bytes)[0]

    # ---- counted ----

    @property
    def counted(self) -> Any:
        if self.counters is None:
            raise NotKnown(f"only the emulator counts it (--device emulator); this is {self.device}")
        return self.counters

    def conflicts(self) -> float:
        return self.a_block(self.counted.totals.bank_conflicts)

    def barriers(self) -> float:
        # The emulator counts a barrier once for each warp that arrives. A contract counts the barrier once.
        return self.a_block(self.counted.totals.barriers / -(-self.made()[0].threads // WARP))

    def a_block(self, count: float) -> float:
        return count / self.blocks if self.blocks else 0.0

    def wavefronts(self) -> float:
        return self.counted.totals.wavefronts_over_fewest or 1.0

    def sectors(self) -> float:
        # Without accesses there is no ratio, and 0 sectors are as few as possible.
        return self.counted.totals.sectors_over_fewest or 1.0

    def sectors_of(self, tensor: str) -> float:
        found = self.counted.by_array.get(tensor)
        return 1.0 if found is None else found.sectors_over_fewest or 1.0

    # ---- timed ----

    def time(self) -> float:
        if self.time_us is None:
            raise NotKnown(f"only a GPU measures it; this is {self.device}")
        return self.time_us

    # ---- origins of figures ----

    def worst_lines(self, term: str) -> list[int]:
        """Returns the source lines that make a counted term too large, worst first."""
        if self.counters is None:
            return []
        beyond: Mapping[str, Callable[[Any], float]] = {
            "conflicts": lambda c: c.bank_conflicts,
            "wavefronts": lambda c: c.bank_conflicts,
            "sectors": lambda c: c.sectors - c.global_ideal_sectors,
            "barriers": lambda c: c.barriers,
        }
        if term not in beyond:
            return []
        rows = {line: beyond[term](counters) for line, counters in self.counters.by_line.items()}
        return sorted((line for line, count in rows.items() if count > 0), key=lambda line: -rows[line])


def counters_of(op: Op) -> Iterator[str]:
    """Yields the name of a loop's counter, if the operation is a loop with a named counter."""
    if op.spec.control.loops and op.spec.control.counters and op.regions[0].args[0].name is not None:
        yield op.regions[0].args[0].name
