"""The commands as Python functions: `dsl.why`, `diff`, `ablate`, `bisect`, `fuzz`, `tune`, `bench`, `run`, `count`,
`layouts`, and `trials`, which reads a log.

The first argument is a `.tile` file, given as a path or as a module that `dsl.load` returned. The command's options are
keywords: `--skip-pass` is `skip_pass`, and `--from` is `from_`. Each NAME=VALUE is a further keyword. If a NAME equals
an option's name, pass it in `values={…}`. A repeatable option takes a list, and `choose` also takes a dict.

Each function returns a `ResultTable`. It raises `dsl.TileError` for mistakes, and `dsl.LaunchError` or
`dsl.DeviceError` for faults, like a call of a kernel.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
from msgspec import to_builtins

from dsl.calls.api import Module
from dsl.calls.arguments import plain_number
from dsl.command import cli
from dsl.command.failures import DEVICE_FAILED, ChildFailure
from dsl.command.options import WORDS
from dsl.command.rows import (
    AblationRow,
    BenchedRow,
    BorderRow,
    ChoiceRow,
    CountedRow,
    DifferenceRow,
    FuzzRow,
    LayoutRow,
    ShareRow,
    TunedRow,
    row_of,
)
from dsl.command.table import ResultTable, captured, shown
from dsl.lowering.ir.location import TileError, closest
from dsl.runtime.errors import DeviceError, RuntimeFault
from dsl.text.figures import headed

if TYPE_CHECKING:
    from dsl.examples.report import Report
    from dsl.lab.trial import Trial
    from dsl.studies.bench import BenchRow

Source = str | Path | Module
OF_PRINTING = ("json", "svg", "help")
"""Options that only make sense on the command line."""
FIGURES = headed("registers", "spills", "sass", "wavefronts", "sectors", "barriers", "work")
BENCHED = headed(
    *("time_us", "gbps", "tflops", "instructions", "moves", "barriers", "wavefronts", "sectors"),
    *("registers", "spills", "sass"),
)
COUNTED = headed(
    *("time_us", "registers", "spills", "sass", "instructions", "moves", "global_load_sectors"),
    *("global_store_sectors", "sectors_over_fewest", "wavefronts", "conflicts", "barriers"),
)

Arguments = ParamSpec("Arguments")
Given = TypeVar("Given")


def to_callers(function: Callable[Arguments, Given]) -> Callable[Arguments, Given]:
    """A decorator that shortens tracebacks: they show no frames of this package. The error still names its place in the
    `.tile` text."""

    @wraps(function)
    def called(*arguments: Arguments.args, **named: Arguments.kwargs) -> Given:
        try:
            return function(*arguments, **named)
        except (TileError, RuntimeFault) as error:
            for each in error.errors if isinstance(error, TileError) else ():
                for place in filter(None, (each.loc, *(each.loc.callers if each.loc else ()))):
                    # The file of a cell is in a temporary folder. The folder's name means nothing to the user.
                    place.source.name = shown(place.source.name)
            raise error.with_traceback(None) from None

    return called


@to_callers
def why(source: Source, **options: Any) -> ResultTable[ChoiceRow]:
    """Lists the compiler's choices for the kernels that an example launches, like `dsl why`. Examples of options are
    `value="acc"`, `choice="swizzle"`, `line=45`, `measure=True` and `all=True`. Keywords such as `rows=8` set dims."""
    from dsl.command.why import options_of
    from dsl.command.why import why as told

    line = options.pop("line", None)
    file, _, records, text = carried("why", source, options, lambda file, *rest: told(file, line, *rest))
    rows = [row_of(ChoiceRow, row, kernel=each["kernel"]) for each in records for row in each["choices"]]
    columns: dict[str, Any] = {"kernel": "kernel"} if len(records) > 1 else {}
    columns |= {"line": "line", "choice": "key", "options": lambda row: options_of(asdict(row))}
    columns |= {"by": lambda row: "" if row.by == "rule" else row.by, "because": "because"}
    columns |= {"measured": "measured"}
    title = f"why {', '.join(each['kernel'] for each in records)}"
    return ResultTable(title, rows, {"file": file, "kernels": records}, text, columns)


@to_callers
def diff(source: Source, **options: Any) -> ResultTable[DifferenceRow]:
    """Lists the differences between two ways to run a launch, like `dsl diff`. Examples of options are
    `vs={"swizzle.s": "none"}`, `vs="schedule=block"` and `from_="@HEAD"`. There is a row for each choice, constant,
    source line and level (such as PTX) that differs, and for each figure. `record["launches"]` contains the texts of
    the levels."""
    from dsl.command.diff import diff as compared

    file, _, (record, _), text = carried("diff", source, options, compared)
    rows = [row for each in record["launches"] for row in difference_rows(each)]
    columns = {"launch": "launch"} if len(record["launches"]) > 1 else {}
    columns |= {"": "what", "line": "line", "name": "name", "A": "a", "B": "b", "B / A": "ratio"}
    columns |= {"95%": "ratio_interval", "text": "text"}
    return ResultTable(f"diff {file}: {' and '.join(sides_of(record))}", rows, record, text, columns)


def sides_of(record: Mapping[str, Any]) -> list[str]:
    """The labels of both sides."""
    return list(dict.fromkeys(each[letter]["side"] for each in record["launches"] for letter in "ab"))


def difference_rows(launch: Mapping[str, Any]) -> Iterator[DifferenceRow]:
    """The rows of a launch, in the order of the command's output."""
    about = partial(DifferenceRow, launch["a"]["title"])
    for kernel in launch["kernels"]:
        made = partial(about, kernel=kernel["b"])
        for each in kernel["choices"] or ():
            a, b = ((each[letter] or {}).get("option") for letter in "ab")
            yield made("choice", each["label"], a, b)
        for name, pair in kernel["constants"].items():
            yield made("constant", name, pair["a"], pair["b"])
    for name, pair in launch["figures"].items():
        yield about("figure", name, pair["a"], pair["b"], pair.get("ratio"))
    if "ratio" in launch:
        a, b = (launch[letter]["median_us"] for letter in "ab")
        yield about("figure", "time", a, b, launch["ratio"], launch["ratio_interval"])
    for each in launch["lines"]:
        for name, count in each["first"].items():
            if count != each["second"][name]:
                ratio = each["second"][name] / count if count else None
                yield about("line", name, count, each["second"][name], ratio, line=each["line"], text=each["text"])
    for kernel in launch["kernels"]:
        for each in kernel["levels"]:
            if each["hunks"]:
                yield about("level", each["level"], each["removed"], each["added"], kernel=kernel["b"])


