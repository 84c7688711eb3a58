"""`dsl tune --search`: what each search asks for, and how soon it has the best."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tuned_kernel import SCALE, Timer, best, constants, dsl, outcome, plugin, ties

from dsl.lab import tuning
from dsl.lab.contest import RUNGS
from dsl.lab.search import SEARCHES, Point, Search, search
from dsl.lab.search_optuna import as_number
from dsl.lab.searches import search_named
from dsl.lab.trial import Trial
from dsl.lowering.ir.location import TileError

Cost = Callable[[Point], float | None]


def space() -> list[Point]:
    """Two schedules: `tiled` has 5 · 4 · 3 points whose DEPTH depends on its WARPS, `plain` has 2."""
    rows: list[dict[str, Any]] = [
        {"schedule": "tiled", "WARPS": warps, "TILE": tile, "DEPTH": depth}
        for warps, tile in product((4, 1, 2, 8, 16), (64, 16, 32, 128))
        for depth in (warps, 2 * warps, 4 * warps)
    ]
    rows += [{"schedule": "plain", "PER": per} for per in (1, 2)]
    return [Point(index, row, index in (0, 60)) for index, row in enumerate(rows)]


def cost(point: Point) -> float:
    """Each setting by itself; least at WARPS=2, TILE=32, DEPTH=8."""
    row = point.settings
    if row["schedule"] == "plain":
        return 90.0 + row["PER"]
    return 10 * abs(row["WARPS"] - 2) + abs(row["TILE"] - 32) + abs(row["DEPTH"] - 8)


def told(value: float | None) -> Trial:
    """A trial that ranks as a number, or one that failed."""
    empty: Any = {}
    made = Trial("", "", None, empty, "", None, 0, empty, empty, empty, empty, [])
    made.status, made.counters = ("failed", None) if value is None else ("counted", {"instructions": value})
    return made


def asks(made: Search, of: Cost = cost, count: int = 7) -> Iterator[tuple[list[Point], tuple[int, ...]]]:
    """Each answer with its stages, told at once."""
    while points := made.ask(count):
        assert len(points) <= count
        yield list(points), tuple(made.rungs)
        made.tell({point.index: told(of(point)) for point in points})


def tried(name: str, budget: int | None = None, seed: int = 0, of: Cost = cost) -> list[Point]:
    """The points that a search asks for the first time, in order."""
    seen: dict[int, Point] = {}
    for points, _ in asks(search_named(name)(space(), budget, seed), of):
        seen |= {point.index: point for point in points if point.index not in seen}
    return list(seen.values())


ALL = ("cost", "all", "random", "one", "halving", "optuna")


@pytest.fixture(autouse=True)
def needs_optuna(request: pytest.FixtureRequest) -> None:
    if getattr(request.node, "callspec", None) is not None and request.node.callspec.params.get("name") == "optuna":
        pytest.importorskip("optuna", reason="dsl[optuna] is not installed")


@pytest.mark.parametrize("name", ALL)
def test_no_search_tries_a_point_twice_or_more_than_its_budget(name: str) -> None:
    for seed in (1, 2):
        made = search_named(name)(space(), 20, seed)
        asked = [point.index for points, stages in asks(made) for point in points if stages[0] == RUNGS[0]]
        assert len(asked) == len(set(asked)) <= 20
        assert asked == [point.index for point in tried(name, 20, seed)]  # the seed decides


@pytest.mark.parametrize("name", ["cost", "all", "random", "halving"])
def test_without_a_budget_all_points_are_tried(name: str) -> None:
    assert sorted(point.index for point in tried(name)) == list(range(62))


@pytest.mark.parametrize(
    ("name", "most", "seeds"), [("random", 19, (2, 4, 5)), ("one", 10, (1, 2, 3)), ("optuna", 35, (1,))]
)
def test_the_best_of_62_points_is_found_within(name: str, most: int, seeds: tuple[int, ...]) -> None:
    best = min(space(), key=cost)
    assert all(best in tried(name, most, seed) for seed in seeds)


@pytest.mark.parametrize("name", ALL)
def test_what_the_log_has_is_told_at_no_cost(name: str) -> None:
    points = space()
    known = {point.index: told(cost(point)) for point in points[:30]}
    made = search_named(name)(points, 8, 1)
    made.tell(known)
    asked = [p for points, stages in asks(made) for p in points if stages[0] == RUNGS[0]]
    assert asked and not {point.index for point in asked} & known.keys()
    assert len(asked) == 8 or name == "one"  # which may be at its end


@pytest.mark.parametrize("name", ALL)
def test_points_that_fail_stop_no_search(name: str) -> None:
    made, asked = search_named(name)(space(), 30, 1), []
    while points := made.ask(7):
        asked += points
        made.tell({p.index: told(None if p.settings.get("WARPS") in (4, 8) else cost(p)) for p in points})
    right = [point for point in asked if point.settings.get("WARPS") not in (4, 8)]
    assert right and made.fine()[0] == min(right, key=lambda point: (cost(point), point.index))


@pytest.mark.parametrize("name", ALL)
def test_where_the_defaults_fail_the_others_are_tried(name: str) -> None:
    defaults = {point.index for point in space() if point.is_default}
    found = tried(name, 12, 1, lambda point: None if point.index in defaults else cost(point))
    assert {point.index for point in found} - defaults


def test_optuna_leaves_points_alone_that_are_like_those_that_failed() -> None:
    """Half of the points fail, by two of their settings; failed points are no better than any that was measured."""
    pytest.importorskip("optuna", reason="dsl[optuna] is not installed")
    values = (1, 2, 4, 8, 16)
    rows = [dict(zip("abcd", each, strict=True)) for each in product(values, repeat=4)]
    points = [Point(index, row, index == 0) for index, row in enumerate(rows)]

    def of(point: Point) -> float | None:
        a, b, c, d = point.settings.values()
        return None if (a > 4) == (b > 4) else 100.0 * abs(a - 8) + 60 * abs(b - 2) + abs(c - 2) + abs(d - 8)

    made = search_named("optuna")(points, 100, 4)
    asked = [point for batch, _ in asks(made, of, 8) for point in batch]
    assert sum(of(point) is None for point in asked[-50:]) <= 30  # told as failed trials, 39


def test_optuna_is_told_what_failed_in_the_log() -> None:
    pytest.importorskip("optuna", reason="dsl[optuna] is not installed")
    made: Any = search_named("optuna")(space(), 8, 1)
    made.tell({3: told(None), 4: told(7.0)})
    failed, right = [each.value for each in made.study.get_trials(deepcopy=False) if each.value is not None]
    assert failed == math.inf and right == as_number(told(7.0).rank)


def test_random_draws_settings_and_not_points() -> None:
    """The two points of `plain` are 3 % of the space; half of the first draws are of it."""
    first = [tried("random", 1, seed)[0].settings["schedule"] for seed in range(40)]
    assert 10 <= first.count("plain") <= 30


def test_one_at_a_time_varies_one_setting_and_ends_where_none_betters() -> None:
    found = tried("one")
    assert {point.index for point in found[:2]} == {0, 60}
    assert {point.settings["schedule"] for point in found[2:6]} == {"tiled"}
    base = found[0].settings
    for point in found[2:6]:  # along WARPS; DEPTH, whose set follows WARPS, keeps its value where that is possible
        assert point.settings["TILE"] == base["TILE"] and point.settings["WARPS"] != base["WARPS"]
    assert {p.settings["WARPS"]: p.settings["DEPTH"] for p in found[2:6]} == {1: 4, 2: 4, 8: 8, 16: 16}
    flat = tried("one", of=lambda point: 1.0)
    assert len(flat) < 20 and flat[0].index == 0  # nothing betters the default


def test_one_at_a_time_waits_for_what_it_asked_for() -> None:
    made = search_named("one")(space(), None, 0)
    assert [point.index for point in made.ask(1)] == [0] and [point.index for point in made.ask(5)] == [60]
    assert made.ask(5) == []
    made.tell({0: told(5.0)})
    assert made.ask(5) == []
    made.tell({60: told(6.0)})
    assert len(made.ask(5)) == 4


def test_halving_gives_more_rounds_to_fewer_points() -> None:
    """What the first stage says wrongly, later ones correct among those that are left."""
    counts: dict[int, int] = {}

    def noisy(point: Point) -> float:
        counts[point.index] = counts.get(point.index, 0) + 1
        return cost(point) + (5 * (point.index % 3) if counts[point.index] == 1 else 0)

    made = search_named("halving")(space(), 40, 1)
    rungs: dict[tuple[int, ...], set[int]] = {}
    for points, stages in asks(made, noisy):
        rungs.setdefault(stages, set()).update(point.index for point in points)
    assert [len(rung) for rung in rungs.values()] == [40, 20, 10] and list(rungs) == [(8,), (16,), (32,)]
    first, second, third = rungs.values()
    assert first > second > third
    assert {*sorted(second, key=lambda i: (cost(space()[i]), i))[:10]} == third
    assert sum(counts.values()) == 70


def test_halving_does_not_climb_before_all_of_a_stage_is_told() -> None:
    made = search_named("halving")(space(), 4, 1)
    (first, *rest) = made.ask(10)
    assert len(rest) == 3 and made.ask(10) == []
    made.tell({first.index: told(1.0)})
    assert made.ask(10) == []
    made.tell({point.index: told(2.0 + point.index) for point in rest})
    assert len(made.ask(10)) == 2 and tuple(made.rungs) == (16,)


def test_ranks_order_as_numbers_do() -> None:
    ranks = sorted((float(a), float(b), float(c)) for a, b, c in product((0, 1, 7, 4000), repeat=3))
    numbers = [as_number(rank) for rank in ranks]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(ranks)


def test_names_are_known_and_taken_once() -> None:
    with pytest.raises(TileError, match="no search 'halvin'") as caught:
        search_named("halvin")
    assert "halving" in str(caught.value.render())
    with pytest.raises(ValueError, match="'all' already"):
        search("all")(Search)


def test_without_optuna_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(TileError, match="needs optuna") as caught:
        search_named("optuna")(space(), 3, 0)
    assert "dsl[optuna]" in caught.value.render()


# ---- in `dsl tune` ----


def test_every_search_tries_points_of_the_file_alone(scale: Path) -> None:
    """Constants and choices, with the sets that depend on others; and among ties the file's first is best. Where a
    lane has one element, the option of two is refused: a search goes on past it."""
    whole = outcome(scale)
    legal = {constants(point): point for point in whole["points"]}
    assert len(legal) == 3 * 2 * 2 * 2 and {point["status"] for point in legal.values()} == {"counted", "compile"}
    for name in ("random", "one", "halving"):
        found = outcome(scale, "--search", name, "--budget", 9, "--seed", 1, "--fresh")
        assert {constants(point) for point in found["points"]} <= legal.keys() and len(found["points"]) <= 9
        assert found["not_asked_for"] == 24 - len(found["points"])
        fine = [point for point in found["points"] if point["status"] == "counted"]
        ranks = [legal[constants(point)]["rank"] for point in fine]
        (best,) = [place for place, point in enumerate(fine) if point["best"]]
        assert best == ranks.index(min(ranks))  # points are in the file's order


def test_a_budget_is_of_new_points_and_the_same_command_goes_on(scale: Path) -> None:
    first = outcome(scale, "--budget", 5)
    assert len(first["points"]) == 5 and first["from_log"] == 0
    second = outcome(scale, "--budget", 5)
    assert len(second["points"]) == 10 and second["from_log"] == 5
    names = [{constants(point) for point in found["points"]} for found in (first, second)]
    assert names[0] < names[1]
    third = outcome(scale, "--budget", 40, "--search", "random")
    assert len(third["points"]) == 24 and third["from_log"] == 10 and third["not_asked_for"] == 0
    assert outcome(scale, "--budget", 3, "--fresh")["from_log"] == 0
    over = outcome(scale, "--seconds", 0, "--budget", 3)
    assert over["from_log"] == 24 and over["left_out"] == 0
    scale.write_text(SCALE + "# changed\n")
    over = outcome(scale, "--seconds", 0, "--budget", 3)
    assert over["left_out"] == 3 and {point["status"] for point in over["points"]} == {"left out"}


def test_with_times_halving_measures_less_and_has_the_same_winner_and_ties(
    scale: Path, timer: Timer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "GROUP", 6)
    whole = outcome(scale)
    launches_of_all = sum(count * each for count, each in timer.rounds)
    timer.rounds.clear()
    halved = outcome(scale, "--search", "halving", "--fresh")
    first = (("BLOCK", 128), ("IDLE", 0), ("vector.x.load", "1"), ("warps", 1))
    assert best(whole) == best(halved) == first
    assert ties(whole) == ties(halved) and len(ties(whole)) == 4
    assert sum(count for count, each in timer.rounds if each == 8) >= 18  # all that compile go through the first stage
    assert sum(count * each for count, each in timer.rounds) < launches_of_all


# ---- costs that say when to stop ----

SLOW = (
    SCALE.replace("IDLE in 0, 1", "IDLE in 0, 1, 2, 3, 4, 5, 6, 7")
    .replace("    tune choose vector.x.load in 1, 2\n", "    cost 5.0 + IDLE + BLOCK / 256\n")
    .replace("where(warps == 1, 32, 64), warps * 128", "32, 128")
)


def scattered(constants: dict[str, Any]) -> float:
    """Twice the cost, and 10 % more or less."""
    return 2.0 * (5 + constants.get("IDLE", 0) + constants["BLOCK"] / 256) * (0.9 if constants["warps"] == 2 else 1.1)


def test_points_that_costs_predict_to_be_slower_are_left_out(scale: Path, timer: Timer) -> None:
    scale.write_text(SLOW)
    timer.mean = scattered
    found = outcome(scale)
    tried = [dict(constants(point)) for point in found["points"]]
    assert dict(best(found)) == {"BLOCK": 32, "IDLE": 0, "warps": 2}
    assert len(tried) + found["predicted_slower"] == 48 and found["not_asked_for"] == found["predicted_slower"]
    assert 16 <= len(tried) < 48 and max(each["IDLE"] for each in tried) < 7
    assert 1.0 < found["predicted_slower_us"] / scattered(dict(best(found))) < 2.0
    again = dsl("tune", scale, "--emulator").stdout
    assert f"{found['predicted_slower']} of 48 points were not tried: {found['predicted_slower_us']:.1f} us, " in again
    assert "were not requested" not in again  # all that the log lacks is left out for its cost
    assert len(outcome(scale, "--search", "all")["points"]) == 48
    assert outcome(scale)["predicted_slower"] == 0


def test_costs_that_err_much_leave_out_little(scale: Path, timer: Timer) -> None:
    scale.write_text(SLOW)
    timer.mean = lambda constants: scattered(constants) * (6.0 if constants["warps"] == 1 else 1.0)
    assert len(outcome(scale)["points"]) == 48


def test_points_without_times_or_costs_are_all_tried(scale: Path, request: pytest.FixtureRequest) -> None:
    scale.write_text(SLOW)
    assert len(outcome(scale)["points"]) == 48  # ordered by the emulator's counters
    request.getfixturevalue("timer").mean = scattered
    scale.write_text(SLOW.replace("    cost 5.0 + IDLE + BLOCK / 256\n", ""))
    assert len(outcome(scale)["points"]) == 48
    other = "\nschedule other of scale:\n    tune warps in 1, 2\n    tune BLOCK in 1024\n\nexample"
    scale.write_text(SLOW.replace("\nexample", other))
    found = [dict(constants(point)) for point in outcome(scale, "--all")["points"]]
    assert len(found) < 50 and sum("IDLE" not in each for each in found) == 2


def test_a_search_of_ones_own_is_a_file(scale: Path) -> None:
    loaded = plugin("search_nearest.py")
    try:
        assert "nearest" in SEARCHES and loaded.Nearest.__mro__[1] is Search
        found = outcome(scale, "--search", "nearest", "--budget", 6)
        assert len(found["points"]) == 6
    finally:
        del SEARCHES["nearest"]
    result = dsl("tune", scale, "--emulator", "--search", "nearest")
    assert result.return_value == 2 and "there is no search 'nearest'" in result.stderr


def test_a_search_that_asks_for_what_there_is_not_is_told(scale: Path) -> None:
    @search("astray")
    class Astray(Search):
        def ask(self, count: int) -> list[Point]:
            return [Point(99, {}, False)]

    try:
        result = dsl("tune", scale, "--emulator", "--search", "astray")
    finally:
        del SEARCHES["astray"]
    assert result.return_value == 2 and "requests point 99" in result.stderr
