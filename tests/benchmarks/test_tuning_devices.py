"""benchmarks/tuning_devices.py: what its table says of runs."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))  # as for the scripts there

from tuning_devices import Run, table


def run(count: int, seconds: float, winner: str, ties: list[str]) -> Run:
    return Run(count, 100, 90, seconds, 2.0, 20, winner, ties, 0.8, "GPU")


def test_rates_are_of_the_first_count_and_winners_must_tie_both_ways() -> None:
    first = [run(1, 62.0, "a", ["a", "b"]), run(1, 62.0, "a", ["a", "b"])]
    second = [run(2, 32.0, "b", ["b", "a"]), run(2, 32.0, "b", ["b"])]
    assert first[0].rate == 6000 / 62 and first[0].steady == 60 * 80 / 60
    out = io.StringIO()
    Console(file=out, width=200).print(table([list(pair) for pair in zip(first, second, strict=True)]))
    *_, one, two = [line.split() for line in out.getvalue().splitlines() if line.strip()]
    assert one[5] == "1.00" and one[-2:] == ["of", "2"] and one[-3] == "2"
    assert two[5] == "1.94" and two[7] == "2.00" and two[8] == "0.800" and two[-3:] == ["1", "of", "2"]