@to_callers
def ablate(source: Source, **options: Any) -> ResultTable[Any]:
    """Measures the gain of each choice of a launch, like `dsl ablate`. Examples of options are `kinds="swizzle,copy"`,
    `ceiling=True` and `choose={…}`. Rows are `AblationRow`s. The first row of each launch is the unchanged code. With
    `shapley=N`, rows are `ShareRow`s. Code is compiled in this process unless `jobs=N` is given."""
    from dsl.command.ablate import ablate as flipped
    from dsl.command.ablate import shapley

    study = flipped if options.get("shapley") is None else shapley
    # Worker processes would import the caller's main module again. A notebook has no main module, and a script may lack
    # a `__main__` guard.
    file, given, (record, _), text = carried("ablate", source, {"jobs": 0, **options}, study)
    launches = record["launches"]
    title = f"ablate {file}: {', '.join(each['call'] for each in launches)}"
    if given["shapley"] is not None:
        about = ("call", "figure")
        shares = [row_of(ShareRow, {k: each[k] for k in about} | row) for each in launches for row in each["rows"]]
        heads = {"group": "group", "plain": "plain", "chosen": "chosen", "gain": "gain", "95%": "interval"}
        return ResultTable(title, shares, record, text, heads)
    rows: list[AblationRow] = []
    first: list[int] = []  # for each row, the index of its launch's row "as chosen"
    for each in launches:
        first += [len(rows)] * len(each["rows"])
        rows += [row_of(AblationRow, row, call=each["call"]) for row in each["rows"]]
    columns = {"": "name", "result": "result", "us": "median_us", "of chosen": "ratio", "95%": "ratio_interval"}
    columns |= {**FIGURES, "moves others": "moved", "same code": "same_code", "reason": "reason"}
    return ResultTable(title, rows, record, text, columns, first.__getitem__)


