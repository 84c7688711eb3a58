"""`dsl compare` joins logs by keys: paired ratios with intervals, and their geometric mean."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dsl.command import cli
from dsl.lab.compare import FEWEST, KEYS
from dsl.lab.contest import mean_interval, median_interval, ratio_interval
from dsl.lab.trial import Log, Trial

VERSIONS = {"compiler": "c0ffee"}


def invoke(*words: object) -> Result:
    return CliRunner().invoke(cli, ["compare", *map(str, words)], standalone_mode=False)


def compared(*words: object) -> dict[str, Any]:
    done = invoke(*words, "--json")
    assert done.return_value == 0, done.output
    return dict(json.loads(done.stdout))


def trial(n: int, times: Sequence[float], warps: int = 4, **more: Any) -> Trial:
    step = {"kernel": "scale", "schedule": "s", "constants": {"warps": warps}}
    about: dict[str, Any] = {"driver": "13.0", "versions": VERSIONS, "call": "scale", "example": None, "index": 0}
    about |= {"options": {}, "types": {"T": "f16"}, "dims": {"n": n}, "steps": [step], "device": "NVIDIA H200"}
    about |= {"values": {"n": n}, "file": "samples/add.tile", "times_us": [*times], "source": "0" * 64}
    return Trial(**{**about, **more})


def written(path: Path, *trials: Trial) -> Path:
    log = Log(path)
    for each in trials:
        log.add(each)
    return path


def around(middle: float) -> list[float]:
    """Nine times whose interval is within 1 % of the middle."""
    return [round(middle * (1 + step / 400), 6) for step in range(-4, 5)]


def test_each_row_has_a_ratio_with_the_ends_of_both_intervals(tmp_path: Path) -> None:
    a = written(tmp_path / "a.jsonl", trial(64, around(10)), trial(128, around(20)), trial(256, around(40)))
    b = written(tmp_path / "b.jsonl", trial(128, around(30)), trial(64, around(5)), trial(512, around(1)))
    found = compared(a, b)
    assert found["figure"] == "time" and [row["key"]["shapes"] for row in found["rows"]] == ["n=64", "n=128"]
    assert [row["values"] for row in found["rows"]] == [[10, 5], [20, 30]]
    for row, (x, y) in zip(found["rows"], [(10, 5), (20, 30)], strict=True):
        (_, low, high), (_, base_low, base_high) = median_interval(around(y)), median_interval(around(x))
        told = row["ratios"][1]
        assert told == {"ratio": y / x, "low": low / base_high, "high": high / base_low} | {
            "is_paired": False,
            "is_tie": False,
        }
        assert row["ratios"][0]["ratio"] == 1
    (mean,) = found["means"]
    assert mean["ratio"] == pytest.approx(math.sqrt(0.5 * 1.5)) and (mean["less"], mean["more"]) == (1, 1)
    ends = [(row["ratios"][1]["low"], row["ratios"][1]["high"]) for row in found["rows"]]
    assert mean["measured"] == pytest.approx([math.sqrt(ends[0][at] * ends[1][at]) for at in (0, 1)])
    assert mean["rows_interval"] is None and mean["probability"] == 1
    assert [side["alone"] for side in found["sides"]] == [1, 1]
    text = invoke(a, b).stdout
    assert "geometric mean 0.866 of 2 rows" in text and "0.500" in text and "1.500" in text
    assert "keys that other sides lack: 1" in text and "NVIDIA H200" in text


def test_times_of_one_contest_are_compared_round_by_round(tmp_path: Path) -> None:
    """Drift that both have cancels, so the interval is narrow."""
    drift = [1, 2, 3, 1, 2, 3, 1, 2, 3]
    times = [10.0 * each for each in drift], [11.0 * each for each in drift]
    a = written(tmp_path / "a.jsonl", trial(64, times[0], contest="x"))
    b = written(tmp_path / "b.jsonl", trial(64, times[1], warps=8, contest="x"))
    (row,) = compared(a, b)["rows"]
    paired = row["ratios"][1]
    assert [paired[name] for name in ("ratio", "low", "high")] == list(ratio_interval(times[1], times[0]))
    assert paired["is_paired"] and not paired["is_tie"]
    c = written(tmp_path / "c.jsonl", trial(64, times[1], contest="y"))
    (other,) = compared(a, c)["rows"]
    assert other["ratios"][1]["is_tie"] and not other["ratios"][1]["is_paired"]


def test_many_rows_have_an_interval_over_rows(tmp_path: Path) -> None:
    random = Random(3)
    ratios = [random.uniform(0.7, 1.1) for _ in range(FEWEST)]
    a = written(tmp_path / "a.jsonl", *(trial(n + 1, around(10)) for n in range(FEWEST)))
    b = written(tmp_path / "b.jsonl", *(trial(n + 1, around(10 * each)) for n, each in enumerate(ratios)))
    (mean,) = compared(a, b, "--seed", 7)["means"]
    logs = [math.log(round(10 * each, 6) / 10) for each in ratios]
    assert mean["rows_interval"] == pytest.approx([math.exp(each) for each in mean_interval(logs, Random(7))])
    assert mean["rows_interval"][0] < mean["ratio"] < mean["rows_interval"][1]
    assert compared(a, b, "--seed", 7) == compared(a, b, "--seed", 7)
    assert "over rows (95%)" in invoke(a, b).stdout


@pytest.mark.parametrize(("take", "value"), [("best", 7), ("first", 9), ("last", 8)])
def test_of_several_trials_with_equal_keys_one_stands_for_the_side(tmp_path: Path, take: str, value: float) -> None:
    points = [trial(64, around(us), warps=warps) for warps, us in ((4, 9), (2, 7), (8, 8))]
    a, b = written(tmp_path / "a.jsonl", trial(64, around(14))), written(tmp_path / "b.jsonl", *points)
    (row,) = compared(a, b, "--take", take)["rows"]
    assert row["values"] == [14, value]


def test_keys_are_chosen(tmp_path: Path) -> None:
    a = written(tmp_path / "a.jsonl", *(trial(64, around(10 * warps), warps=warps) for warps in (1, 2)))
    b = written(tmp_path / "b.jsonl", *(trial(64, around(30 * warps), warps=warps) for warps in (2, 1)))
    found = compared(a, b, "--by", "call,shapes,constants")
    assert [(row["key"]["constants"], row["values"]) for row in found["rows"]] == [
        ("warps=1", [10, 30]),
        ("warps=2", [20, 60]),
    ]
    assert compared(a, b, "--by", "device")["rows"][0]["values"] == [10, 30]


def test_sides_are_the_values_of_a_key(tmp_path: Path) -> None:
    """Machines, commits or heuristics in one log."""
    a = written(
        tmp_path / "a.jsonl",
        *(trial(n, around(n), device="NVIDIA H200") for n in (64, 128)),
        *(trial(n, around(2 * n), device="NVIDIA H100") for n in (64, 128)),
        *(trial(n, around(4 * n), device="NVIDIA A100") for n in (64, 128)),
    )
    found = compared(a, "--between", "device")
    assert [side["name"] for side in found["sides"]] == ["NVIDIA H200", "NVIDIA H100", "NVIDIA A100"]
    assert [mean["ratio"] for mean in found["means"]] == pytest.approx([2, 4])
    text = invoke(a, "--between", "device").stdout
    assert "C / A" in text and "geometric mean 4.000 of 2 rows" in text
    types = [trial(64, around(us), types={"T": name}) for name, us in (("f16", 10), ("f32", 20))]
    b = written(tmp_path / "b.jsonl", *types)
    assert compared(b, "--between", "types")["means"][0]["ratio"] == 2  # which is not joined by, then


def test_counters_have_ratios_without_intervals(tmp_path: Path) -> None:
    def counted(n: int, sectors: int, conflicts: int) -> Trial:
        names = {"global_load_sectors": sectors, "shared_wavefronts": conflicts, "instructions": 1, "moves": 0}
        return trial(n, [], status="counted", counters=names, driver=None, device="emulated H200")

    a = written(tmp_path / "a.jsonl", counted(1, 100, 0), counted(2, 100, 0))
    b = written(tmp_path / "b.jsonl", counted(1, 80, 3), counted(2, 100, 0))
    found = compared(a, b, "--figure", "sectors")
    assert [row["ratios"][1]["ratio"] for row in found["rows"]] == [0.8, 1] and found["means"][0]["ties"] == 1
    assert found["means"][0]["measured"] is None
    found = compared(a, b, "--figure", "wavefronts")  # 0 then 3 has no ratio, and 0 twice is equal
    assert [row["ratios"][1] and row["ratios"][1]["ratio"] for row in found["rows"]] == [None, 1]
    assert found["means"][0]["rows"] == 1 and compared(a, b)["figure"] == "work"


def test_nothing_is_left_out_without_a_word(tmp_path: Path) -> None:
    a = written(tmp_path / "a.jsonl", trial(64, around(10)), trial(128, [], status="wrong", reason="too large"))
    b = written(tmp_path / "b.jsonl", trial(64, around(10)))
    with b.open("a") as file:
        file.write("half a line\n" + b.read_text().replace('"seed"', '"colour": 1, "seed"'))
    found = compared(a, b)
    assert found["sides"][0]["left_out"] == 1 and "not right, or without time: 1" in invoke(a, b).stdout
    unread, unknown, repeated = found["notes"]
    twins = written(tmp_path / "c.jsonl", *(trial(64, around(us), where=f"h{us} cuda:0") for us in (10, 20)))
    assert compared(twins, "--between", "host")["means"][0]["ratio"] == 2 and not compared(twins, a)["notes"]
    assert "no trials: 1" in unread and "colour (1 times)" in unknown and repeated.endswith("replaces: 1")


def test_wrong_options_say_what_is_known(tmp_path: Path) -> None:
    a, b = (written(tmp_path / name, trial(64, around(10))) for name in ("a.jsonl", "b.jsonl"))
    other = written(tmp_path / "c.jsonl", trial(64, around(10), call="other"))
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for words, message in (
        ([a], "sides to compare: 1"),
        ([a, a], "twice"),
        ([a, tmp_path / "none.jsonl"], "no such file"),
        ([a, empty], "no trial with a right result"),
        ([a, other], "equal keys"),
        ([a, b, "--by", "shapez"], "did you mean 'shapes'"),
        ([a, b, "--by", "call,call"], "twice"),
        ([a, b, "--by", "device", "--between", "device"], "cannot be joined by it"),
        ([a, b, "--figure", "sectors"], "'sectors'"),
        ([a, b, "--figure", "result"], "'result'"),
    ):
        done = invoke(*words)
        assert done.return_value == 2 and message in done.stderr, (words, done.stderr)


def test_the_help_lists_all_keys() -> None:
    text = " ".join(invoke("--help").stdout.split())
    assert f"Keys are {', '.join(KEYS)}." in text
