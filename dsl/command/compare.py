"""`dsl compare`: joins logs by keys, and prints paired ratios and their geometric mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsl.command.failures import carried_out
from dsl.command.options import shared
from dsl.lowering.ir.location import TileError

if TYPE_CHECKING:
    from dsl.lab.compare import LogComparison, MeanRatio, Ratio


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(), metavar="LOG.jsonl...")
@shared("seed as_json")
@click.option("--by", "keys", metavar="KEY[,KEY…]", help="Join by these; default: file,call,shapes,types,options.")
@click.option("--between", default="log", metavar="KEY", help="Compare trials that differ in this, instead of logs.")
@click.option(
    "--take",
    type=click.Choice(["best", "first", "last"]),
    default="best",
    show_default=True,
    help="The trial that stands for its side, of several with equal keys.",
)
@click.option("--figure", metavar="FIGURE", help="Compare this; without it, time if all sides have it, else work.")
def command(logs: tuple[str, ...], as_json: bool, keys: str | None, **options: Any) -> int:
    """Compare LOGS of machines, commits or heuristics. Trials with equal keys make a row, with the ratio of each log to
    the first. Ratios of times have intervals: of rounds if both were timed together, else of the ends of both
    intervals. The last line is the geometric mean. Keys are file, call, shapes, types, options, example, launch,
    kernels, schedule, constants, choices, values, device, arch, driver, host, text, compiler, commit, plugins, seed.
    With --between KEY, the sides are the values of a key, in all LOGS together.

    Exit status: 0 fine, 2 the input is wrong.
    """
    return carried_out(
        logs[0], as_json, lambda: (compare([Path(each) for each in logs], keys, as_json, options), False)
    )


def compare(logs: list[Path], keys: str | None, as_json: bool, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the comparison as data. Also prints it unless `as_json` is set."""
    from dsl.lab.compare import DEFAULT_KEYS, compared

    chosen = DEFAULT_KEYS if keys is None else tuple(keys.split(","))
    if len({*chosen}) < len(chosen):
        raise TileError("option", None, f"--by {keys}: a key is given twice")
    given = (options["between"], options["take"], options["figure"], options["seed"])
    if options["between"] in chosen and keys is None:
        chosen = tuple(name for name in chosen if name != options["between"])
    found = compared(logs, chosen, *given)
    if not as_json:
        show(found)
    return record(found)


def record(found: LogComparison) -> dict[str, Any]:
    """A comparison as data."""
    from msgspec import to_builtins

    rows = [
        {
            "key": dict(zip(found.keys, row.key, strict=True)),
            "values": row.values,
            "ratios": [None if each is None else to_builtins(each) | {"is_tie": each.is_tie} for each in row.ratios],
        }
        for row in found.rows
    ]
    sides = [side.about() | {"alone": count} for side, count in zip(found.sides, found.alone, strict=True)]
    means = to_builtins(found.means)
    return {"figure": found.figure, "sides": sides, "rows": rows, "means": means, "notes": found.notes}


# ---- as text ----


def show(found: LogComparison) -> None:
    from dsl.text.terminal import Terminal, table

    console = Terminal()
    for side, alone in zip(found.sides, found.alone, strict=True):
        about = side.about()
        told = [f"{about['trials']} trials", *about["devices"], *about["drivers"]]
        told += [f"commit {commit[:12]}{'-dirty' * commit.endswith('-dirty')}" for commit in about["commits"]]
        told += [f"not right, or without {found.figure}: {side.left_out}"] if side.left_out else []
        told += [f"keys that other sides lack: {alone}"] if alone else []
        console.say(f"{side.letter}  {side.name}: {', '.join(told)}")
    for note in found.notes:
        console.say(f"  {note}")
    names = [at for at in range(len(found.keys)) if len({row.key[at] for row in found.rows}) > 1]
    same = [f"{found.keys[at]} {text}" for at, text in enumerate(found.rows[0].key) if at not in names and text]
    unit = "time in microseconds" if found.figure == "time" else found.figure
    console.say(f"{unit}; {', '.join(same)}" if same else unit)
    letters = [side.letter for side in found.sides]
    heads = [found.keys[at] for at in names] + letters
    for letter in letters[1:]:
        heads += [f"{letter} / A", "95%"] if found.figure == "time" else [f"{letter} / A"]
    rows = []
    for row in found.rows:
        cells = [row.key[at] or "-" for at in names] + [said_value(value, found.figure) for value in row.values]
        for each in row.ratios[1:]:
            cells += said_ratio(each)[: 2 if found.figure == "time" else 1]
        rows.append(cells)
    console.show(table(heads, rows, left=max(1, len(names))))
    for letter, mean in zip(letters[1:], found.means, strict=True):
        console.say(f"  {letter} / A: {said_mean(mean)}")


def said_value(value: float, figure: str) -> str:
    return f"{value:,.2f}" if figure == "time" else f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"


def said_ratio(each: Ratio | None) -> tuple[str, str]:
    """A ratio, and its interval."""
    if each is None:
        return "-", ""
    if each.low is None or each.high is None:
        return f"{each.ratio:.3f}", ""
    return f"{each.ratio:.3f}", f"{each.low:.3f} to {each.high:.3f}{' tie' if each.is_tie else ''}"


def said_mean(mean: MeanRatio | None) -> str:
    from dsl.lab.compare import FEWEST

    if mean is None:
        return "no ratios"
    text = f"geometric mean {mean.ratio:.3f} of {mean.rows} rows"
    if mean.measured is not None:
        text += f", {mean.measured[0]:.3f} to {mean.measured[1]:.3f} by the rows' intervals"
    if mean.rows_interval is not None:
        text += f", {mean.rows_interval[0]:.3f} to {mean.rows_interval[1]:.3f} over rows (95%)"
    else:
        text += f" (below {FEWEST} rows: no interval over rows)"
    counts = f"less in {mean.less}, more in {mean.more}, ties in {mean.ties}"
    return f"{text}; {counts}; sign test p = {mean.probability:.2g}"