@to_callers
def bisect(source: Source, until: str, **options: Any) -> ResultTable[BorderRow]:
    """Finds the choice or commit at which the answer to a predicate changes, like `dsl bisect`. For example:
    `dsl.bisect(file, "registers <= 56", from_="plain")`. With `good="v1.2"`, it searches commits. There are several
    rows if the search cannot tell which of several choices or commits makes the change. With `reduce=True`,
    `record["needed"]` lists the choices that the answer depends on."""
    from dsl.command.bisect import bisect as halved
    from dsl.lab.predicates import predicate

    file, _, record, text = carried("bisect", source, {"until": until, **options}, halved)
    sides = {"before": record["before"], "after": record["after"]}
    rows = []
    for each in record["found"]:
        # A choice is a record, a commit is a pair.
        if isinstance(each, dict):
            rows.append(row_of(BorderRow, each, choose=dict(each["assignment"]), **sides))
        else:
            commit, subject = each
            rows.append(BorderRow(commit[:12], subject, "", {}, **sides))
    said = predicate(until).said
    columns: dict[str, Any] = {"": "label", "at the start": "option", "as chosen": "taken"}
    columns |= {"before": lambda row: said(row.before), "after": lambda row: said(row.after)}
    return ResultTable(f"bisect {file} until '{until}'", rows, record, text, columns)


@to_callers
def fuzz(source: Source, **options: Any) -> ResultTable[FuzzRow]:
    """Tries random options of the compiler's choices, like `dsl fuzz`. Examples of options are `count=100` and
    `seed=7`. There is a row for each set of options whose result is not right. `record["verdicts"]` counts all
    results."""
    from dsl.command.fuzz import fuzz as drawn

    file, _, record, text = carried("fuzz", source, options, drawn)
    rows = [row_of(FuzzRow, each) for each in record["failures"]]
    columns = {"number": "number", "example": "example", "verdict": "verdict", "reason": "reason", "choose": "choose"}
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in record["verdicts"].items())
    return ResultTable(f"fuzz {file}: {verdicts}", rows, record, text, columns)


@to_callers
def tune(source: Source, **options: Any) -> ResultTable[TunedRow]:
    """Tries combinations (points) of the schedules' `tune` values, like `dsl tune`. Examples of options are
    `rows=4096`, `all=True`, `budget=40` and `write=True`. A list tries several values: `cols=[1000, 4096]`. Rows are
    the points of each launch, fastest first, then the points without a right result. Code is compiled in this process
    unless `jobs=N` is given."""
    from dsl.command.tune import tune as searched

    file, _, (record, _), text = carried("tune", source, {"jobs": 0, **options}, searched)
    rows: list[TunedRow] = []
    first: list[int] = []  # for each row, the index of its launch's fastest row
    for each in record["outcomes"]:
        # Points without a rank (`place`) come last.
        points = sorted(each["points"], key=lambda point: point.get("place") or len(each["points"]) + 1)
        first += [len(rows)] * len(points)
        rows += [tuned_row(each, point) for point in points]
    columns: dict[str, Any] = {"": lambda row: "*" if row.best else "=" if row.ties else ""}
    columns |= {"call": "call", "dims": "dims"} if len(record["outcomes"]) > 1 else {}
    columns |= {"point": "settings", "us": "time", "of default": "of_default", **FIGURES}
    columns |= {"status": "status", "reason": "reason"}
    return ResultTable(f"tune {file} on {record['device']}", rows, record, text, columns, first.__getitem__)


