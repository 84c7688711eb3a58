"""Choices: decisions between candidates that are all correct. Each decision is made by `Choices.choose`, which records
it.

The key of a choice consists of its kind, a dot and its subject, for example `swizzle.sa`, `vector.x.load` or
`pass.simplify`. If several choices have the same key, they are numbered in order: `vector.x.load[1]`. A `choose` line
of a schedule, `tune choose` and `--choose` force options. The key in them selects one choice (`vector.x.load[1]`), all
choices with the same key (`vector.x.load`), or all choices of a kind (`vector`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from msgspec import Struct, field

from dsl.lowering.ir.forced import Forced
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.plugins import About, Opening, Plugins, current

ON_OFF = {"on": True, "off": False}
PLAIN = re.compile(r"[A-Za-z_]\w*|\d+(, \d+)*")
RULE = "rule"
"""The value of `by` if the option was not forced."""
TUNED = "tuned"
"""The value of `by` if a `tune choose` set forced the option. Tuning must not force an unsafe option, because code with
a race can pass a trial run."""
Retreat = tuple[str, str, tuple[str, ...]]
"""(key, option, codes). If a later pass raises an error with one of these codes, this option is forced for this key."""
Costs = Mapping[str, float] | Callable[[], Mapping[str, float]]
Reason = str | Callable[[], str]


class Choice(Struct):
    """One decision of the compiler.

    `stem`, `number`: the key of the choice.
    `rule`: the option that the compiler takes by default, called the rule's option.
    `by`: the origin of the option `taken`. `is_property`: True if a schedule line with a keyword other than `choose`
        selected the option.
    `costs`: the cost of each option in `unit`, as estimated by the code that makes the choice.
    `unsafe`: options that are correct only if the user knows more than the compiler.
    `line`: the schedule line that selects an option, with `{option}` as a placeholder. `line` is None if the schedule
        line is `choose KEY: OPTION`.
    `added`: the options that plug-ins have added.
    """

    stem: str
    number: int
    loc: Loc | None
    options: tuple[str, ...]
    rule: str
    taken: str
    by: str
    is_property: bool
    unit: str
    unsafe: tuple[str, ...]
    line: str | None
    _costs: Costs | None
    _because: Reason
    added: tuple[str, ...] = ()
    retreats: tuple[Retreat, ...] = ()

    @property
    def kind(self) -> str:
        return self.stem.partition(".")[0]

    @property
    def subject(self) -> str:
        return self.stem.partition(".")[2]

    @property
    def is_pinned(self) -> bool:
        """Whether the option was forced or set by a schedule line. Otherwise, it is the rule's option."""
        return self.by != RULE

    @property
    def costs(self) -> dict[str, float]:
        return dict(self._costs() if callable(self._costs) else self._costs or {})

    @property
    def because(self) -> str:
        return self._because() if callable(self._because) else self._because

    def override(self, option: str, key: str) -> str:
        """Returns the schedule line that selects the given option."""
        own = self.line is not None and not self.is_pinned and key == self.stem and option not in self.added
        return self.line.format(option=option) if own and self.line is not None else choose_line(key, option)


