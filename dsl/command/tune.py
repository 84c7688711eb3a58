"""`dsl tune`: finds the fastest values of the schedules' `tune` lines, for given shapes and types."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsl.command.failures import carried_out
from dsl.command.options import choices_of, command_line, shared
from dsl.command.trials import Bar
from dsl.lowering.ir.location import TileError, closest

if TYPE_CHECKING:
    from dsl.calls.tuned import Entry
    from dsl.examples.overrides import Overrides
    from dsl.lab.machines import Machines
    from dsl.lab.outcome import Outcome
    from dsl.lab.place import TuningPlace
    from dsl.lab.session import Session, Settings


MAX_DIGITS = 18
"""The most digits in an extent of --for. Such an extent is always below 2^63."""
INTERRUPTED = 130
"""128 + SIGINT, the status that shells report."""


EXECUTOR = click.Choice(["processes", "dask", "ray"])


@click.command()
@shared("file values device arch_of_device example seconds seed log jobs plot edited choose skip_pass as_json")
@click.option("--schedule", metavar="NAME[,NAME…]", help="Only these, instead of those that the conditions choose.")
@click.option("--devices", metavar="cuda:0,cuda:1,…|all", help="Try points on these side by side, one process each.")
@click.option("--executor", type=EXECUTOR, default="processes", help="Workers: of this host, or of a cluster.")
@click.option("--address", metavar="ADDRESS", help="The address of the cluster's scheduler.")
@click.option("--emulator", is_flag=True, help="Rank by the emulator's counters; --write writes that winner.")
@click.option("--all", "branches", is_flag=True, help="Every branch of the dispatch that can serve the shape.")
@click.option(
    "--search",
    default="cost",
    metavar="NAME",
    help="How points are chosen: cost, all, random, one, halving, optuna.",
)
@click.option("--budget", type=click.IntRange(1), metavar="N", help="At most N new points of a launch.")
@click.option("--model", metavar="NAME|FILE.json", help="Try points in this model's order; see dsl model.")
@click.option("--counters", is_flag=True, help="On a GPU, also count the first blocks on the emulator, for dsl model.")
@click.option("--fresh", is_flag=True, help="Also measure points that the log has.")
@click.option("--write", is_flag=True, help="Write the winners beside the file, where dispatch reads them.")
@click.option("--for", "ranges", multiple=True, metavar="NAME=LOW:HIGH", help="Range of a dim that they serve.")
def command(file: str, values: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Tune the launches of an example of FILE (.tile). NAME=VALUE sets dims, types, options and constants.
    NAME=VALUE,VALUE tries several values one after another.

    Exit status: 0 fine, 1 a launch has no point with a right result, 2 the input is wrong, 3 the device failed.
    """
    try:
        return carried_out(file, as_json, lambda: tune(file, values, as_json, options))
    except KeyboardInterrupt:
        return INTERRUPTED


def check_options(options: dict[str, Any], choose: Any) -> None:
    """Raises TileError for options that exclude each other."""
    if options["branches"] and options["schedule"] is not None:
        raise TileError("option", None, "--all and --schedule exclude each other")
    # The written data applies to the unchanged file. Dispatch reads the data without these options.
    if options["write"] and choose:
        hint = "leave out --choose and --skip-pass, or say it in the schedule: choose KEY: OPTION"
        raise TileError("option", None, "--write is for kernels as the file has them", hint)
    if options["devices"] is not None and (options["emulator"] or options["device"] != "auto"):
        raise TileError("option", None, "--devices stands in place of --device and --emulator", "--devices emulator")
    # Tuned data are read by the name of the device alone, and the processes of --devices find targets by themselves.
    for name in ("write", "devices"):
        if options["arch"] is not None and options[name]:
            hint = "leave out --arch, to tune for the target of the device"
            raise TileError("option", None, f"--arch and --{name} exclude each other", hint)
    if options["arch"] is not None and options["executor"] != "processes":
        raise TileError("option", None, "--arch is for this process", "leave out --executor")
    if options["executor"] == "processes" and options["address"] is not None:
        raise TileError("option", None, "--address is of a cluster", "--executor dask, or ray")
    if options["write"] and options["edited"]:
        raise TileError("option", None, "--write is for kernels as the file has them", "leave out --from")


