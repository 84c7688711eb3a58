"""Judges contracts, which compare a figure of a kernel with a bound (`expect registers <= 44`). The error of a failed
contract lists the compiler's choices that affect the figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from dsl.examples.evidence import Evidence, NotKnown
from dsl.examples.report import Verdict
from dsl.lowering.ir.choices import Choice, unmet
from dsl.lowering.ir.location import Loc, TileError
from dsl.schedules.resolve import StatedContract
from dsl.text import tree as ast
from dsl.text.contracts import CHOICE, Term, row_of, with_copies
from dsl.values.arithmetic import COMPARISONS
from dsl.values.numbers import Numbers

MOST_TOLD = 5
"""The greatest number of choices that an error lists."""


class JudgedContracts(Struct):
    """Verdicts on contracts, and an error for each contract that fails."""

    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[TileError] = field(default_factory=list)

    def judge(self, stated: StatedContract, kernels: Sequence[Evidence]) -> None:
        """Judges a contract for each kernel that contains its subject (a tensor, shared tile, loop or choice). Raises
        TileError if no kernel contains the subject."""
        contract, row = stated.contract, row_of(stated.contract)
        known = self.check(stated, kernels)
        # Time is measured for the whole launch line, so it is judged once.
        for kernel in known[-1:] if contract.term == "time" else known:
            self.verdicts.append(verdict := self.of_kernel(stated, row, kernel))
            if verdict.held is False:
                hint = "\n        ".join(verdict.why) or None
                self.failures.append(error := TileError("contract", stated.loc, verdict.message, hint))
                verdict.rendered = error.render()

    def check(self, stated: StatedContract, kernels: Sequence[Evidence]) -> list[Evidence]:
        """Returns the kernels that contain the subject of a contract. Raises TileError if there are none."""
        contract, row = stated.contract, row_of(stated.contract)
        known = [kernel for kernel in kernels if kernel.function is None or kernel.has(row.of, contract.of)]
        if known:
            return known
        assert row.of is not None and contract.of is not None
        if isinstance(stated.bound, str):
            raise unmet(contract.of, stated.bound, kernels[0].choices, stated.loc)
        raise kernels[0].missing(row.of, contract.of, stated.loc)

    def leave(self, stated: StatedContract, reason: str) -> None:
        """Records a contract that is not judged, and the reason."""
        self.verdicts.append(unjudged(stated, "", reason))

    def of_kernel(self, stated: StatedContract, row: Term, kernel: Evidence) -> Verdict:
        contract, verdict = stated.contract, unjudged(stated, kernel.label)
        verdict.unit = row.unit
        # A bound for one device says nothing about another device. The contract stays in the file for users of the
        # named device.
        if contract.device is not None and contract.device not in kernel.device:
            verdict.reason = f'it applies to "{contract.device}"; this is {kernel.device}'
            return verdict
        try:
            read: Callable[..., Any] = getattr(kernel, row.read)
            verdict.figure = read(*([] if row.of is None else [contract.of]))
        except NotKnown as error:
            verdict.reason = str(error)
            return verdict
        verdict.bound = bound_of(stated, kernel)
        verdict.held = COMPARISONS[contract.op](verdict.figure, verdict.bound)
        # The choices behind a figure are searched only if the contract fails.
        if not verdict.held:
            found = verdict.figure if isinstance(verdict.figure, str) else f"{said(verdict.figure)} {row.unit}"
            limit = "" if str(verdict.bound) in contract.text else f" ({said(verdict.bound)})"
            verdict.message = f"{contract.text}{limit}: {found}, {kernel.label} on {kernel.device}"
            verdict.why = list(why(contract, row, kernel))
        return verdict


def unjudged(stated: StatedContract, kernel: str, reason: str | None = None) -> Verdict:
    """Makes the verdict on a contract that is not judged (yet). `reason` is why."""
    contract, loc = stated.contract, stated.loc
    return Verdict(contract.text, contract.name, loc.source.name, loc.line, loc.column, kernel, reason=reason)


def bound_of(stated: StatedContract, kernel: Evidence) -> float | str:
    """Returns the bound of a contract: a number or an option of a choice. Raises TileError `choice` if no choice with
    the contract's key has this option."""
    if isinstance(stated.bound, str):
        key = stated.contract.of
        assert key is not None
        if not any(stated.bound in kernel.choices[name].options for name in kernel.keys(key)):
            raise unmet(key, stated.bound, kernel.choices, stated.loc)
        return stated.bound
    copy = kernel.copy_us
    value: float = Numbers({})(stated.bound if copy is None else with_copies(stated.bound, copy))
    return value


