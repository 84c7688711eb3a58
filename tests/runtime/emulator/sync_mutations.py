"""Takes the synchronisation of kernels apart, one statement or branch at a time, and asks whether that is found.

    PYTHONPATH=. python tests/runtime/emulator/sync_mutations.py [NAME …] [--jobs 2]

tells of each change that was neither found nor shown to be redundant; the rest is counted. Found is: a finding, a text
that is refused, a wrong result, or a launch without an end.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from sync_kernels import FOREIGN, OURS, Run, case

from dsl.runtime import DeviceError, FindingError
from dsl.runtime.emulator import EmulatorError, PtxError

ORDERING = re.compile(
    r"bar\.|barrier\.|fence\.|membar\.|griddepcontrol\.|setmaxnreg\.|mbarrier\.(?!(?:test|try)_wait)"
    r"|cp\.async\.(?:bulk\.)?(?:commit|wait)|cp\.async\.mbarrier|wgmma\.(?:fence|commit|wait)"
)
WAIT = re.compile(r"mbarrier\.(?:test|try)_wait")
POLL = re.compile(r"(?:ld|atom)\.\S*(?:volatile|relaxed|acquire|acq_rel)")
STATEMENT = re.compile(
    r"(?P<guard>@!?%?[\w$]+\s+)?(?P<name>[a-z]\w*(?:\.[\w:]+)+|bra|ret)(?P<rest>(?:\s[^;{}]*(?:\{[^}]*\})?[^;{}]*)*);"
)
REGISTER = re.compile(r"%?\b[A-Za-z_]\w*")
LABEL = re.compile(r"(?m)^\s*([\w$]+):(?!:)")
BEHIND = 12  # statements behind a wait in which its branches stand
SEEDS = (0, 1, 2)
NOT_REACHED = "not reached"
WEAKER = {"acquire": "relaxed", "release": "relaxed", "acq_rel": "relaxed"}


TOGETHER = "a warp has waited together, as wgmma.wait_group is .aligned"
EMPTY = "the last copies have been waited for: the groups that it counts are empty"
ONE_SHAPE = "sums of one shape go on from product to product, and nothing else touches them (PTX ISA, wgmma.fence)"
REGISTERS = "it asks for registers, and orders nothing"
DELAY = "turns only delay: no memory hangs on who comes first"
NO_STORE = "no store to shared memory stands before it that the asynchronous proxy meets"
NEXT = "a barrier stands behind it, and nothing that it orders between the two"
OWN = "the same thread does what stands before it and what stands behind it"
OTHER_FENCE = "another fence stands behind the last init, or no copy arrives there and a barrier orders the init"
NO_FILL = "the producer waits at its end for slots that nobody fills again"
END = "an object's end: nobody uses it or its memory behind that, and uses that nothing orders before are notes"
LAST = "nobody does anything behind it"
LATER = "its copies join the group behind it, which is waited for no later"
REDUNDANT: dict[str, dict[str, str]] = {
    "copies in groups": {EMPTY: "drop cp.async.wait_group #4"},
    "products of a warp group": {
        ONE_SHAPE: "drop wgmma.fence.sync.aligned #1 #2",
        EMPTY: "drop cp.async.commit_group #5, drop cp.async.wait_group #4",
    },
    "boxes": {TOGETHER: "drop bar.warp.sync #0"},
    "boxes, out too": {TOGETHER: "drop bar.warp.sync #2"},
    "a cluster": {TOGETHER: "drop bar.warp.sync #0"},
    "turns": {
        REGISTERS: "drop setmaxnreg.inc.sync.aligned.u32 #0",
        DELAY: "drop the branch behind mbarrier.try_wait.parity.shared.b64 #2, "
        "turn the branch behind mbarrier.try_wait.parity.shared.b64 #2",
        TOGETHER: "drop bar.warp.sync #0",
    },
    "equal shares": {
        TOGETHER: "drop bar.warp.sync #0",
        NO_STORE: "drop fence.proxy.async.shared::cta #0 #1 #2",
        NEXT: "drop bar.sync #1",
    },
    "nvcc: last_block": {OWN: "drop bar.sync #7"},
    "nvcc: stages": {
        END: "drop fence.sc.cta #0 #1, weaken atom.add.acquire.cta.u32 #0 #1, "
        "drop the branch behind atom.add.acquire.cta.u32 #0 #1, turn the branch behind atom.add.acquire.cta.u32 #0 #1, "
        "drop mbarrier.inval.shared.b64 #0 #1 #2 #3 #4 #5 #6 #7, drop barrier.sync #1 #2",
    },
    "nvcc: hopper_gemm": {REGISTERS: "drop setmaxnreg.inc.sync.aligned.u32 #0"},
    "Triton: turns": {
        END: "drop bar.sync #0 #1",
        OTHER_FENCE: "drop fence.mbarrier_init.release.cluster #0 #1",
        OWN: "drop bar.sync #4 #5 #6 #7 #8 #9 #13",
        NEXT: "drop bar.sync #10 #11 #12",
        LAST: "drop bar.sync #14",
    },
    "Triton: roles": {
        REGISTERS: "drop setmaxnreg.inc.sync.aligned.u32 #0 #1 #2 #4",
        LAST: "drop barrier.sync #2 #3",
        OWN: "drop bar.warp.sync #0 #1 #2",
    },
    "Triton: locked": {LATER: "drop cp.async.commit_group #0", NEXT: "drop bar.sync #2 #7 #9 #10 #11"},
    "CuTe: ring": {
        OTHER_FENCE: "drop fence.mbarrier_init.release.cluster #0",
        NO_FILL: "drop the branch behind mbarrier.try_wait.parity.shared.b64 #1 #2, "
        "turn the branch behind mbarrier.try_wait.parity.shared.b64 #1 #2",
    },
}
"""By kernel and reason the changes that do no harm, or of which each stands in for the others."""
UNREACHED = {"Triton: roles": {f"drop barrier.sync #{number}" for number in (7, 8)}}
"""Of a role that no warp has."""


def redundant(kernel: str) -> set[str]:
    """The changes of a kernel that do no harm, by name."""
    found: set[str] = set()
    for listed in REDUNDANT.get(kernel, {}).values():
        for each in listed.split(", "):
            words, *numbers = each.split(" #")
            found.update(f"{words} #{number}" for number in numbers)
    return found


@dataclass(frozen=True)
class Mutation:
    """What is changed: the words of the statement, which of its like it is (from 0 on), and how: "drop", "weaken", or
    "drop" and "turn" for a branch behind it."""

    how: str
    words: str
    number: int
    start: int
    end: int
    new: str = ""

    def made(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]

    def probed(self, text: str) -> str:
        """With a store to address 0 under the same guard ahead of it: is it executed at all?

        No trap: a wait whose "no" leads to one is never told "no", as nobody would go on.
        """
        guard = None if "branch" in self.how else re.match(r"\s*(@\S+)\s", text[self.start :])
        store = f"{guard[1] if guard else ''} st.global.b32 [nowhere], 0;"
        return f"{text[: self.start]}{{ .reg .b64 nowhere; mov.b64 nowhere, 0; {store} }} {text[self.start :]}"

    @property
    def name(self) -> str:
        return f"{self.how} {self.words} #{self.number}"


def statements(text: str) -> list[re.Match[str]]:
    """All instructions; comments are blanked out, which leaves the places as they are."""
    blank = re.sub(r"//[^\n]*", lambda found: " " * len(found[0]), text)
    return [found for found in STATEMENT.finditer(blank) if blank[found.start() - 1 : found.start()] != "."]


class Labels:
    """Where labels stand; of several of one name, in braces each, the nearest is meant."""

    def __init__(self, text: str):
        self.places: dict[str, list[int]] = {}
        for match in LABEL.finditer(text):
            self.places.setdefault(match[1], []).append(match.start())

    def leads_back(self, branch: re.Match[str], start: int) -> bool:
        """Does this branch go to a place ahead of `start`?"""
        places = self.places.get(branch["rest"].strip(), [branch.end()])
        return min(places, key=lambda place: abs(place - branch.start())) < start


def mutations(text: str) -> Iterator[Mutation]:
    """Each statement that orders taken away, each order made relaxed, each branch behind a wait taken away or turned
    around."""
    found = statements(text)
    labels = Labels(text)
    numbers: Counter[str] = Counter()
    for at, match in enumerate(found):
        name = match["name"]
        if not (ORDERING.match(name) or WAIT.match(name) or {*WEAKER} & {*name.split(".")} or POLL.match(name)):
            continue
        number = numbers[name]
        numbers[name] += 1
        if ORDERING.match(name):
            yield Mutation("drop", name, number, match.start(), match.end())
        words = name.split(".")
        if {*WEAKER} & {*words} and words[0] not in {"fence", "membar", "barrier", "mbarrier", "tensormap"}:
            weak = ".".join(WEAKER.get(word, word) for word in words)
            yield Mutation("weaken", name, number, match.start("name"), match.end("name"), weak)
        if WAIT.match(name) or POLL.match(name):
            for branch in branches(found[at:], match.start(), labels, bool(WAIT.match(name))):
                if not leaves_a_circle(branch, found, match.start(), labels):
                    yield Mutation("drop the branch behind", name, number, branch.start(), branch.end())
                if branch["guard"]:
                    guard = branch["guard"]
                    other = guard.replace("@!", "@") if "!" in guard else guard.replace("@", "@!")
                    start, end = branch.span("guard")
                    yield Mutation("turn the branch behind", name, number, start, end, other)


def leaves_a_circle(branch: re.Match[str], found: list[re.Match[str]], start: int, labels: Labels) -> bool:
    """Does a jump back to the wait follow? Without the branch nobody would ever leave, as a look at the text tells."""
    after = next((match for match in found if match.start() > branch.start()), None)
    jumps = after is not None and after["name"].split(".")[0] == "bra" and not after["guard"]
    return bool(branch["guard"] and jumps and after and labels.leads_back(after, start))


def branches(behind: list[re.Match[str]], start: int, labels: Labels, is_wait: bool) -> list[re.Match[str]]:
    """The branches that ask what a wait says: up to the one that leads back. Of a load or an atomic (the first of
    `behind`) the one that leads back to it, or else the first that its value decides."""
    taken: list[re.Match[str]] = []
    known: set[str] = set()
    for number, match in enumerate(behind[: BEHIND if is_wait else 4 * BEHIND]):
        if number and WAIT.match(match["name"]):
            break
        registers = REGISTER.findall(match["rest"])
        if not number or known.intersection(registers[1:]) or (match["name"].startswith("ld.shared") and "" in known):
            known.update(registers[:1])
        if match["name"].startswith("st.shared") and known.intersection(registers[1:]):
            known.add("")  # what shared memory holds
        asks = known.intersection(REGISTER.findall(match["guard"] or "")) or (is_wait and not match["guard"])
        if match["name"].split(".")[0] != "bra" or not asks:
            continue
        taken.append(match)
        if labels.leads_back(match, start) or not match["guard"]:
            break
    if is_wait:
        return taken
    back = [match for match in taken if labels.leads_back(match, start)]
    return (back or taken)[:1]


def verdict(text: str, run: Run, seeds: Sequence[int] = SEEDS) -> str:
    """What came of a text: in words what was found, or nothing."""
    try:
        return "" if all(run(text, seed) for seed in seeds) else "wrong result"
    except (EmulatorError, FindingError) as error:
        return str(error.finding.kind)
    except (PtxError, DeviceError):
        return "refused"


def judged(name: str, mutation: Mutation) -> str:
    text, run = case(name)
    found = verdict(mutation.made(text), run)
    probe = found or verdict(mutation.probed(text), run, SEEDS[:1])
    assert found or probe != "refused", f"{name}: {mutation.name}: its probe is no PTX"
    return found or ("" if probe else NOT_REACHED)


def together(name: str, left: list[Mutation]) -> list[Mutation]:
    """Of changes that are not found one by one, those that are not found all together either; each of the others is
    found once these are made, so that it stands in for them."""
    text, run = case(name)
    made: list[Mutation] = []
    for each in left:
        if not overlaps(each, made) and not verdict(changed(text, [*made, each]), run, SEEDS[:1]):
            made.append(each)
    return made


def overlaps(one: Mutation, others: list[Mutation]) -> bool:
    return any(one.start < other.end and other.start < one.end for other in others)


def changed(text: str, made: list[Mutation]) -> str:
    for each in sorted(made, key=lambda each: -each.start):
        text = each.made(text)
    return text


def all_of(names: list[str]) -> list[tuple[str, Mutation]]:
    return [(name, mutation) for name in names for mutation in mutations(case(name)[0])]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    names = options.names or [each.name for each in [*OURS, *FOREIGN]]
    for name in names:
        text, run = case(name)
        assert verdict(text, run) == "", f"{name}: {verdict(text, run)}"
    work = all_of(names)
    counts: Counter[str] = Counter()
    left: dict[str, list[Mutation]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for (name, mutation), found in zip(work, pool.map(judged, *zip(*work, strict=True)), strict=True):
            if not found:
                left.setdefault(name, []).append(mutation)
            elif found == NOT_REACHED and mutation.name not in UNREACHED.get(name, ()):
                counts["missed"] += 1
                print(f"{name}: {mutation.name}: not reached", flush=True)
            else:
                counts[found] += 1
        for (name, those), gone in zip(left.items(), pool.map(together, left, left.values()), strict=True):
            known = redundant(name)
            for mutation in those:
                word = "in turn" if mutation not in gone else "redundant" if mutation.name in known else "missed"
                counts[word] += 1
                if word == "missed":
                    print(f"{name}: {mutation.name}: MISSED", flush=True)
            for stale in known - {each.name for each in those}:
                counts["missed"] += 1
                print(f"{name}: {stale}: is found, and no longer redundant", flush=True)
    print(dict(counts))
    return 1 if counts["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
