"""Dataclasses for the rows of the tables that `dsl.why`, `dsl.tune` and others return. The rows contain the data of
`--json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """`dsl.why`: one or more equal choices of a kernel. docs/choices.md explains the fields. `override` maps each other
    option to the schedule line that selects it. With `measure=True`, `measured` maps each option to figures of the code
    with this option."""

    kernel: str
    key: str
    keys: list[str]
    kind: str
    subject: str
    line: int | None
    options: list[str]
    taken: str
    rule: str
    by: str
    because: str
    costs: dict[str, float]
    unit: str
    unsafe: list[str]
    override: dict[str, str]
    measured: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AblationRow:
    """`dsl.ablate`: the code of a launch after a group of choices got another option. `figures` are as in
    `Trial.figures`. On a GPU, `ratio` is the time divided by the time of the unchanged code. `ratio_interval` is its 95
    % interval."""

    call: str
    name: str
    reason: str
    figures: dict[str, Any]
    group: str = ""
    option: str = ""
    choose: dict[str, str] = field(default_factory=dict)
    ceiling: bool = False
    same_code: bool = False
    moved: list[str] = field(default_factory=list)
    ratio: float | None = None
    ratio_interval: list[float] | None = None
    probability: float | None = None
    differs: bool | None = None


@dataclass(frozen=True, slots=True)
class ShareRow:
    """`dsl.ablate(…, shapley=N)`: the mean gain when a group of choices changes from plain options to those that the
    compiler chose. `interval` is its 95 % interval."""

    call: str
    figure: str
    group: str
    plain: str
    chosen: str
    gain: float
    interval: list[float]


@dataclass(frozen=True, slots=True)
class BorderRow:
    """`dsl.bisect`: a choice, or a commit, at which the predicate's answer changes. `before` and `after` are the
    figures on both sides of the change."""

    label: str
    option: str
    taken: str
    choose: dict[str, str]
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """`dsl.diff`: a difference between the two sides of a launch.

    `what` is the kind of row: a `choice`, `constant` or `level` that differs, a `line` whose counters differ, or a
    `figure`. Figures are listed even if they are equal. `a` and `b` are the values on sides A and B, or None if a side
    lacks the value. For a `level`, `a` is the number of lines that only A's text has, and `b` the number that only B's
    has. `ratio` is b / a. For times, `ratio` is the median over rounds that timed both sides, and `ratio_interval` is
    its 95 % interval."""

    launch: str
    what: str
    name: str
    a: Any = None
    b: Any = None
    ratio: float | None = None
    ratio_interval: list[float] | None = None
    kernel: str = ""
    line: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class TunedRow:
    """`dsl.tune`: a point of a launch (schedule and constants).

    `place` is the rank among the points with a right result, from 1 for the fastest. docs/tuning.md explains `best` and
    `ties`. `settings` contains the schedule and the constants. `figures` contains either the emulator's counters, or
    the `time` in microseconds with the ends `low` and `high` of its interval. `figures` also contains registers, spills
    and SASS instructions, each the maximum over the point's launches."""

    call: str
    dims: dict[str, int]
    types: dict[str, str]
    options: dict[str, Any]
    settings: dict[str, Any]
    status: str
    reason: str = ""
    place: int | None = None
    best: bool = False
    ties: bool = False
    figures: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FuzzRow:
    """`dsl.fuzz`: a failing set of random options, `drawn`. `choose` is the part that is needed to fail."""

    number: int
    example: str | None
    verdict: str
    reason: str
    choose: dict[str, str]
    drawn: dict[str, str]


@dataclass(frozen=True, slots=True)
class BenchedRow:
    """`dsl.bench`: one way to run an example. If it failed, `failed` is the reason."""

    example: str | None
    options: dict[str, Any]
    kernels: list[str]
    schedules: list[str]
    peer: str | None = None
    from_: str | None = None
    failed: str | None = None
    passed: bool | None = None
    dims: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    times_us: list[float] | None = None
    gbps: float | None = None
    tflops: float | None = None
    share_of_limit: float | None = None
    counted_blocks: list[int] = field(default_factory=list)
    figures: dict[str, float | None] = field(default_factory=dict)
    launches: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CountedRow:
    """`dsl.count`: a PTX text that was launched."""

    file: str
    entry: str
    target: str
    device: str
    passed: bool | None
    figures: dict[str, float | None]
    findings: list[dict[str, Any]]
    checks: list[dict[str, Any]]
    counters: dict[str, float] | None
    by_line: dict[str, dict[str, float]]
    by_ptx_line: dict[str, dict[str, float]]
    by_array: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """`dsl.layouts`: a named tile of a kernel. `svg` is its picture, which a notebook shows."""

    kernel: str
    schedule: str | None
    line: int
    name: str
    type: str
    layout: str
    draw: Callable[[], str] = field(repr=False, compare=False)

    @property
    def svg(self) -> str:
        """The picture as an SVG document."""
        return self.draw()

    def _repr_html_(self) -> str:
        return self.svg


def row_of(kind: type[Made], record: Mapping[str, Any], **more: Any) -> Made:
    """Makes a row from a record. A field `figures` receives all keys that are not fields."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    # `from` is a Python keyword, so the field is named `from_`.
    known = {f"{name}_" if f"{name}_" in names else name: value for name, value in record.items()}
    # Counters vary by kernel and device, so they are not fields.
    figures = {name: value for name, value in known.items() if name not in names}
    if "figures" in names - known.keys():
        more["figures"] = figures
    return kind(**{name: value for name, value in known.items() if name in names}, **more)


def flat(row: Any) -> dict[str, Any]:
    """Converts a row to a dict. The figures become keys beside the other fields."""
    # `draw` is a function that refers to the kernel, so it is not data.
    found = {each.name.rstrip("_"): getattr(row, each.name) for each in fields(row) if each.name != "draw"}
    return found | found.pop("figures", {})