class Choices(Struct):
    """The forced options of one kernel by key, and the choices made so far. `plugins` are the plug-ins with which the
    kernel is compiled. They may add options."""

    forced: dict[str, Forced] = field(default_factory=dict)
    made: list[Choice] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    plugins: Plugins = field(default_factory=current)

    def choose(
        self,
        kind: str,
        subject: str,
        options: Mapping[str, Any],
        rule: str,
        *,
        loc: Loc | None = None,
        because: Reason = "",
        costs: Costs | None = None,
        unit: str = "",
        unsafe: tuple[str, ...] = (),
        pinned: Loc | None = None,
        line: str | None = None,
        opening: Opening | None = None,
        retreats: tuple[Retreat, ...] = (),
    ) -> Any:
        """Makes a choice and returns the value of the option: the forced option if there is one, otherwise `rule`.

        `options`: maps names to values. All options except those in `unsafe` are correct here.
        `pinned`: the schedule line that selects `rule`, if there is one.
        `line`: the form of the schedule line that makes this choice, if it is not a `choose` line.
        `costs`, `because`: values, or functions that are called only when the value is read.
        `opening`: the data for plug-ins, which may add options.
        `retreats`: the options to take if a later pass rejects the rule's option.

        Raises TileError `choice` if a tune set forces an unsafe option.
        """
        added: tuple[str, ...] = ()
        if opening is not None and (by_plugins := self.plugins.of("option", kind)):
            known = costs() if callable(costs) else costs or {}
            about = About(subject, options, rule, known, unit, opening.of)
            about, why = opening.widened(about, by_plugins, is_pinned=pinned is not None)
            added = tuple(about.options)[len(options) :]
            options, rule, costs, because = about.options, about.rule, about.costs, why or because
        stem = f"{kind}.{subject}"
        number = self.counts[stem]  # unrolled and inlined code makes several choices with the same key
        self.counts[stem] = number + 1
        taken, by = rule, RULE if pinned is None else str(pinned)
        forced = self._forced(_keys(kind, stem, number), options, unsafe) if self.forced else None
        if forced is not None:
            taken, by, because = forced.option, forced.by, forced.because or because
        names = tuple(options)
        is_property = pinned is not None and by == str(pinned)
        decided = (stem, number, loc, names, rule, taken, by, is_property)
        self.made.append(Choice(*decided, unit, unsafe, line, costs, because, added, retreats))
        return options[taken]

    def _forced(self, keys: Iterable[str], options: Mapping[str, Any], unsafe: tuple[str, ...]) -> Forced | None:
        """Returns the first forced option for one of these keys that is among the options, or None. Those of wider keys
        are met, too: a narrower key overrides them. Raises TileError `choice` if a tune set forces an unsafe option."""
        found = None
        for key in keys:
            forced = self.forced.get(key)
            if forced is None or forced.option not in options:
                continue
            if found is None and forced.by == TUNED and forced.option in unsafe:
                message = f"'{forced.option}' of '{key}' is right only if you know that it is"
                hint = f"a tune set may not try it: {choose_line(key, forced.option)}"
                raise TileError("choice", forced.loc, message, hint)
            forced.met = True
            found = found or forced
        return found

    def retreat(self, error: TileError) -> dict[str, Forced]:
        """Finds the option to force when the kernel is built again, after a pass rejected a rule's option with `error`.
        Returns it by key. If several choices may be the cause, the last of them is changed. The dict is empty if no
        choice may be the cause."""
        for made in reversed(self.made):
            if made.by != RULE:
                continue
            for key, option, codes in made.retreats:
                if error.code not in codes or made.taken == option or option not in made.options:
                    continue
                return {key: Forced(option, RULE, None, False, because=f"not '{made.taken}': {error.message}")}
        return {}

    def wished(self, kind: str, subject: str) -> Forced | None:
        """Returns the option that is forced for the next choice with this key, or None. That choice may not offer the
        option."""
        stem = f"{kind}.{subject}"
        keys = _keys(kind, stem, self.counts[stem])
        return next((self.forced[key] for key in keys if key in self.forced), None)

    def keyed(self) -> dict[str, Choice]:
        """Maps keys to choices, in order. If several choices have the same key, numbers are appended:
        `vector.x.load[1]`."""
        single = {stem for stem, count in self.counts.items() if count == 1}
        return {made.stem if made.stem in single else f"{made.stem}[{made.number}]": made for made in self.made}

    def force(self, options: Mapping[str, str], by: str, must: bool = True) -> None:
        self.forced |= {key: Forced(option, by, None, must) for key, option in options.items()}

    def allow_unmet(self) -> None:
        for forced in self.forced.values():
            forced.must = False

    def excuse(self, *keys: str) -> None:
        """Accepts schedule lines whose keys match no choice here. They match choices in other calls of the kernel."""
        for key in keys:
            if key in self.forced and self.forced[key].loc is not None:
                self.forced[key].must = False

    def check_met(self) -> None:
        """Raises TileError `choice` if no choice took a forced option."""
        for key, forced in self.forced.items():
            if forced.must and not forced.met:
                raise unmet(key, forced.option, self.keyed(), forced.loc)


def _keys(kind: str, stem: str, number: int) -> tuple[str, str, str]:
    """Returns the keys that may force a choice. The narrowest key comes first, because it takes precedence."""
    return f"{stem}[{number}]", stem, kind


class Asked(Struct):
    """Options that are forced in many kernels, by key. Each option must be used in at least one of these kernels."""

    options: dict[str, str] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    made: dict[str, Choice] = field(default_factory=dict)

    def note(self, choices: Choices) -> None:
        """Records the choices of a kernel that was compiled with these options."""
        if self.options:
            self.made |= choices.keyed()
            self.met |= {key for key, forced in choices.forced.items() if forced.met}

    def check(self) -> None:
        """Raises TileError `choice` if an option was used in no kernel."""
        for key, option in self.options.items():
            if key not in self.met:
                raise unmet(key, option, self.made)


def unmet(key: str, option: str, made: Mapping[str, Choice], loc: Loc | None = None) -> TileError:
    """Returns the error for a forced option that matches nothing: no choice has its key, or the choices with this key
    lack the option."""
    mine = [choice for name, choice in made.items() if key in keys_of(name, choice)]
    if mine:
        known = list(dict.fromkeys(each for choice in mine for each in choice.options))
        return TileError("choice", loc, f"'{key}' has no option '{option}' here", "options: " + "; ".join(known))
    stems = list(dict.fromkeys(each for name, choice in made.items() for each in (name, *keys_of(name, choice))))
    kind, _, subject = key.partition(".")
    alike = [name for name, choice in made.items() if choice.subject == subject.partition("[")[0]]
    near = alike or [name for name in made if name.partition(".")[0] == kind]
    others = "made: " + ", ".join(near[:8]) if near else "kinds: " + ", ".join(kinds(made))
    return TileError("choice", loc, f"no choice has the key '{key}'", closest(key, stems) or others)


def choose_line(key: str, option: str) -> str:
    """Returns the schedule line that forces an option."""
    return f"choose {key}: {option}" if PLAIN.fullmatch(option) else f'choose {key}: "{option}"'


def drawn(made: Mapping[str, Choice], random: Random, share: float) -> dict[str, str]:
    """Draws random options, by key, for a random subset of the choices. `share` is the probability of each choice. A
    drawn option is safe and differs from the option that the choice took."""
    found: dict[str, str] = {}
    for key, choice in made.items():
        others = [each for each in choice.options if each != choice.taken and each not in choice.unsafe]
        if others and random.random() < share:
            found[key] = random.choice(others)
    return found


def keys_of(name: str, choice: Choice) -> tuple[str, ...]:
    """Returns the keys that can force a choice. The narrowest key comes first."""
    return tuple(dict.fromkeys((name, f"{choice.stem}[{choice.number}]", choice.stem, choice.kind)))


def is_key(name: str) -> bool:
    """Returns whether a name is the key of a choice. Keys contain a dot. Names of schedule properties do not."""
    return "." in name


def kinds(made: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name in made))