def tuned_row(outcome: Mapping[str, Any], point: Mapping[str, Any]) -> TunedRow:
    """Converts a point of `dsl tune --json` to a row."""
    from dsl.runtime.emulator import Counters

    steps, settings = point["steps"], {}
    for number, step in enumerate(steps):
        # Several launches of a call may have constants with the same name.
        prefix = f"{number}." if len(steps) > 1 else ""
        settings[f"{prefix}schedule"] = f"{step['kernel']} {step['schedule'] or ''}".rstrip()
        settings |= {f"{prefix}{name}": value for name, value in step["constants"].items()}
    if "from" in point:
        settings["from"] = point["from"]
    figures: dict[str, Any] = {}
    for name, fact in (*((each, each) for each in ("registers", "spills", "shared_bytes")), ("sass", "instructions")):
        known = [each[fact] for each in point.get("launches", ()) if each[fact] is not None]
        # The maximum over the launches, as in the command's table.
        figures |= {name: max(known)} if known else {}
    if "median_us" in point:
        figures |= {"time": point["median_us"], "low": point["interval_us"][0], "high": point["interval_us"][1]}
        if point["reference_us"]:
            figures["of_default"] = point["median_us"] / point["reference_us"]
    if counters := point.get("counters"):
        figures |= Counters.from_dict(counters).figures
    about = {name: outcome[name] for name in ("call", "dims", "types", "options")}
    told = {name: point[name] for name in ("status", "reason", "place", "best", "ties", "steps") if name in point}
    return TunedRow(**about, settings=settings, figures=figures, **told)


@to_callers
def bench(source: Source, **options: Any) -> ResultTable[BenchedRow]:
    """Compares the kernels and schedules of a file, like `dsl bench`. Examples of options are `example=`, `kernel=`,
    `schedule=` and `vs=["peers.py::softmax"]`. Without a GPU there are no times."""
    from dsl.command.bench import as_json, show_rows
    from dsl.command.bench import bench as measured
    from dsl.examples.report import finite

    with asked("bench", source, options) as (file, given):
        # The table contains the data of the JSON file.
        del given["json_file"]
        made = measured(given.pop("file"), given.pop("device"), given.pop("time_limit"), given)
    record = finite(as_json(file, made))
    rows = [bench_row(*pair) for pair in zip(record["rows"], made, strict=True)]
    columns = {"example": "example", "kernels": "kernels", "schedules": "schedules", "options": "options"}
    columns |= {"from": "from", "peer": "peer", **BENCHED, "failed": "failed"}
    return ResultTable(f"bench {file}", rows, record, captured(show_rows, file, made)[1], columns)


def bench_row(record: Mapping[str, Any], row: BenchRow) -> BenchedRow:
    """Makes a row, whose figures also include registers, spills, SASS instructions and the median time."""
    from dsl.command.bench import all_figures

    told = {} if row.report is None else all_figures(row)
    figures = {**record.get("figures", {}), **{name: told.get(name) for name in ("registers", "spills", "sass")}}
    if told.get("time_us") is not None:
        figures["time_us"] = told["time_us"]
    return row_of(BenchedRow, {**record, "figures": figures})


@to_callers
def run(source: Source, **options: Any) -> ResultTable[Report]:
    """Runs examples and checks their results, like `dsl run`. Examples of options are `all=True`, `example="log"` and
    `counters=True`. Keywords such as `cols=5003` set dims. There is a `Report` for each example. `record["passed"]` is
    true if all results are as expected."""
    with asked("run", source, options) as (_, given):
        return examples(given)


