"""Judges contracts (such as `expect barriers == 0`) for `dsl check`, without a run of the kernel."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from dsl.examples.contracts import JudgedContracts
from dsl.examples.evidence import Evidence
from dsl.kernels.compile import Lowered, compile_lowered, lower
from dsl.kernels.variant import Request, resolve
from dsl.lowering.emit import emit
from dsl.lowering.ir.location import TileError
from dsl.runtime.chips import emulated_facts
from dsl.schedules.resolve import StatedContract
from dsl.studies.kept_checks import CheckedParts, KeptPart, same_request
from dsl.text import tree as ast
from dsl.text.contracts import ASSEMBLED, CHOICE, COMPILED, row_of
from dsl.text.program import Program

if TYPE_CHECKING:
    from dsl.runtime.header import Header


class Finds(Protocol):
    """Collects errors and notes."""

    told: int

    def add(self, error: TileError) -> None: ...

    def note(self, note: TileError) -> None: ...


def words_of(bound: str | ast.Expr) -> str:
    """Returns a text of a bound without locations. Names in it have been replaced by their values."""
    if isinstance(bound, str):
        return bound
    fields = ("id", "value", "op", "ops", "name")
    nodes = ([type(node).__name__, *(getattr(node, name, None) for name in fields)] for node in ast.walk(bound))
    return repr([[each for each in node if isinstance(each, str | int | float | list)] for node in nodes])


class StaticContracts(Struct):
    """The contracts of a file.

    `expected` lists the contracts in examples, each with its launch. `planned` maps each launch to its variants.
    `known` lists the variants that were checked with the dims of a launch.
    """

    program: Program
    found: Finds
    assemble: bool
    parts: CheckedParts
    expected: list[tuple[ast.Launch, StatedContract]] = field(default_factory=list)
    planned: dict[ast.Launch, list[Request]] = field(default_factory=dict)
    known: list[Evidence] = field(default_factory=list)
    waiting: list[StatedContract] = field(default_factory=list)  # for the assembler
    judged: set[tuple[str, str | None]] = field(default_factory=set)  # kernels and schedules

    def of_schedule(self, request: Request) -> list[StatedContract]:
        return resolve(self.program, request).schedule.contracts

    def emitted(self, lowered: Lowered) -> Evidence:
        """Emits the code of a variant, so that the compiler makes all its choices. With `assemble`, also compiles the
        variant to PTX.

        Raises a TileError if a forced option matches no choice.
        """
        request, function = lowered.variant.request, lowered.variant.function

        @cache
        def made() -> tuple[Header, str]:
            compiled = compile_lowered(self.program, lowered)
            return compiled.header, compiled.ptx

        if self.assemble:
            made()
        else:
            emit(function, lowered.variant.target)
            # Only the choice of LLVM's optimization level needs LLVM. Other checks do not load LLVM.
            if function.choices.forced or self.has_choices(request):
                from dsl.lowering.emit.codegen import llvm_level_for  # imports LLVM

                llvm_level_for(function)
                function.choices.check_met()
        # No device is needed, since the contract is judged for the target's chip.
        facts = emulated_facts(request.arch)
        return Evidence(request, function, facts, f"{facts.name}, {request.arch}", made, assembles=self.assemble)

    def has_choices(self, request: Request) -> bool:
        stated = [*(each for _, each in self.expected), *self.of_schedule(request)]
        return any(each.contract.term == CHOICE for each in stated)

    def judge_schedule(self, evidence: Evidence) -> None:
        """Judges the contracts in a variant's schedule. The variant must have the dims of a launch."""
        request = evidence.request
        self.known.append(evidence)
        self.judged.add((request.kernel, request.schedule))
        for stated in self.of_schedule(request):
            self.judge(stated, [evidence])

    def judge(self, stated: StatedContract, kernels: list[Evidence]) -> None:
        """Judges a contract for the kernels of a launch, and reports the errors."""
        try:
            self.judged_by(stated, kernels)
        except TileError as error:
            self.found.add(error)

    def judged_by(self, stated: StatedContract, kernels: list[Evidence]) -> None:
        row, judged = row_of(stated.contract), JudgedContracts()
        # Contracts on registers and spills need ptxas. If ptxas may not run, these contracts are only noted at the end.
        if row.known == ASSEMBLED and not self.assemble:
            self.waiting.append(stated)
            return
        if row.known not in (COMPILED, ASSEMBLED):
            judged.check(stated, kernels)
            return
        judged.judge(stated, kernels)
        for failure in judged.failures:
            self.found.add(failure)
        for verdict in judged.verdicts:
            if verdict.held is None:
                self.found.note(TileError("check", stated.loc, f"{verdict.text} is not judged: {verdict.reason}"))

    def finish(self) -> None:
        """Judges the contracts in examples, and adds notes on contracts that could not be judged."""
        for launch, stated in self.expected:
            self.judge_launch(self.planned.get(launch, []), stated)
        if self.waiting:
            count = len({each.loc for each in self.waiting})
            message = f"{count} contract{'s are' if count > 1 else ' is'} not judged: this needs the assembler"
            self.found.note(TileError("check", self.waiting[0].loc, message, "dsl check --assemble"))
        for (kernel, name), schedule in self.program.schedules.items():
            lines = [line for line in schedule.lines if isinstance(line, ast.Contract)]
            if lines and (kernel, name) not in self.judged:
                message = f"contracts of '{name}' are not judged: no example launches '{kernel}' with it"
                self.found.note(TileError("check", lines[0].loc, message))

    def judge_launch(self, requests: list[Request], stated: StatedContract) -> None:
        """Judges the contract of an example for the variants of its launch, unless it held in the same texts before."""
        contract, waits = stated.contract, row_of(stated.contract).known == ASSEMBLED and not self.assemble
        about = (
            contract.text,
            contract.device,
            words_of(stated.bound),
            [same_request(request) for request in requests],
        )
        key = self.parts.key_of_requests(requests, about) if requests else ""
        if key and self.parts.find(key) is not None:
            self.waiting += [stated] if waits else []
            return
        before = self.found.told
        kernels = [found for request in requests if (found := self.of(request)) is not None]
        if kernels:
            self.judge(stated, kernels)
            if key and self.found.told == before and len(kernels) == len(requests):
                self.parts.keep(key, KeptPart())

    @property
    def asks_choices(self) -> bool:
        """Whether an example has a contract about a choice, for which the compiler must make all its choices."""
        return any(each.contract.term == CHOICE for _, each in self.expected)

    def of(self, request: Request) -> Evidence | None:
        """A lowered variant of a launch. Returns None if the variant has an error, which is reported elsewhere."""
        for each in self.known:
            if each.request == request:
                return each
        try:
            # The schedule was checked with the dims of another launch, so this variant has not been lowered yet.
            self.known.append(self.emitted(lower(self.program, request)))
        except TileError:
            return None
        return self.known[-1]
