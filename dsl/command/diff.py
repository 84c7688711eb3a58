"""`dsl diff`: shows what differs between two launches, and what the differences cost."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from dsl.command.failures import carried_out
from dsl.command.options import LAB, choices_of, shared
from dsl.command.sides import SideWords, side_words
from dsl.command.trials import experiments
from dsl.lowering.ir.location import TileError, closest
from dsl.text.program import load, reached_kernels

if TYPE_CHECKING:
    from dsl.lab.diff import DiffKernel, Side
    from dsl.lab.experiment import Experiment
    from dsl.lab.place import TuningPlace
    from dsl.lab.trial import Trial

SIDE = "KEY=OPTION|NAME=VALUE|@COMMIT|LOG:LINE|FILE"


@click.command(epilog="For example: dsl diff samples/int8_conv.tile --vs swizzle.sf=none")
@shared(f"{LAB} rounds")
@click.option("--from", "start", multiple=True, metavar=SIDE, help="How A differs from the call; repeatable.")
@click.option("--vs", multiple=True, metavar=SIDE, help="How B differs from the call; repeatable.")
@click.option("--kernel", metavar="NAME", help="Only this kernel.")
@click.option("--level", metavar="STAGE", help="Show all of this level: ast, build, a pass, ir, llvm, ptx, sass.")
@click.option("--context", type=click.IntRange(0), default=3, show_default=True, metavar="N", help="Rows around.")
def command(file: str, values: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Compare two ways, A and B, to run the launches of an example of FILE. FILE, NAME=VALUE and the options apply to
    both. --from changes A, and --vs changes B. A change is another option of a choice (swizzle.sf=none), schedule=NAME,
    kernel=, example=, launch= or arch=, another value (cols=1000), the file and compiler of a @COMMIT, a trial of a log
    (log.jsonl:12), another .tile file, or PTX, LLVM IR or IR that replaces the kernel. Two PTX files are assembled, and
    their machine code is compared.

    The output lists the choices that differ, the figures side by side, the lines whose counters differ most, and the
    first level at which the code differs.

    Exit status: 0 equal, 1 different, 2 the input is wrong, 3 the device failed.
    """
    return carried_out(file, as_json, lambda: diff(file, values, as_json, options))


