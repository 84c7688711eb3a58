"""Parses the two sides of `dsl diff`. Each side changes the file, the values or the options of the command."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dsl.examples.overrides import PREFIXES
from dsl.lowering.ir.choices import is_key
from dsl.lowering.ir.location import TileError
from dsl.text.files import is_file

if TYPE_CHECKING:
    from dsl.calls.tuned import StepChoice
    from dsl.lab.trial import Trial

LOG = re.compile(r".*\.jsonl(?::\d+)?")
LAUNCH_WORDS = ("schedule", "kernel", "example", "launch", "arch")
"""Options that a side may set for itself."""
AS_IT_IS = "as it is"
KINDS = "KEY=OPTION, schedule=NAME, NAME=VALUE, @COMMIT, LOG.jsonl:LINE, OTHER.tile, CODE.ptx"


class SideWords(Struct):
    """One side of a comparison. `commit` is the git commit whose compiler compiles the side. `code` is a file of PTX,
    LLVM IR or IR that is launched instead of a kernel. `trial` is the logged trial that the side repeats, and `chosen`
    lists its schedules and constants. `own` names the options that only this side sets."""

    file: str
    values: list[str]
    options: dict[str, Any]
    label: str
    commit: str | None = None
    code: str | None = None
    trial: Trial | None = None
    chosen: list[StepChoice] | None = None
    notes: list[str] = field(default_factory=list)
    own: set[str] = field(default_factory=set)

    @property
    def is_said(self) -> bool:
        """Whether the side differs from the plain call of the command."""
        return self.label != AS_IT_IS


def applied(
    text: str, values: Sequence[str], options: dict[str, Any], words: Collection[str] = ("schedule",)
) -> tuple[list[str], dict[str, Any]]:
    """The values and options of a side after the change `text`. `text` is NAME=VALUE, KEY=OPTION of a choice, or sets
    one of `words`, such as `schedule=block`. Raises TileError."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise TileError("option", None, f"'{text}' is not NAME=VALUE", "--vs swizzle.s=none, --vs schedule=NAME")
    if name in words:
        return list(values), {**options, name: value}
    # `dim.rows=8` looks like the key of a choice, but is a value.
    if is_key(name) and name.partition(".")[0] not in PREFIXES:
        choose = [each for each in options["choose"] if not each.startswith(f"{name}=")]
        return list(values), {**options, "choose": [*choose, text]}
    return [*(each for each in values if each.partition("=")[0] != name), text], options


def side_words(file: str, values: Sequence[str], options: dict[str, Any], words: Sequence[str]) -> SideWords:
    """Parses the words of `--from` or `--vs` to a side. Raises TileError for an unknown word."""
    side = SideWords(file, list(values), dict(options), " ".join(words) or AS_IT_IS)
    rest = []
    for word in words:
        if word.startswith("@"):
            # A second commit would silently replace the first.
            once(side.commit, word)
            side.commit = word
        elif LOG.fullmatch(word):
            once(side.trial, word)
            take_trial(side, word)
        elif word.endswith(".tile"):
            side.file = word
        # A path may contain '='.
        elif "=" in word and not is_file(Path(word)):
            rest.append(word)
        else:
            once(side.code, word)
            take_code(side, word)
    side.own = {word.partition("=")[0] for word in rest} & {*LAUNCH_WORDS}
    # Applied last, so that a side's own words override the words of its trial.
    for word in rest:
        side.values, side.options = applied(word, side.values, side.options, LAUNCH_WORDS)
    side.options["launch"] = launch_number(side.options["launch"])
    if side.commit is not None and side.code is not None:
        raise TileError(
            "option", None, f"{side.commit} and {side.code} exclude each other: the file of code is of this tree"
        )
    if side.commit is not None and side.chosen is not None:
        message = f"{side.label}: a commit cannot repeat a point of a tune set"
        raise TileError("option", None, message, "give the constants of the point as NAME=VALUE")
    return side


def once(known: Any, word: str) -> None:
    if known is not None:
        raise TileError("option", None, f"'{word}': a side has one commit, one log line and one code", KINDS)


def take_code(side: SideWords, word: str) -> None:
    if not is_file(Path(word)):
        raise TileError("option", None, f"'{word}' is neither a side nor an existing file", KINDS)
    # With a .tile file, the code replaces a kernel. Without a .tile file, only the code itself is compared.
    if side.file.endswith(".tile"):
        side.code = word
    else:
        side.file = word


def take_trial(side: SideWords, word: str) -> None:
    """Sets the values, options and steps of a logged trial."""
    from dsl.lab.station import steps_of
    from dsl.lab.trial import trial_at

    trial = side.trial = trial_at(word)
    names = trial.values.keys()
    side.values = [each for each in side.values if each.partition("=")[0] not in names]
    side.values += [f"{name}={value}" for name, value in trial.values.items()]
    side.options |= {"choose": [f"{key}={option}" for key, option in trial.choices.items()], "skip_pass": ()}
    side.options |= {"example": trial.example, "launch": trial.index + 1}
    # Logs with schema 2 have no seed.
    side.options |= {"seed": trial.seed} if trial.schema >= 3 else {}
    if any("constants" in step for step in trial.steps):
        side.chosen = list(steps_of(trial))
    elif len(trial.steps) == 1:
        side.options["schedule"] = trial.steps[0].get("schedule")


def launch_number(given: Any) -> int | None:
    """Parses N of `launch=N`. Raises TileError."""
    if given is None or isinstance(given, int):
        return given
    if not (given.isascii() and given.isdigit() and len(given) < 10) or int(given) < 1:
        raise TileError("option", None, f"launch={given}: a launch is a number from 1 on", "launch=2")
    return int(given)