def examples(given: dict[str, Any]) -> ResultTable[Report]:
    """Runs examples with these parameters of the command `run`."""
    from dsl.command.run import run as runs
    from dsl.command.run import show_roofline, show_run, told_reports

    file = given["file"]
    reports = [*runs(file, False, given)]
    texts = [captured(show_run, report, given)[1] for report in reports]
    texts += [verdict.rendered for report in reports for verdict in report.failed]
    texts += filter(None, [captured(show_roofline, given["roofline"], reports)[1]])
    record = told_reports(file, reports, given["run_all"])
    parts = [report._repr_html_() for report in reports]
    return ResultTable(f"run {file}", reports, record, "\n".join(texts), {}, parts=parts, flatten=report_facts)


def report_facts(report: Report) -> dict[str, Any]:
    """Converts a report to one row of a pandas frame."""
    from dsl.examples.report import totals

    found = report.as_json()
    keys = ("file", "example", "kernel", "schedule", "device", "chip", "passed", "max_error", "tolerance", "time_us")
    return {name: found[name] for name in keys} | report.types | report.dims | totals(report.launches)


@to_callers
def count(*sources: str | Path | Sequence[str | Path], **options: Any) -> ResultTable[CountedRow]:
    """Counts what launches of PTX texts cost, like `dsl count`: `dsl.count("k.ptx", grid=(3, 2), block=256, n=1000,
    x="randn(f16[9, 1000])")`. Several texts, or a list of texts, are compared side by side. A value may be an array,
    which is copied before the launch."""
    from dsl.command.count import count as launched
    from dsl.command.count import show_found, told_files

    with tempfile.TemporaryDirectory(prefix="dsl-count-") as folder:
        # The command reads arrays from .npy files, and so does a child process on a GPU.
        options = {name: on_disk(name, value, Path(folder)) for name, value in options.items()}
        groups = [[each] if isinstance(each, str | Path) else each for each in sources]
        with asked("count", [str(each) for group in groups for each in group], options) as (_, given):
            words, device, by = given.pop("words"), given.pop("device"), given.pop("by")
            del given["as_json"]
            found = launched(words, device, given, True)
    record = told_files(found)
    columns = {"file": "file", "entry": "entry", "right": "passed", **COUNTED}
    rows = [
        row_of(CountedRow, {k: v for k, v in each.items() if k in CountedRow.__slots__}) for each in record["files"]
    ]
    names = ", ".join(Path(row.file).name for row in rows)
    return ResultTable(f"count {names}", rows, record, captured(show_found, found, by)[1], columns, lambda _: 0)


def on_disk(name: str, value: Any, folder: Path) -> Any:
    """Writes an array to a `.npy` file, and returns the file's path. Returns any other value unchanged."""
    # A numpy scalar has `__array__`, but counts as a number.
    if not hasattr(value, "__array__") or getattr(value, "ndim", None) == 0:
        return value
    import numpy as np

    np.save(folder / f"{name}.npy", value)
    return str(folder / f"{name}.npy")


@to_callers
def layouts(source: Source, **options: Any) -> ResultTable[LayoutRow]:
    """Lists the named tiles of a file's kernels with their layouts, like `dsl layout`. With `value="acc"`, only tiles
    named `acc` are listed, and a notebook draws them. `row.svg` is the picture of a row's tile."""
    from dsl.command.layout import draw, of_name, show_lists, tiles_of
    from dsl.pictures.names import fragments
    from dsl.pictures.tiles import pictured, summary

    with asked("layout", source, options) as (file, given):
        found = tiles_of(given.pop("file"), given.pop("values"), given)
        chosen = None if given["value"] is None else of_name(found, given["value"])
        _, text = captured(show_lists, found) if chosen is None else captured(draw, chosen, None)
    rows = []
    for request, function, tiles in found:
        spread = fragments(function)
        for tile in tiles if given["value"] is None else [each for each in tiles if each.name == given["value"]]:
            about = (tile.line, tile.name, tile.kind, summary(function, tile, spread))
            rows.append(LayoutRow(request.kernel, request.schedule, *about, partial(pictured, function, tile, spread)))
    names = ("file", "kernel", "schedule", "line", "name", "type", "layout")
    record = {"file": file, "tiles": [{name: getattr(row, name) for name in names[1:]} for row in rows]}
    columns = {name: name for name in names[1:]}
    parts = [] if chosen is None else [row.svg for row in rows]
    return ResultTable(f"layouts of {file}", rows, record, text, columns, parts=parts)


