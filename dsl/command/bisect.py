"""`dsl bisect`: finds the choice, or the commit, at which a figure changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from dsl.command.failures import carried_out
from dsl.command.options import LAB, shared
from dsl.command.trials import Bar, experiments
from dsl.lowering.ir.location import TileError, printable
from dsl.lowering.ir.plugins import current

if TYPE_CHECKING:
    from dsl.lab.bisect import Bisection, Decision
    from dsl.lab.commits import CommitBisection
    from dsl.lab.experiment import Experiment
    from dsl.lab.predicates import Predicate

PLAIN = "plain"
START = "plain|LOG[:LINE]|KEY=OPTION"


@click.command()
@shared(LAB)
@click.option("--until", required=True, metavar="PREDICATE", help="For example 'registers <= 56 and result == right'.")
@click.option("--from", "start", multiple=True, metavar=START, help="The start; KEY=OPTION is repeatable.")
@click.option("--reduce", is_flag=True, help="Also find the choices on which the start's answer depends.")
@click.option("--good", metavar="COMMIT", help="Search commits of the file's repository, from this one.")
@click.option("--bad", metavar="COMMIT", help="Up to this one; without it, HEAD.")
def command(file: str, values: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Find the choice of the compiler at which the answer to PREDICATE changes. Binary search goes from the options at
    a start (--from) to those that the compiler chooses. PREDICATE compares result, registers, spills, sass, counters,
    time or ratio, and joins comparisons by 'and'. With --good, search commits. NAME=VALUE as in dsl run.

    Exit status: 0 found, 2 the input is wrong, 3 the device failed.
    """
    return carried_out(file, as_json, lambda: (bisect(file, values, as_json, options), False))


