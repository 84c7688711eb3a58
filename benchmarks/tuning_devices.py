"""Measures how many points per minute `dsl tune` tries with one and several devices, and whether the results agree.

    python3 benchmarks/tuning_devices.py --counts 1,2,4
    python3 benchmarks/tuning_devices.py samples/softmax.tile rows=49152 cols=4096 warps=1,2,4,8 --tune-all
    python3 benchmarks/tuning_devices.py samples/add.tile --device emulator --counts 1,2 --rounds 1

Each run is a separate `dsl tune`. A run has its own log and its own cache of the driver's code, so that it does not
find the results of another run. Runs of all counts take turns, and all runs try the same points. The table shows
medians over the rounds. The first rate is points per minute over the whole run, which includes the start of the
processes and the example's own answer. The second rate counts from the first trial in the log on. "×" is the rate as a
multiple of the first count's rate. `same` counts the rounds in which a run agrees with the run of the first count. Two
runs agree if the winner of each run ties with the best point of the other run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from harness.record import versions
from harness.table import console
from rich.table import Table

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "int8_conv.tile"
VALUES = ["SIZE=64", "BYTES=64", "PARTS=1"]
"""Values for some constants of the sample, since otherwise its tuning sets have thousands of points."""
POLL = 0.05
"""Seconds between two looks at the log."""


@dataclass(slots=True)
class Run:
    """A run of `dsl tune`.

    `seconds` is the time of the whole command. `first_seconds` is the time until the log had a trial. `first_points` is
    the number of trials in the log at that time. `winner` holds the steps of the best point as JSON. `ties` holds the
    steps of all points that tie with the best point. `of_default` is the winner's time divided by the time of the
    default constants. `of_default` is None if the emulator's counters rank the points.
    """

    count: int
    points: int
    fine: int
    seconds: float
    first_seconds: float
    first_points: int
    winner: str | None
    ties: list[str]
    of_default: float | None
    device: str

    @property
    def rate(self) -> float:
        """Points per minute."""
        return 60 * self.points / self.seconds

    @property
    def steady(self) -> float:
        """Points per minute from the first trial on."""
        spent = self.seconds - self.first_seconds
        return 60 * (self.points - self.first_points) / spent if spent else float("nan")


def run(count: int, file: Path, values: list[str], options: argparse.Namespace) -> Run:
    """Runs `dsl tune` once. Raises SystemExit with the command's output if the command fails."""
    names = [options.device if options.device == "emulator" else f"cuda:{number}" for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="dsl-tuning-") as folder:
        log = Path(folder, "log.jsonl")
        command = [sys.executable, "-m", "dsl", "tune", str(file), *values, "--devices", ",".join(names)]
        command += ["--log", str(log), "--json", "--search", options.search, "--seed", str(options.seed)]
        command += [] if options.budget is None else ["--budget", str(options.budget)]
        command += ["--all"] if options.tune_all else []
        out = Path(folder, "out.json")
        begun = time.perf_counter()
        with out.open("w") as output:
            env = {**os.environ, "CUDA_CACHE_PATH": str(Path(folder, "cache"))}
            process = subprocess.Popen(command, stdout=output, env=env)
            first = None
            while process.poll() is None:
                if first is None and log.exists() and (found := log.read_bytes().count(b"\n")):
                    first = time.perf_counter() - begun, found
                time.sleep(POLL)
        seconds = time.perf_counter() - begun
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: status {process.returncode}\n{out.read_text()[-2000:]}")
        record = json.loads(out.read_text())
    points = [point for outcome in record["outcomes"] for point in outcome["points"]]
    best = next((point for point in points if point.get("best")), {})
    times = best.get("median_us"), best.get("reference_us")
    return Run(
        count,
        len(points),
        sum(point["status"] in ("measured", "counted") for point in points),
        seconds,
        *(first or (seconds, 0)),
        winner=json.dumps(best.get("steps")),
        ties=[json.dumps(point["steps"]) for point in points if point.get("ties")],
        of_default=times[0] / times[1] if None not in times else None,  # type: ignore[operator]
        device=record["device"],
    )


def table(rounds: list[list[Run]]) -> Table:
    """A table with a row for each count."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in ("devices", "points", "fine", "seconds", "points/min", "×", "from 1st on", "×", "of default", "same"):
        made.add_column(head, justify="right")
    for place in range(len(rounds[0])):
        runs, base = [each[place] for each in rounds], [each[0] for each in rounds]

        def middle(name: str, of: list[Run]) -> float:
            return median(getattr(each, name) for each in of)

        shares = [each.of_default for each in runs if each.of_default is not None]
        same = sum(
            mine.winner in first.ties and first.winner in mine.ties for mine, first in zip(runs, base, strict=True)
        )
        made.add_row(
            str(runs[0].count),
            f"{middle('points', runs):.0f}",
            f"{middle('fine', runs):.0f}",
            f"{middle('seconds', runs):.1f}",
            f"{middle('rate', runs):.0f}",
            f"{middle('rate', runs) / middle('rate', base):.2f}",
            f"{middle('steady', runs):.0f}",
            f"{middle('steady', runs) / usual:.2f}" if (usual := middle("steady", base)) else "-",
            f"{median(shares):.3f}" if shares else "-",
            f"{same} of {len(runs)}",
        )
    return made


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("file", nargs="?", type=Path, default=SAMPLE)
    made.add_argument("values", nargs="*", metavar="NAME=VALUE,…", help="as dsl tune takes them")
    made.add_argument("--counts", default="1,2,4", help="numbers of devices; the first is what others are compared to")
    made.add_argument("--device", default="cuda", choices=["cuda", "emulator"])
    made.add_argument("--budget", type=int, help="points of a launch; all without")
    made.add_argument("--search", default="all")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--tune-all", action="store_true", help="every branch of the dispatch")
    made.add_argument("--json", type=Path, metavar="FILE")
    options = made.parse_intermixed_args()
    values = options.values or (VALUES if options.file == SAMPLE else [])
    counts = [int(each) for each in options.counts.split(",")]
    out = console()
    rounds: list[list[Run]] = []
    for number in range(options.rounds):
        rounds.append([run(count, options.file, values, options) for count in counts])
        out.print(f"round {number + 1}: " + ", ".join(f"{r.count}: {r.seconds:.1f} s" for r in rounds[-1]))
    what = " ".join([options.file.name, *values])
    out.print(f"{rounds[0][0].device}, {os.cpu_count()} processors, {what}, {len(rounds)} rounds, medians")
    out.print(table(rounds))
    if options.json is not None:
        record = {"command": sys.argv, "versions": versions(), "processors": os.cpu_count()}
        options.json.write_text(json.dumps({**record, "rounds": [list(map(asdict, r)) for r in rounds]}, indent=1))


if __name__ == "__main__":
    main()