@to_callers
def trials(log: str | Path) -> ResultTable[Trial]:
    """Reads the trials in a log of `dsl tune`, `ablate`, `bisect` or `fuzz`, in the order of the log. docs/lab.md lists
    the fields of a trial. `record["unread"]` counts the lines that are not trials. `record["notes"]` reports these
    lines, and trials made with other versions. Raises TileError `file` if the log cannot be read."""
    from dsl.lab.trial import Log
    from dsl.text.files import read_lines

    next(read_lines(Path(log)), None)  # raises if the file is missing or not text
    found = Log(Path(log))
    rows = [*found.trials.values()]
    heads = {"call": "call", "dims": "dims", "schedules": "schedules", "constants": "constants", "choices": "choices"}
    heads |= {"result": "result", "us": "time", **FIGURES, "reason": "reason"}
    notes = [*found.notes(), *found.repeated()]
    record = {"log": str(log), "unread": found.unread, "notes": notes, "trials": [to_builtins(row) for row in rows]}
    made = ResultTable(f"trials of {log}", rows, record, None, heads, flatten=trial_facts)
    # The notes come after the rows, as `dsl tune` prints them.
    made.text += "".join(f"\n{note}" for note in notes)
    return made


def trial_facts(trial: Trial) -> dict[str, Any]:
    """Converts a trial to one row of a pandas frame: the settings that were tried, then the figures."""
    steps = [f"{step['kernel']} with {step['schedule'] or 'no schedule'}" for step in trial.steps]
    constants = {name: value for step in trial.steps for name, value in step.get("constants", {}).items()}
    about = {"call": trial.call, "example": trial.example, "device": trial.device, "schedules": " then ".join(steps)}
    tried = {"dims": {**trial.types, **trial.dims}, "constants": constants, "choices": trial.choices}
    return about | tried | {"reason": trial.reason} | trial.figures()


# ---- options ----


def carried(
    name: str, source: Source, options: Mapping[str, Any], run: Callable[..., Any]
) -> tuple[str, dict[str, Any], Any, str]:
    """Runs a command. Returns (file, the command's parameters, the result of `run`, its printed text)."""
    with asked(name, source, options) as (file, given):
        values = given.pop("values")
        for name_of_all in ("file", "as_json"):
            given.pop(name_of_all, None)
        return file, given, *captured(run, file, values, False, given)