def tune(file: str, values: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns the result as data, and whether a launch has no point with a right result. Also prints the result unless
    `as_json` is set."""
    from dsl.examples.shapes import find_example
    from dsl.lab.plot import draw, require_matplotlib
    from dsl.lab.report import as_json as record
    from dsl.lab.session import Session
    from dsl.lab.space import cases
    from dsl.lab.trial import Log, default_log
    from dsl.text.program import dim_names, load

    if options["plot"] is not None:
        require_matplotlib(Path(options["plot"]))
    choose = choices_of(options["choose"], options["skip_pass"])
    check_options(options, choose)
    # Options are checked first, because checking them costs nothing.
    program = load(file)
    example = find_example(program, options["example"])
    ranges = parse_ranges(options["ranges"], {name for k in program.kernels.values() for name in dim_names(k)})
    # Dims and types make cases. Constants make points.
    overrides, domains = cases(program, example, values)
    settings = settings_of(options, domains, choose)
    # The default log is beside the file, so that the next run continues from it.
    log = Log(Path(options["log"]) if options["log"] else default_log(Path(file)))
    notes = log.notes(program.plugins)
    try:
        with machines_of(options) as machines, Bar() as bar:
            place = place_of(options, machines)
            session = Session(program, example, place, log, settings, bar)
            outcomes = outcomes_of(session, machines, overrides, bar, not as_json)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {log.path} has what was done; the same command goes on from there", err=True)
        raise
    if options["plot"] is not None:
        draw(outcomes, Path(options["plot"]), place.name)
    written = write(file, outcomes, place, ranges) if options["write"] else []
    if not as_json:
        click.echo(f"\n  {len(log.trials)} trials in {log.path}")
        for line in (*notes, *written):
            click.echo(f"  {line}")
    told = {**record(outcomes, place, file), "log": str(log.path), "notes": notes, "written": written}
    # A launch whose points were all left out (--budget 0, --seconds 0) is not a failure.
    return told, any(outcome.trials and not outcome.fine for outcome in outcomes)


def machines_of(options: dict[str, Any]) -> AbstractContextManager[Machines | None]:
    """A context manager for the devices that try points in parallel. It yields None if this process tries all points.
    Raises TileError."""
    from dsl.lab.clusters import machines_of_dask, machines_of_ray
    from dsl.lab.machines import device_names, own_processes

    executor, address = options["executor"], options["address"]
    devices = [] if options["devices"] is None else device_names(options["devices"])
    if executor == "dask":
        return machines_of_dask(address, devices)
    if executor == "ray":
        return machines_of_ray(address, devices)
    return own_processes(devices) if devices else nullcontext()


def place_of(options: dict[str, Any], machines: Machines | None) -> TuningPlace:
    """The device, or one of several equal devices. Raises TileError, LaunchError or DeviceError."""
    from dsl.lab.place import find_place

    device = "emulator" if options["emulator"] else options["device"]
    place = machines.place if machines else find_place(device, options["arch"])
    # The emulator does not rank by time, so writing its winners must be requested explicitly.
    if options["write"] and not place.is_timed and not options["emulator"]:
        hint = "--emulator writes them, under the emulator's name"
        raise TileError("option", None, "without a GPU there are no times, and no winners to write", hint)
    return place


def outcomes_of(
    session: Session, machines: Machines | None, cases: list[Overrides], bar: Bar, is_shown: bool
) -> list[Outcome]:
    """Tunes all launches in all cases. With `is_shown`, prints each outcome at once."""
    from dsl.lab.report import show as show_outcome
    from dsl.lab.tuning import tune
    from dsl.text.terminal import Terminal

    console, place = Terminal(), session.place
    if is_shown:
        many = f"{len(machines.all)} × " if machines else ""
        how = "" if place.is_timed else "; no GPU is used: points are ordered by the emulator's counters"
        console.say(f"{many}{place.name} ({place.arch}){how}")
    outcomes: list[Outcome] = []
    for outcome in tune(session, cases, machines):
        outcomes.append(outcome)
        if is_shown:
            bar.clear()
            show_outcome(outcome, place, console)
    return outcomes


def settings_of(options: dict[str, Any], domains: dict[str, list[Any]], choose: dict[str, str]) -> Settings:
    """Converts the options of the command to `Settings`. Raises TileError."""
    from dsl.kernels.edited import edited_from
    from dsl.lab.model import load_model
    from dsl.lab.searches import search_named
    from dsl.lab.session import Settings
    from dsl.lab.space import SpaceChoice

    if not search_named(options["search"]).is_ordered and options["model"] is not None:
        message = f"the search '{options['search']}' does not take points in the order of a model"
        raise TileError("option", None, message, "--search cost, all or halving")
    schedules = options["schedule"].split(",") if options["schedule"] else ()
    return Settings(
        SpaceChoice(domains, schedules, options["branches"]),
        model=None if options["model"] is None else load_model(options["model"]),
        jobs=(os.cpu_count() or 1) if options["jobs"] is None else options["jobs"],
        choose=choose,
        edited=[edited_from(each, choose) for each in options["edited"]],
        **{name: options[name] for name in ("search", "budget", "counters", "seconds", "fresh", "seed")},
        command=command_line(),
    )


def parse_ranges(texts: tuple[str, ...], known: set[str]) -> dict[str, tuple[int | None, int | None]]:
    """Parses `--for NAME=LOW:HIGH` texts: `rows=1024:` becomes `(1024, None)` for `rows`. Raises TileError `option`."""
    out: dict[str, tuple[int | None, int | None]] = {}
    for text in texts:
        name, equals, ends = text.partition("=")
        low, colon, high = ends.partition(":")
        if not equals or not colon or not all(end.isdecimal() or not end for end in (low, high)):
            raise TileError("option", None, f"'--for {text}' is not NAME=LOW:HIGH", "--for rows=1024:")
        if name not in known:
            hint = closest(name, known) or f"known: {', '.join(sorted(known))}"
            raise TileError("option", None, f"'--for {text}': there is no dim '{name}'", hint)
        if name in out:
            raise TileError("option", None, f"'--for {text}': '{name}' has a range already")
        if not low and not high:
            raise TileError("option", None, f"'--for {text}' has neither end", "--for rows=1024:")
        if len(low) > MAX_DIGITS or len(high) > MAX_DIGITS:
            raise TileError("option", None, f"'--for {text[:60]}…': an extent has at most {MAX_DIGITS} digits")
        if low and high and int(low) > int(high):
            raise TileError(
                "option", None, f"'--for {text}' is empty: {low} is above {high}", f"--for {name}={high}:{low}"
            )
        out[name] = (int(low) if low else None, int(high) if high else None)
    return out


def write(
    file: str, outcomes: list[Outcome], place: TuningPlace, ranges: dict[str, tuple[int | None, int | None]]
) -> list[str]:
    """Writes the winners into the tuned data beside the file. Returns sentences that describe what was done."""
    from dsl.calls.tuned import Tuned, stale
    from dsl.calls.tuned_file import update
    from dsl.text.files import tuned_path

    path, program = tuned_path(file), outcomes[0].call.program
    new = [entry_of(outcome, place, ranges) for outcome in outcomes if outcome.winner is not None]
    lines: list[str] = []

    def change(tuned: Tuned) -> bool:
        # Removes entries of kernels or branches that no longer exist in the file.
        gone = [entry for entry in tuned.entries if stale(entry, program) is not None]
        tuned.entries = [entry for entry in tuned.entries if entry not in gone]
        tuned.put(new)
        lines.extend(f"removed, since {file} no longer has it: {entry.described()} of {entry.device}" for entry in gone)
        return bool(new or gone)

    notes = update(path, change)
    if not new and not lines:
        return [*notes, "nothing to write"]
    written = f"{len(new)} {'entry' if len(new) == 1 else 'entries'} for {place.name} written to {path}"
    return [*notes, *lines, written]


def entry_of(outcome: Outcome, place: TuningPlace, ranges: dict[str, tuple[int | None, int | None]]) -> Entry:
    """Converts the winner of an outcome to an entry of tuned data."""
    from dsl.calls.tuned import Entry, text_digest

    # Handwritten code cannot be written, because --write and --from exclude each other.
    assert outcome.winner is not None and outcome.candidates[outcome.winner].edited is None
    trial, candidate = outcome.trials[outcome.winner], outcome.candidates[outcome.winner]
    # The facts of the call that dispatch will use to find an entry.
    facts = outcome.call.planner().facts()
    median, low, high = trial.interval
    is_timed = trial.status == "measured"
    return Entry(
        place.name,
        facts.call,
        facts.options,
        facts.types,
        facts.dims,
        facts.absent,
        candidate.steps,
        text_digest(outcome.call.program, candidate.steps),
        # A range of a dim that this call lacks belongs to another call.
        {name: ends for name, ends in ranges.items() if name in facts.dims},
        median if is_timed else None,
        (low, high) if is_timed else None,
        len(outcome.ties),
        outcome.call.program.plugins.digests,
    )
