"""The conditions of `--until`, such as `registers <= 56 and result == right`."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dsl.lab.compiling import Code
from dsl.lab.experiment import Wanted
from dsl.lab.trial import VERDICTS
from dsl.lowering.ir.location import TileError, closest

TERM = re.compile(r"\s*([a-z_]+)\s*(<=|>=|==|!=|<|>)\s*([\w.]+)\s*")
OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
CODE = ("registers", "spills", "shared_bytes", "threads")
SASS = ("sass",)
TIMES = ("time", "ratio")


def known_names() -> tuple[str, ...]:
    from dsl.runtime.emulator import Counters

    return ("result", *CODE, *SASS, *TIMES, *Counters().figures)


def ends_differ(predicate: Predicate, ends: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bool:
    """Evaluates a predicate at two ends, and returns the answer at the first. Raises a TileError if an answer is
    unknown, or if both are the same."""
    answers = [predicate.holds(end) for end in ends]
    for answer, end, name in zip(answers, ends, names, strict=True):
        if answer is None:
            reason = f": {end['reason']}" if end.get("reason") else ""
            known = f"{predicate.said(end)}; result {end['result']}{reason}"
            raise TileError("option", None, f"'{predicate.text}' cannot be decided {name}: {known}")
    if answers[0] == answers[1]:
        how = "holds" if answers[0] else "does not hold"
        said = "; ".join(f"{name}: {predicate.said(end)}" for name, end in zip(names, ends, strict=True))
        message = f"'{predicate.text}' {how} at both ends: {said}"
        raise TileError("option", None, message, "choose a bound between the two, or another start")
    return bool(answers[0])


class FigureBound(Struct, frozen=True):
    """A comparison of a figure with a value, such as `registers <= 56`."""

    name: str
    sign: str
    value: float | str

    def holds(self, figures: Mapping[str, Any]) -> bool | None:
        """Whether the comparison is true for these figures. Returns None if the figure is unknown, or if its interval
        contains both answers.

        A figure may be a tuple (median, low, high). Then all three values must give the same answer.
        """
        found = figures.get(self.name)
        if found is None:
            return None
        compare = OPERATORS[self.sign]
        answers = {compare(one, self.value) for one in (found if isinstance(found, tuple) else (found,))}
        return answers.pop() if len(answers) == 1 else None


class Predicate(Struct, frozen=True):
    """A condition. It is true if all its terms are true."""

    text: str
    terms: tuple[FigureBound, ...]

    def holds(self, figures: Mapping[str, Any]) -> bool | None:
        """Returns False if a term is false. Otherwise returns None if a term is undecided, and True if all are true."""
        answers = [term.holds(figures) for term in self.terms]
        # A single failing term decides, whatever the other terms are.
        return False if False in answers else None if None in answers else True

    def said(self, figures: Mapping[str, Any]) -> str:
        """The figures that the terms compare, such as `registers 48`."""
        return ", ".join(f"{term.name} {in_words(figures.get(term.name))}" for term in self.terms)

    @property
    def names(self) -> set[str]:
        return {term.name for term in self.terms}

    @property
    def wanted(self) -> Wanted:
        """What a trial must measure for this condition."""
        return wanted_for(self.names)

    @property
    def is_timed(self) -> bool:
        return bool(self.names & {*TIMES})


def wanted_for(names: Collection[str]) -> Wanted:
    """Returns what a trial must measure to know these figures."""
    code: Code = "counted" if {*SASS} & {*names} else "assembled" if {*CODE} & {*names} else "none"
    return Wanted(code, bool({*names} - {*CODE, *SASS}), times=bool({*TIMES} & {*names}))


def check_figure(name: str) -> None:
    """Raises a TileError `option` for a name that is not a figure."""
    if name not in known_names():
        hint = closest(name, known_names()) or f"known: {', '.join(known_names())}"
        raise TileError("option", None, f"a trial has no figure '{name}'", hint)


def predicate(text: str) -> Predicate:
    """Parses a condition. Raises a TileError `option`."""
    return Predicate(text, tuple(term(part) for part in re.split(r"\band\b", text)))


def term(text: str) -> FigureBound:
    found = TERM.fullmatch(text)
    if found is None:
        hint = "--until 'registers <= 56 and result == right'"
        raise TileError("option", None, f"'{text.strip()[:60]}' does not compare a figure with a number", hint)
    name, sign, value = found.groups()
    check_figure(name)
    if name == "result":
        words = [*dict.fromkeys(VERDICTS.values())]
        if sign not in ("==", "!=") or value not in words:
            hint = f"result == {' | '.join(words)}"
            raise TileError("option", None, f"'{text.strip()[:60]}' is not a condition on a result", hint)
        return FigureBound(name, sign, value)
    try:
        return FigureBound(name, sign, float(value))
    except ValueError:
        raise TileError("option", None, f"'{value}' is not a number", f"{name} {sign} 56") from None


def in_words(value: Any) -> str:
    if value is None:
        return "is unknown"
    if isinstance(value, tuple):
        median, low, high = value
        return f"{median:.4g} ({low:.4g} to {high:.4g})"
    return value if isinstance(value, str) else f"{value:,.0f}"