def diff(file: str, values: tuple[str, ...], as_json: bool, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns the differences as data, and whether anything but times differs. Also prints the differences unless
    `as_json` is set."""
    from dsl.examples.report import finite
    from dsl.lab.diff import Contest, compared
    from dsl.lab.diff_report import show_difference
    from dsl.lab.experiment import ROUNDS
    from dsl.lab.place import find_place
    from dsl.text.terminal import Terminal

    # Without this check, `dsl diff a.tile b.tile` would take the second file for a value.
    for text in values:
        if "=" not in text:
            raise TileError("option", None, f"'{text}' is not NAME=VALUE", f"--vs {text} compares with that")
    if not options["start"] and not options["vs"]:
        raise TileError("option", None, "there is nothing to compare with", "--vs swizzle.s=none, --vs @HEAD")
    sides = [side_words(file, values, options, options[name]) for name in ("start", "vs")]
    check_pair(*sides)
    console = Terminal()
    made = []
    with ExitStack() as stack:
        place = find_place(options["device"], options["arch"])
        first, second = (sides_of(each, place, stack) for each in sides)
        if len(first) != len(second):
            message = f"A has {len(first)} launches, B {len(second)}"
            raise TileError("option", None, message, "--launch N, or launch=N on a side")
        # Both sides are timed in one contest, because clocks differ between two runs.
        contest = Contest(place, options["rounds"] or ROUNDS, options["seed"])
        for pair in zip(first, second, strict=True):
            made.append(compared(*pair, options["context"], contest))
            level = None if options["level"] is None else known_level(options["level"], made[-1])
            if not as_json:
                show_difference(made[-1], level, console)
    differ = any(each["differs"] for each in made)
    return finite({"file": file, "device": place.name, "launches": made}), differ


def known_level(name: str, made: dict[str, Any]) -> str:
    """The full name of a level. `ir` means the IR after the last pass. Raises TileError if a side lacks the level."""
    from dsl.lab.diff_levels import kind_of

    known = list(dict.fromkeys(one["level"] for each in made["kernels"] for one in each["levels"]))
    # `ir` means the same as in `dsl compile --emit ir`: the IR after the last pass.
    if name == "ir" and (passes := [each for each in known if kind_of(each) == "ir"]):
        return passes[-1]
    if name not in known:
        message = f"the two sides have no common level '{name}'"
        raise TileError("option", None, message, closest(name, known) or ", ".join(known))
    return name


# ---- sides ----


def check_pair(first: SideWords, second: SideWords) -> None:
    """Raises TileError if one side is PTX or IR and the other a `.tile` file. Only a `.tile` file has an example for a
    launch."""
    for code, other, option in ((first, second, "--from"), (second, first, "--vs")):
        if other.file.endswith(".tile") and not code.file.endswith(".tile"):
            message = f"{code.file} is run by itself, {other.file} by its example"
            raise TileError("option", None, message, f"dsl diff {other.file} {option} {code.file}")


def sides_of(words: SideWords, place: TuningPlace, stack: ExitStack) -> list[Side]:
    """Makes a side for each launch. Raises TileError, LaunchError or DeviceError. The message of a TileError names the
    side."""
    try:
        return made_sides(words, place, stack)
    except TileError as error:
        # The unchanged side needs no name. Several errors belong to the file, and their lines locate them.
        if not words.is_said or len(error.errors) > 1 or words.label in error.message:
            raise
        raise TileError(error.code, error.loc, f"{words.label}: {error.message}", error.hint) from None


def made_sides(words: SideWords, place: TuningPlace, stack: ExitStack) -> list[Side]:
    if words.commit is not None:
        found = sides_at(words, place, stack)
    elif words.file.endswith(".tile"):
        found = sides_in(words, place)
    else:
        from dsl.kernels.edited import ptx_from
        from dsl.lab.diff_code import code_side

        options = words.options
        made = ptx_from(words.file, choices_of(options["choose"], options["skip_pass"]))
        label = words.label if words.is_said else words.file
        # A value without effect is an error. Otherwise users might think that the value was compared.
        if words.values:
            raise TileError("option", None, f"{words.file} is only assembled: '{words.values[0]}' has no effect on it")
        found = [code_side(made, words.file, label, place, options["kernel"])]
    for side in found:
        side.notes += words.notes
    return found


def sides_in(words: SideWords, place: TuningPlace) -> list[Side]:
    """Makes the sides for a `.tile` file. Handwritten code may replace its kernels."""
    from dsl.kernels.edited import ptx_from
    from dsl.lab.diff_code import code_side, given_kernels
    from dsl.runtime.header import read

    if words.code is None:
        return launched(words, place, {})
    options = words.options
    ptx = ptx_from(words.code, choices_of(options["choose"], options["skip_pass"]))
    # Without a header, no launch can be checked against the code. The code is compared as text.
    if not read(ptx):
        # --kernel names a kernel of the file. kernel= on the side names an entry of the text.
        kernel = options["kernel"] if "kernel" in words.own else None
        return [code_side(ptx, words.code, words.label, place, kernel)]
    return launched(words, place, given_kernels(ptx, words.code))


def launched(words: SideWords, place: TuningPlace, given: dict[str, DiffKernel]) -> list[Side]:
    """Makes a side for each launch of the requested kernel."""
    from dsl.lab.diff import launched_side
    from dsl.lab.experiment import Wanted

    options = {**words.options, "given": {name: each.made for name, each in given.items()}, "chosen": words.chosen}
    kernel = options["kernel"]
    if (alone := kernel_alone(words.file, options)) is not None:
        return [by_name(words, place, given, alone)]
    found = experiments(words.file, tuple(words.values), options, Wanted(lines=True, times=True))
    # The code of a commit replaces all kernels of the example, so all launches count.
    wanted = {kernel} if kernel is not None else {*given} if words.commit is None else set()
    having = [each for each in found if not wanted or wanted & {*launched_kernels(each)}]
    if not having:
        names = [*dict.fromkeys(name for each in found for name in launched_kernels(each))]
        asked = ", ".join(wanted)
        hint = closest(asked, names) or f"it launches {', '.join(names)}"
        raise TileError("option", None, f"the example of {words.file} does not launch '{asked}'", hint)
    for name in dict.fromkeys(name for each in having for name in launched_kernels(each)):
        if words.commit is not None and name not in given:
            message = f"{words.commit} launches {', '.join(given)}, but the call here launches {name}"
            raise TileError("option", None, message, "schedule=NAME on this side chooses a branch of the dispatch")
    if words.trial is not None:
        words.notes += notes_of(words, having[0])
    sides = [launched_side(each, words.label, kernel, given) for each in having]
    if words.trial is not None:
        words.notes += code_then(words.label, words.trial, sides[0].trial)
    return sides


def kernel_alone(file: str, options: dict[str, Any]) -> str | None:
    """The kernel to compile without a launch: the one of `--kernel`, or the only kernel of a file without examples.
    Returns None if the example launches the requested kernel. Raises TileError."""
    from dsl.examples.shapes import find_example

    program, name = load(file), options["kernel"]
    if not program.examples and options["example"] is None:
        if name is None and len(program.kernels) != 1:
            names = " or ".join(f"--kernel {each}" for each in program.kernels)
            raise TileError("option", None, f"{file} has no example that says what to compare", names or None)
        return program.kernel(name or next(iter(program.kernels))).name
    if name is None or program.kernel(name) in reached_kernels(program, find_example(program, options["example"])):
        return None
    return name


def by_name(words: SideWords, place: TuningPlace, given: dict[str, DiffKernel], kernel: str) -> Side:
    """Makes a side for a kernel that the example does not launch. The kernel is only compiled."""
    from dsl.command.compile import requests_for
    from dsl.lab.diff import compiled_side

    options, program = words.options, load(words.file)
    names = (kernel, options["schedule"], options["arch"] or place.arch, options["example"])
    (request,) = requests_for(program, words.values, *names)
    chosen = choices_of(options["choose"], options["skip_pass"])  # an unknown constant is an error
    request = replace(request, constants={**request.constants, **chosen})
    return compiled_side(program, request, words.label, place, given.get(request.kernel))


def launched_kernels(experiment: Experiment) -> list[str]:
    return [step.request.kernel for step in experiment.chosen.steps]


def notes_of(words: SideWords, experiment: Experiment) -> list[str]:
    """Notes on what has changed since a trial was logged. Raises TileError if the launch now uses other kernels."""
    trial, now = words.trial, experiment.blank
    assert trial is not None
    before, after = (
        " then ".join(f"{step['kernel']} with {step['schedule']}" for step in each.steps) for each in (trial, now)
    )
    if before != after:
        message = f"{words.label}: the trial launched {before}; the call launches {after} now"
        raise TileError("option", None, message, "use the file, example and NAME=VALUE of the trial")
    names = {"source": "compiled from another version of the file", "device": f"on {trial.device}"}
    found = [f"{words.label} was {text}" for name, text in names.items() if getattr(trial, name) != getattr(now, name)]
    if differ := trial.made_otherwise(now.versions):
        found.append(f"{words.label} was made with another {', '.join(differ)}")
    return [f"{each}; it is compiled again here" for each in found]


def code_then(label: str, then: Trial, here: Trial) -> list[str]:
    """Returns a note if the PTX of a logged trial differs from the PTX that is generated now. If the log has no PTX,
    there is no note."""
    was, now = ([(each.kernel, each.ptx) for each in trial.launches] for trial in (then, here))
    is_known = bool(was) and all(ptx is not None for _, ptx in was)
    return [f"{label} had other PTX then"] if is_known and was != now else []


def sides_at(words: SideWords, place: TuningPlace, stack: ExitStack) -> list[Side]:
    """Makes the sides for a commit. The commit's own compiler generates the code and makes the choices. The current
    work tree runs and measures the code."""
    from dsl.lab.commits import TreeQuestion, file_in_repository, git, worktree
    from dsl.lab.diff_code import kernels_in
    from dsl.lowering.ir.targets import target

    assert words.commit is not None
    commit = words.commit.removeprefix("@")
    root, name = file_in_repository(words.file)
    found = git(root, "rev-parse", "--verify", f"{commit}^{{commit}}")
    # The worktree exists until both sides are compared.
    tree = stack.enter_context(worktree(root, found))
    # Checked before the commit's compiler starts. That compiler runs in another Python process, whose error would not
    # name the commit.
    if not (tree / name).is_file():
        raise TileError("file", None, f"{name} is not in {words.commit}", "a commit that has the file")
    options = words.options
    asked = [f"--{each}={options[each]}" for each in ("example", "schedule") if options[each] is not None]
    alone = kernel_alone(str(tree / name), options)
    asked += [] if alone is None else [f"--kernel={alone}"]
    asked.append(f"--arch={options['arch'] or place.arch}")
    asked += [f"--choose={text}" for text in options["choose"]]
    asked += [f"--skip-pass={each}" for each in options["skip_pass"]]
    given = kernels_in(tree, TreeQuestion(name, words.values, (), asked), words.commit)
    # Grids of persistent kernels depend on the number of multiprocessors. The default number of the target may differ
    # from the number of this device.
    if target(place.arch).sms != place.sms:
        words.notes.append(f"{words.commit} compiles for {target(place.arch).sms} multiprocessors, not {place.sms}")
    words.notes.append(f"{words.commit} is {found[:12]} {git(root, 'show', '--no-patch', '--format=%s', found)}")
    return launched(replace(words, file=str(tree / name)), place, given)
