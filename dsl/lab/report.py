"""Prints tuning results, and returns them as data: points from fast to slow, the effect of each setting, rejected
points."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from dsl.examples.report import finite
from dsl.lab.models import rank_correlation
from dsl.lab.outcome import Outcome
from dsl.lab.place import TuningPlace
from dsl.lab.trial import RANK, Trial
from dsl.text.figures import COLUMNS, whole
from dsl.text.terminal import Terminal, table

SHOWN = 20
"""Number of points in a table, besides points that tie with the best. `--json` and the log have all points."""
TAKEN = ("registers", "shared_bytes", "threads")
"""The resources that the table shows for each launch of a point."""


def varying(outcome: Outcome) -> tuple[dict[str, Any], list[str]]:
    """The settings that are equal for all candidates, and the names of the other settings."""
    rows = [candidate.settings for candidate in outcome.candidates.values()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    same = [name for name in names if len({str(row.get(name)) for row in rows}) == 1]
    return {name: rows[0][name] for name in same}, [name for name in names if name not in same]


def landscape(outcome: Outcome) -> dict[str, dict[str, float]]:
    """For each setting that varies, maps each of its values to the best result with this value.

    On a GPU, the result is the median time in microseconds. On the emulator, it is the number of points with better
    counters.
    """
    out: dict[str, dict[str, float]] = {}
    fine, intervals = outcome.fine, outcome.intervals()
    for name in varying(outcome)[1]:
        best: dict[str, float] = {}
        for place, index in enumerate(fine):
            trial, setting = outcome.trials[index], outcome.candidates[index].settings
            if name in setting:
                better = sum(outcome.trials[other].rank < trial.rank for other in fine[:place])
                best.setdefault(str(setting[name]), intervals[index][0] if index in intervals else better)
        # A setting that has a single value among the right points allows no comparison.
        if len(best) > 1:
            out[name] = best
    return out


def title(outcome: Outcome) -> str:
    facts = outcome.call.planner().facts()
    return f"{facts.call} " + ", ".join(f"{n}={v}" for n, v in {**facts.types, **facts.dims, **facts.options}.items())


def show(outcome: Outcome, place: TuningPlace, console: Terminal) -> None:
    """Prints one outcome."""
    console.print()
    console.say(f"{title(outcome)} on {place.name}", "bold")
    shared, names = varying(outcome)
    if shared:
        console.say("  " + ", ".join(f"{n}={v}" for n, v in shared.items()))
    fine, ties = outcome.fine, set(outcome.ties)
    if fine:
        show_points(outcome, names, fine, ties, console)
        console.say(verdict(outcome, ties))
    for name, best in landscape(outcome).items():
        console.say(f"  best by {name}: {by_value(outcome, best)}")
    show_thrown_out(outcome, console)
    if outcome.left_out:
        console.say(f"  {outcome.left_out} points were not tried: no time was left")
    if outcome.found:
        console.say(f"  {outcome.found} of {len(outcome.candidates)} points are from the log")
    if outcome.predicted:
        console.say("  the model's order: " + of_an_order(outcome, outcome.predicted))
    if outcome.costs:
        console.say("  the cost's order: " + of_an_order(outcome, outcome.costs) + of_the_choice(outcome))
    if outcome.slower:
        least, fastest = min(outcome.slower.values()), min(middle for middle, _, _ in outcome.intervals().values())
        said = f"{least:.1f} us, {least / fastest:.2f} times the best time, are predicted for the cheapest of them"
        count = f"{len(outcome.slower)} of {outcome.points} points"
        console.say(f"  {count} were not tried: {said} (--search all tries them)")
    if unasked := outcome.points - len(outcome.candidates) - len(outcome.slower):
        console.say(f"  {unasked} of {outcome.points} points were not requested")


def of_an_order(outcome: Outcome, predicted: Mapping[int, float]) -> str:
    """Describes how well a predicted order of the points agrees with the results."""
    both = [index for index in outcome.fine if predicted.get(index, math.inf) < math.inf]
    ranks = [outcome.trials[index].rank for index in both]
    found = rank_correlation([ranks.index(rank) for rank in ranks], [predicted[index] for index in both])
    said = "no rank correlation" if found is None else f"rank correlation {found:.2f}"
    return f"{said} with the results of {len(both)} points"


def of_the_choice(outcome: Outcome) -> str:
    """Describes how the time of the point with the least cost compares with the best time. The text is empty without
    times."""
    times = {index: middle for index, (middle, _, _) in outcome.intervals().items() if index in outcome.fine}
    known = [index for index in times if index in outcome.costs]
    if not known:
        return ""
    taken = min(known, key=lambda index: (outcome.costs[index], index))
    return f"; its choice takes {times[taken] / min(times.values()):.2f} times the best time"


def show_points(outcome: Outcome, names: list[str], fine: list[int], ties: set[int], console: Terminal) -> None:
    """Prints the points from fast to slow."""
    counted = outcome.trials[fine[0]].status == "counted"
    figures = RANK if counted else ("median us", "95% interval", "runs", "of default", "GB/s")
    heads = [COLUMNS[name].label if name in COLUMNS else name for name in (*figures, *TAKEN)]
    shown = [index for place, index in enumerate(fine) if place < SHOWN or index in ties]
    rows = []
    for index in shown:
        trial, setting = outcome.trials[index], outcome.candidates[index].settings
        mark = "*" if index == outcome.winner else "=" if index in ties else ""
        cells = [whole(count) for count in trial.rank] if counted else times(trial, outcome.moves)
        rows.append([mark, *(str(setting.get(name, "-")) for name in names), *cells, *resources(trial)])
    console.show(table(["", *names, *heads], rows, left=1 + len(names)), 0)
    if len(fine) > len(shown):
        console.say(f"  and {len(fine) - len(shown)} slower points")


def times(trial: Trial, moves: float | None) -> list[str]:
    median, low, high = trial.interval
    rate = "-" if moves is None else f"{moves / median / 1e3:,.0f}"
    share = "-" if trial.reference_us is None else f"{median / trial.reference_us:.3f}"
    return [f"{median:.2f}", f"{low:.2f} to {high:.2f}", str(len(trial.times_us)), share, rate]


def resources(trial: Trial) -> list[str]:
    """A text for each resource, such as `40 + 32` registers."""
    return [" + ".join(COLUMNS[name].text(getattr(step, name)) for step in trial.launches) for name in TAKEN]


def verdict(outcome: Outcome, ties: set[int]) -> str:
    winner = outcome.winner
    assert winner is not None
    best = outcome.candidates[winner].described()
    counted = outcome.trials[winner].status == "counted"
    how = "equal counters" if counted else "overlapping intervals"
    also = f", which ties with {len(ties) - 1} more ({how}): the first in the file's order" if len(ties) > 1 else ""
    text = f"  * {best}{also}"
    default = next((i for i, c in outcome.candidates.items() if c.is_default), None)
    if counted:
        text += "\n  by the emulator's counters: they do not predict time"
    elif default is not None and default != winner and default in outcome.trials and outcome.trials[default].is_fine:
        intervals = outcome.intervals()
        quotient = intervals[default][0] / intervals[winner][0]
        text += f"\n  the default takes {quotient:.3f} times as long" + (" (a tie)" if default in ties else "")
    return text


def by_value(outcome: Outcome, best: Mapping[str, float]) -> str:
    if outcome.trials[outcome.fine[0]].status == "counted":
        return ", ".join(f"{value}: {'first' if not n else f'after {int(n)}'}" for value, n in best.items())
    return ", ".join(f"{value}: {median:.2f} us" for value, median in best.items())


def show_thrown_out(outcome: Outcome, console: Terminal) -> None:
    """Prints how many points were rejected, and each distinct reason with the first point that has it."""
    out = outcome.thrown_out
    if not out:
        return
    counts = Counter(outcome.trials[index].status for index in out)
    console.say("  thrown out: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    seen: set[str] = set()
    for index in out:
        trial = outcome.trials[index]
        reason = trial.reason.partition("\n")[0]
        if reason not in seen:
            seen.add(reason)
            point = outcome.candidates[index].described()
            console.say(f"    {trial.status}: {point}: {reason}")


def as_json(outcomes: list[Outcome], place: TuningPlace, file: str) -> dict[str, Any]:
    """The data of `dsl tune --json`."""
    records = []
    for outcome in outcomes:
        facts, ties, winner = outcome.call.planner().facts(), {*outcome.ties}, outcome.winner
        places = {index: place for place, index in enumerate(outcome.fine, 1)}
        points = []
        for index, candidate in outcome.candidates.items():
            trial = outcome.trials.get(index)
            row: dict[str, Any] = {"steps": json.loads(candidate.key), "status": "left out"}
            if candidate.edited is not None:
                row["from"] = candidate.edited.name
            if index in outcome.predicted:
                row["predicted"] = outcome.predicted[index]
            if trial is not None:
                launches = [{k: v for k, v in to_builtins(s).items() if k != "choices"} for s in trial.launches]
                row |= {"status": trial.status, "reason": trial.reason, "launches": launches}
                if trial.status == "measured":
                    median, low, high = trial.interval
                    row |= {"median_us": median, "interval_us": [low, high], "runs": len(trial.times_us)}
                    row |= {"reference_us": trial.reference_us, "where": trial.where}
                elif trial.status == "counted":
                    row |= {"counters": trial.counters, "rank": list(trial.rank)}
                row |= {"place": places.get(index), "ties": index in ties, "best": index == winner}
            points.append(row)
        about: dict[str, Any] = {"call": facts.call, "types": dict(facts.types), "dims": dict(facts.dims)}
        about |= {"options": dict(facts.options), "from_log": outcome.found, "left_out": outcome.left_out}
        about["not_asked_for"] = outcome.points - len(outcome.candidates)
        about["predicted_slower"] = len(outcome.slower)
        about["predicted_slower_us"] = min(outcome.slower.values(), default=None)
        records.append({**about, "moves": outcome.moves, "landscape": landscape(outcome), "points": points})
    ranked = "counters" if place.ordinal is None else "time"
    return finite({"file": file, "device": place.name, "ranked_by": ranked, "outcomes": records})