def bisect(file: str, values: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the result of the search as data. Also prints the result unless `as_json` is set."""
    is_of_commits = options["good"] is not None or options["bad"] is not None
    return {"file": file, **(between_commits if is_of_commits else between_choices)(file, values, as_json, options)}


# ---- choices ----


def between_choices(file: str, values: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> dict[str, Any]:
    from dsl.lab.bisect import as_json as record
    from dsl.lab.bisect import bisect
    from dsl.lab.predicates import predicate

    asked = predicate(options["until"])
    (experiment, *others) = experiments(file, values, options, asked.wanted)
    if others:
        # A predicate is about one launch. Its answer may differ between several launches.
        raise TileError("example", experiment.example.loc, f"this example has {1 + len(others)} launches", "--launch N")
    if asked.is_timed and experiment.place.ordinal is None:
        raise TileError("option", None, "without a GPU there are no times", "use a counter: wavefronts, sectors")
    decisions = decisions_from(experiment, options["start"])
    with Bar() as bar:
        # Binary search takes log2 of the number of decisions. Both ends are tried first.
        bar.begin("bisect", len(decisions).bit_length() + 2)
        made = bisect(experiment, decisions, asked, bar.advance, options["reduce"])
    if not as_json:
        show_choices(made, asked)
    return record(made, asked)


def decisions_from(experiment: Experiment, start: tuple[str, ...]) -> list[Decision]:
    """The choices that differ at the start (`--from`). Raises TileError `option`."""
    from dsl.lab.bisect import given, plain
    from dsl.lab.trial import trial_at

    if start in ((), (PLAIN,)):
        # By default every choice starts with its plain option, which needs no knowledge of the kernel.
        found = plain(experiment)
    else:
        assignment: dict[str, str] = {}
        for text in start:
            key, equals, option = text.rpartition("=")
            # A path may contain '='. If the file exists, the text names a log.
            if equals and not Path(text).exists():
                assignment[key] = option
            elif text == PLAIN:
                raise TileError("option", None, "--from plain stands alone", "--from KEY=OPTION, as often as you like")
            else:
                assignment |= trial_at(text).choices  # `text` is a log, or a line of a log
        found = given(experiment, assignment)
    if not found:
        raise TileError("option", None, "the start equals what the compiler chooses", "--from KEY=OPTION")
    return found


def show_choices(made: Bisection, asked: Predicate) -> None:
    tell(f"at the start ({len(made.decisions)} choices): {asked.said(made.start)}")
    tell(f"as chosen: {asked.said(made.end)}")
    answer = "no longer holds" if made.holds_at_start else "holds"
    where = f"'{asked.text}' {answer} from here on, after {made.trials} trials"
    tell(f"{where}:" if len(made.found) == 1 else f"{where}; the change lies between these:")
    for each in made.found:
        tell(f"  {each.label}: {each.option} → {each.taken}")
    tell(f"  before: {asked.said(made.before)}; after: {asked.said(made.after)}")
    if made.needed is None:
        tell("this is one place where the answer changes; there may be others: --reduce finds what the start needs")
        return
    tell(f"what the start's answer needs, {len(made.needed)} of {len(made.decisions)}:")
    for each in made.needed:
        tell(f"  {' '.join(f'{key}={option}' for key, option in each.assignment.items())}")


# ---- commits ----


def between_commits(file: str, values: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> dict[str, Any]:
    from dsl.lab.commits import TreeQuestion, bisect_commits, file_in_repository
    from dsl.lab.diff_choices import option_of
    from dsl.lab.place import find_place
    from dsl.lab.predicates import predicate

    for name, given in (
        ("--from", options["start"]),
        ("--reduce", options["reduce"]),
        ("--log", options["log"]),
        ("--launch", options["launch"]),
    ):
        if given:
            raise TileError("option", None, f"{name} is for choices, not for commits", "leave out --good and --bad")
    if options["good"] is None:
        raise TileError("option", None, "--bad needs a commit to start from", "--good COMMIT")
    asked = predicate(options["until"])
    root, name_there = file_in_repository(file)
    device = find_place(options["device"], options["arch"]).device
    # Options for `dsl run` and options for `dsl why`. An earlier version of a command may refuse an option that the
    # other command takes.
    run, why = [f"--device={device}", *(["--counters"] if device == "emulator" else [])], []
    for name in ("example", "schedule", "arch"):
        if options[name] is not None:
            why.append(f"--{name}={options[name]}")
    why += [f"--choose={text}" for text in options["choose"]] + [f"--skip-pass={name}" for name in options["skip_pass"]]
    # The child compiles in another work tree. Plug-ins are still files of this work tree.
    why += [f"--plugin={plugin}" for plugin in current().files]
    question = TreeQuestion(name_there, values, [*run, *why, f"--seed={options['seed']}"], why)
    with Bar() as bar:
        # Starts with a count of 0, because `bisect_commits` finds out the number of commits.
        bar.begin("bisect", 0)
        made = bisect_commits(root, options["good"], options["bad"] or "HEAD", question, asked, bar.advance)
    if not as_json:
        show_commits(made, asked)
    choices = {
        key: [option_of(one.first, None), option_of(one.second, None)] for one in made.choices for key in one.keys
    }
    return {"until": asked.text, **to_builtins(made), "choices": choices}


def show_commits(made: CommitBisection, asked: Predicate) -> None:
    from dsl.lab.diff_choices import option_of

    tell(f"{made.commits} commits: first {asked.said(made.start)}; last {asked.said(made.end)}")
    answer = "no longer holds" if made.holds_at_start else "holds"
    where = f"'{asked.text}' {answer} from here on, after {made.trials} runs"
    tell(f"{where}:" if len(made.found) == 1 else f"{where}; the commits between could not be run:")
    for commit, subject in made.found:
        tell(f"  {commit[:12]} {subject}")
    tell(f"  before: {asked.said(made.before)}; after: {asked.said(made.after)}")
    if not made.choices:
        tell("no choice of the kernels differs between the two trees")
    for each in made.choices:
        tell(f"  {each.label}: {option_of(each.first)} → {option_of(each.second)}")


def tell(text: str) -> None:
    click.echo(printable(text))