def said(value: Any) -> str:
    """Formats a figure: an integer, or a number with four digits."""
    return f"{value:,.4g}" if isinstance(value, float) and not value.is_integer() else f"{value:,.0f}"


# ---- why ----


def why(contract: ast.Contract, row: Term, kernel: Evidence) -> Iterator[str]:
    """Yields the choices that may have caused a failed contract, in words. Choices that the user forced come first,
    then choices that affect the contract's term. Among the latter, choices with a cheaper option come first, then
    choices in the most expensive lines."""
    if kernel.function is None:
        return
    lines = kernel.worst_lines(contract.term)
    named = {name: choice for name, choice in kernel.choices.items() if touches(contract, row, choice)}
    ranked = sorted(named, key=lambda name: rank(named[name], row, lines))
    others = [name for name, choice in kernel.choices.items() if is_forced(choice) and name not in named]
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys([*(n for n in ranked if is_forced(named[n])), *others, *ranked]):
        # Equal choices share a line, because a kernel may have dozens of equal choices, one for each access.
        groups.setdefault(told(kernel.choices[name]), []).append(name)
    cap = kernel.function.lines.get(("maxnreg", "maxnreg"))
    # The register cap is a property of the schedule and not a choice. The cap is the most likely cause of spills.
    if cap is not None and contract.term in ("registers", "spills"):
        yield f"line {cap.line}: maxnreg {kernel.function.number('maxnreg')}"
    for text, names in list(groups.items())[:MOST_TOLD]:
        stem = kernel.choices[names[0]].stem
        yield text if len(names) == 1 else text.replace(f"{stem} is", f"{stem} ×{len(names)} is", 1)
    if len(groups) > MOST_TOLD:
        yield f"… and {len(groups) - MOST_TOLD} more choices: dsl why"


def touches(contract: ast.Contract, row: Term, choice: Choice) -> bool:
    """Returns whether a choice affects the term of a contract and has another option."""
    if contract.term == CHOICE:
        return contract.of in (choice.kind, choice.stem, f"{choice.stem}[{choice.number}]")
    if choice.kind not in row.kinds or len(choice.options) == 1:
        return False
    return contract.of is None or row.of == "counter" or contract.of in choice.subject.split(".") or choice.is_pinned


def is_forced(choice: Choice) -> bool:
    """Returns whether the user forced the choice against the compiler's rule. Properties of the schedule do not
    count."""
    return choice.is_pinned and not choice.is_property and choice.taken != choice.rule


def rank(choice: Choice, row: Term, lines: Sequence[int]) -> tuple[bool, int, int]:
    """Returns the sort key of a choice that affects a term. The most informative choice comes first."""
    costs = choice.costs
    best = min(costs.values(), default=0)
    # Without costs, the options are listed from best to worst.
    is_dearer = costs.get(choice.taken, best) > best if costs else choice.taken != choice.options[0]
    line = -1 if choice.loc is None else outermost(choice.loc).line
    at = lines.index(line) if line in lines else len(lines)
    kind = row.kinds.index(choice.kind) if choice.kind in row.kinds else -1
    return not is_dearer, at, kind


def outermost(loc: Loc) -> Loc:
    return loc if loc.caller is None else outermost(loc.caller)


def told(choice: Choice) -> str:
    """Describes a choice in words: `line 65: swizzle.sa is none by --choose; the rule takes 3, 4, 4 (passes …: 3, 4, 4:
    21; none: 84)`."""
    costs = choice.costs
    options = "; ".join(f"{name}: {costs[name]:,g}" if name in costs else name for name in choice.options)
    text = "" if choice.loc is None else f"line {choice.loc.line}: "
    text += f"{choice.stem} is {choice.taken}"
    if choice.is_pinned:
        text += f" by {choice.by}"
        if not choice.is_property and choice.rule != choice.taken:
            text += f"; the rule takes {choice.rule}"
    elif choice.because:
        text += f": {choice.because}"
    return text + f" ({choice.unit + ': ' if choice.unit and costs else ''}{options})"