@contextmanager
def asked(
    name: str, source: Source | Sequence[str], keywords: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the file, and the parameters that click would parse from the equivalent command line. Errors of a child
    process are raised again in this process, as TileError or DeviceError. If a NAME=VALUE is unknown, the hint also
    suggests options with a similar name."""
    command = command_of(name)
    keywords = {key: python_value(value) for key, value in keywords.items()}
    known = {option.lstrip("-").replace("-", "_"): each for each in command.params for option in each.opts}
    named = {key: value for key, value in keywords.items() if key.rstrip("_") in known and key != "values"}
    values = {key: value for key, value in keywords.items() if key not in named and key != "values"}
    values |= keywords.get("values", {})
    if isinstance(source, Module):
        named = {**of_module(source, name, known), **named}
    files = [file_of(source)] if isinstance(source, str | Path | Module) else [*source]
    options = [(key.rstrip("_"), value) for key, value in named.items()]
    # Uses click's parser, so that defaults, ranges and error texts are those of the command line.
    words = [word for key, value in options for word in option_words(key, known[key], value)]
    # `--` ends the options, because the name of a file may begin with a dash.
    words += ["--", *files, *(f"{key}={plain(value)}" for key, value in values.items())]
    with as_raised_here(known, values), command.make_context(f"dsl {name}", words) as context:
        context.meta[WORDS] = ("dsl", name, *words)
        yield files[0] if files else "", dict(context.params)


@contextmanager
def as_raised_here(known: Collection[str], values: Collection[str]) -> Iterator[None]:
    """A context manager that converts errors of click and of a child process to TileError or DeviceError."""
    try:
        yield
    except click.UsageError as error:
        raise TileError("option", None, error.format_message()) from None
    except ChildFailure as failure:
        first = failure.records[0]
        if failure.status == DEVICE_FAILED:
            raise DeviceError(first["code"], failure.text, first["hint"]) from None
        raise TileError(first["code"], None, failure.text) from None
    except TileError as error:
        # A misspelt option was read as a NAME=VALUE that no dim or constant has.
        near = [closest(key, known) for key in values if f"'{key}'" in error.message]
        if error.code != "option" or not any(near):
            raise
        hints = [error.hint, *(f"of the options: {each}" for each in near if each)]
        raise TileError(error.code, error.loc, error.message, "; ".join(filter(None, hints))) from None


def python_value(value: Any) -> Any:
    """Converts numpy scalars to Python numbers, also inside lists and dicts. Returns any other value unchanged."""
    if isinstance(value, Mapping):
        return {key: python_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [python_value(each) for each in value]
    if isinstance(value, str | None) or getattr(value, "ndim", 0) != 0:
        return value
    number = plain_number(value)
    return value if number is None else number


def command_of(name: str) -> click.Command:
    """The click command of this name, with the option `--plugin`."""
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def file_of(source: str | Path | Module) -> str:
    """The path of a source file or module. Raises TileError `file` for a module that was loaded from text."""
    if not isinstance(source, Module):
        return str(source)
    if source.program.path is None:
        message = f"{source.program.source.name} is a text without a file, which commands cannot read"
        raise TileError("file", None, message, "dsl.load(FILE), or a cell of %%tile")
    return str(source.program.path)


def of_module(module: Module, command: str, known: Mapping[str, click.Parameter]) -> dict[str, Any]:
    """Converts the settings of a module, such as its device, to options of a command. The command `why` does not get
    the device, because its `--device` selects tuned data."""
    said: dict[str, Any] = {"choose": dict(module.asked.options), "strict_bounds": module.strict_bounds}
    said |= {"arch": module.arch, "device": module.device, "plugin": [*module.program.plugins.files]}
    return {name: value for name, value in said.items() if name in known and (command, name) != ("why", "device")}


def option_words(name: str, option: click.Parameter, value: Any) -> list[str]:
    """Converts an option to words of the command line. A list of texts repeats a repeatable option. Otherwise the
    elements of a list are joined by commas: `grid=(3, 2)` becomes `--grid 3,2`."""
    if name in OF_PRINTING or isinstance(option, click.Argument):
        raise TileError("option", None, f"'{name}' is for the command line", "to_dict(), row.svg, print")
    flag = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return []
    if isinstance(option, click.Option) and option.is_flag:
        return [flag]
    if isinstance(value, Mapping):
        value = [f"{key}={each}" for key, each in value.items()]
    if isinstance(value, list | tuple):
        if not value:
            return []
        # `grid=(3, 2)` is a single grid with two extents, although --grid is repeatable.
        if option.multiple and not all(isinstance(each, int) for each in value):  # type: ignore[attr-defined]
            return [word for each in value for word in option_words(name, option, each)]
        value = ",".join(map(str, value))
    return [flag, str(value)]


def plain(value: Any) -> str:
    """A value as the language spells it: `true`, not `True`. Lists are joined by commas."""
    if isinstance(value, list | tuple):
        return ",".join(map(plain, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
