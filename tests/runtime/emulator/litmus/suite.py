"""Litmus tests of the PTX memory model: data in `litmus.toml`, one template that makes kernels of them.

A test has up to four roles, each the text of one thread.  Many instances of it run in one launch: a table tells each
thread of the grid its role and its instance, and another where the instance's words lie in memory.  In a body

    [x] [y] [z] [f] [g]     are words in global memory, [sx] [sy] [sm] in shared memory (8 bytes each, zero at first)
    wait ld… [f], 1;        loads until it finds the value (and gives up at last: the instance is not counted)
    lock atom… [f], 0, 1;   exchanges until it succeeds
    wait mbarrier [sm], 0;  tests a phase
    out 0, %a0;             is what the role has found, r0 of the conditions
    all: …                  is executed by all lanes of the role's warp, as barriers are; the rest by one lane
    meet                    is where all lanes execute the `meet` of the test; a role without it is before that

Registers: %a0 … %a7 of 32 bits, %b0 … of 64, %h0 … of 16, %p0 … .  `where` is "blocks" (each role in a block of its
own), "warps" (of one block), "lanes" (of one warp), or a list with the block of each role.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

WORDS = "xyzfg"
SLOTS = 8  # of 8 bytes, of an instance: the words, where its roles meet, and spare ones
MEET, OUTS, LOST = 5, 8, 7
NOBODY = 0xFFFFFFFF
POLLS = 1 << 18
ENTRY = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry litmus(.param .u64 memory, .param .u64 table, .param .u64 places, .param .u64 outs,
  .param .u32 loops, .param .u32 slab, .param .u32 instances, .param .u32 meet)
{{
  .reg .pred %lead, %any, %role, %w, %p<8>;
  .reg .b16 %h<8>;
  .reg .b32 %t, %i, %n, %k, %left, %loops, %slab, %meet, %first, %a<8>, %s<4>;
  .reg .b64 %m, %q, %e, %o, %rx, %ry, %rz, %rf, %rg, %rm, %step, %b<8>;
  .shared .align 8 .b8 shared[64];
  ld.param.u64 %m, [memory];
  ld.param.u64 %e, [table];
  ld.param.u64 %q, [places];
  ld.param.u64 %o, [outs];
  ld.param.u32 %loops, [loops];
  ld.param.u32 %slab, [slab];
  ld.param.u32 %n, [instances];
  ld.param.u32 %meet, [meet];
  mov.u32 %s0, shared;
  add.u32 %s1, %s0, 8;
  add.u32 %s2, %s0, 16;
  mov.u32 %t, %ntid.x;
  mov.u32 %i, %ctaid.x;
  mov.u32 %k, %tid.x;
  setp.eq.u32 %p0, %k, 0;
  mov.b64 %b0, 0;
  @%p0 st.shared.u64 [%s0], %b0;
  @%p0 st.shared.u64 [%s1], %b0;
  {start}
  bar.sync 0;
  mad.lo.u32 %k, %t, %i, %k;
  mul.wide.u32 %b0, %k, 4;
  add.u64 %e, %e, %b0;
  ld.global.u32 %t, [%e];
  setp.eq.u32 %p0, %t, {nobody};
  @%p0 exit;
  and.b32 %k, %t, 8;
  setp.ne.u32 %lead, %k, 0;
  shr.u32 %i, %t, 4;
  and.b32 %t, %t, 7;
  mul.wide.u32 %b0, %i, {place_bytes};
  add.u64 %q, %q, %b0;
{words}
  mul.wide.u32 %b0, %i, {out_bytes};
  add.u64 %o, %o, %b0;
AGAIN:
  mov.u32 %left, {polls};
  setp.eq.u32 %p0, %meet, 0;
  @%p0 bra MET;
  @!%lead bra MET;
  red.relaxed.gpu.global.add.u32 [%rm], 1;
MEETING:
  ld.relaxed.gpu.global.u32 %k, [%rm];
  sub.u32 %left, %left, 1;
  setp.eq.u32 %w, %left, 0;
  @%w bra MET;
  setp.lt.u32 %w, %k, %meet;
  @%w bra MEETING;
MET:
  bar.warp.sync -1;
{roles}
NEXT:
  bar.warp.sync -1;
  sub.u32 %loops, %loops, 1;
  setp.eq.u32 %p0, %loops, 0;
  @%p0 exit;
  mul.wide.u32 %step, %slab, 1;
{advance}
  mul.wide.u32 %step, %n, {out_bytes};
  add.u64 %o, %o, %step;
  bra AGAIN;
}}
"""


@dataclass(frozen=True)
class Litmus:
    """`verdict`: "ordered" or "race", whether the emulator must report.  `finding` is what it reports.

    `forbidden` and `weak` are conditions on the outcome: never to be seen; allowed, and not to be seen on a machine
    without weak memory.  `start` is for thread 0 of a block, `rest` for lanes and warps of the block without a role.
    """

    name: str
    isa: str
    verdict: str
    roles: tuple[str, ...]
    where: str | list[int] = "blocks"
    finding: str = "race"
    forbidden: str = ""
    weak: str = ""
    start: str = ""
    rest: str = ""
    meet: str = ""
    gpu: bool = True
    note: str = ""

    @property
    def lanes(self) -> bool:
        return self.where == "lanes"

    @property
    def block_of_role(self) -> list[int]:
        if isinstance(self.where, list):
            return self.where
        return list(range(len(self.roles))) if self.where == "blocks" else [0] * len(self.roles)

    @property
    def text(self) -> str:
        return "\n".join((*self.roles, self.rest, self.start))

    @property
    def whole_blocks(self) -> bool:
        """Does it use what a block has once: shared memory, barriers?"""
        return bool(re.search(r"\[s[xym]|\bbar\.(?!warp)|barrier", self.text)) or self.lanes


def suite() -> list[Litmus]:
    data = tomllib.loads(Path(__file__).with_name("litmus.toml").read_text())
    return [Litmus(**{**each, "roles": tuple(each["roles"])}) for each in data["test"]]


# From a test to PTX


def addresses(line: str) -> str:
    line = re.sub(r"\[([xyzfg])((?:\+\d+)?)\]", r"[%r\1\2]", line)
    return re.sub(r"\[s([xym])((?:\+\d+)?)\]", lambda found: f"[%s{'xym'.index(found[1])}{found[2]}]", line)


def role_lines(body: str, label: str, guarded: bool) -> list[str]:
    """The instructions of a role: those of its one thread under a guard, unless the role is a single lane."""
    found = []
    for number, line in enumerate(filter(None, map(str.strip, body.splitlines()))):
        line = addresses(line)
        everybody = line.startswith(("all:", "bar"))
        lead = "@%lead " if guarded and not everybody else ""
        line = line.removeprefix("all:").strip()
        here = f"{label}_{number}"
        if line.startswith(("wait ", "lock ")):
            found += polling(line, here, guarded)
        elif line.startswith("out "):
            slot, register = line.removeprefix("out ").rstrip(";").split(",")
            found.append(f"{lead}st.global.u32 [%o+{4 * int(slot)}], {register.strip()};")
        elif guarded and line.startswith("bar"):
            found += ["bar.warp.sync -1;", line]  # the lanes come back together from where one of them was alone
        else:
            found.append(lead + line)
    return found


def polling(line: str, label: str, guarded: bool) -> list[str]:
    """`wait` and `lock`; `wait mbarrier [sm], parity;` waits for a phase."""
    if line.startswith("wait mbarrier "):
        target, parity = line.removeprefix("wait mbarrier ").rstrip(";").rsplit(",", 1)
        test = [f"mbarrier.test_wait.parity.shared.b64 %w, {target}, {parity.strip()};", "selp.u32 %k, 1, 0, %w;"]
        return spin(test, "1", label, guarded)
    word, opcode, rest = line.rstrip(";").split(" ", 2)
    operands, wanted = rest.rsplit(",", 1) if word == "wait" else (rest, "0")
    return spin([f"{opcode} %k, {operands};"], wanted.strip(), label, guarded)


def spin(load: list[str], wanted: str, label: str, guarded: bool) -> list[str]:
    """Repeats `load` until %k is what is wanted, or too often."""
    return [
        *([f"@!%lead bra {label}_END;"] if guarded else []),
        f"{label}:",
        *load,
        "sub.u32 %left, %left, 1;",
        "setp.eq.u32 %w, %left, 0;",
        f"@%w st.global.u32 [%o+{4 * LOST}], 1;",
        f"@%w bra {label}_END;",
        f"setp.ne.u32 %w, %k, {wanted};",
        f"@%w bra {label};",
        f"{label}_END:",
    ]


def kernel(test: Litmus) -> str:
    parts = [role_parts(body) for body in (*test.roles, test.rest)]
    roles = dispatch(test, [before for before, _ in parts], "A")
    if test.meet:
        roles += ["  bar.warp.sync -1;" if not test.lanes else "", *(f"  {each}" for each in test.meet.splitlines())]
        roles += dispatch(test, [after for _, after in parts], "B")
    words = []
    for index, name in enumerate([*WORDS, "m"]):
        words += [f"  ld.global.u32 %k, [%q+{4 * index}];", "  cvt.u64.u32 %b0, %k;", f"  add.u64 %r{name}, %m, %b0;"]
    return ENTRY.format(
        start="\n  ".join(f"@%p0 {addresses(line)}" for line in test.start.strip().splitlines()),
        nobody=NOBODY,
        place_bytes=4 * SLOTS,
        out_bytes=4 * OUTS,
        words="\n".join(words),
        polls=POLLS,
        roles="\n".join(roles),
        advance="\n".join(f"  add.u64 %r{name}, %r{name}, %step;" for name in [*WORDS, "m"]),
    )


def role_parts(body: str) -> tuple[str, str]:
    """What comes before `meet`, and what after it; all before where there is none."""
    before, found, after = body.partition("meet\n")
    return (before, after) if found else (body, "")


def dispatch(test: Litmus, bodies: list[str], part: str) -> list[str]:
    found = []
    for number, body in enumerate(bodies):
        role = number if number < len(test.roles) else 7
        found += [f"  setp.ne.u32 %role, %t, {role};", f"  @%role bra {part}{number}_END;"]
        found += [f"  {line}" for line in role_lines(body, f"{part}{number}", not test.lanes)]
        found += [f"  bra {part}_END;", f"{part}{number}_END:"]
    return [*found, f"{part}_END:"]


# Launches


@dataclass
class Setting:
    """The arrays of a launch, and its numbers; `memory` and `outs` are for all loops."""

    blocks: int
    threads: int
    loops: int
    instances: int
    memory: Any
    table: Any
    places: Any
    outs: Any
    meet: int

    @property
    def scalars(self) -> tuple[int, int, int, int]:
        return self.loops, self.memory.nbytes // self.loops, self.instances, self.meet


def setting(test: Litmus, blocks: int, warps: int, loops: int, random: Any, together: bool) -> Setting:
    """Instances on random blocks, warps and lanes, and in one of three arrangements of memory.

    `together`: the roles of an instance wait for each other first; all blocks must be on the device at once.
    """
    of_role = test.block_of_role
    span = max(of_role) + 1
    most = max(of_role.count(block) for block in range(span))
    if test.lanes:
        warps = 1
    elif test.whole_blocks:
        warps = most + bool(test.rest)
    layers = 1 if test.whole_blocks else max(warps // most, 1)
    loops = 1 if test.whole_blocks else loops
    table = np.full((blocks, warps, 32), NOBODY, np.uint32)
    instances = 0
    for layer in range(layers):
        order = random.permutation(blocks)
        for group in order[: blocks // span * span].reshape(-1, span):
            fill(test, table, group, layer * most, instances, random)
            instances += 1
    slots = np.arange(instances * SLOTS)
    arrangement = random.integers(3)
    if arrangement == 0:
        slots = slots.reshape(instances, SLOTS)
    elif arrangement == 1:
        slots = slots.reshape(SLOTS, instances).T
    else:
        slots = random.permutation(slots).reshape(instances, SLOTS)
    places = (8 * slots).astype(np.uint32)
    memory = np.zeros(loops * instances * SLOTS * 2, np.uint32)
    outs = np.zeros((loops, instances, OUTS), np.uint32)
    meet = len(test.roles) if together and not test.whole_blocks else 0
    return Setting(
        blocks, 32 * warps, loops, instances, memory, table.reshape(-1), places.reshape(-1), outs.reshape(-1), meet
    )


def fill(test: Litmus, table: Any, group: Any, first_warp: int, instance: int, random: Any) -> None:
    """Puts one instance into the table of threads: instance * 16 + 8 for the lane that acts + role."""
    if test.lanes:
        table[group[0]] = instance * 16 + 8 + 7
        table[group[0], 0, : len(test.roles)] = instance * 16 + 8 + np.arange(len(test.roles))
        return
    used = dict.fromkeys(range(len(group)), first_warp)
    for role, block in enumerate(test.block_of_role):
        row = table[group[block], used[block]]
        row[:] = instance * 16 + role
        row[random.integers(32)] += 8
        used[block] += 1
    if test.rest:
        for block, warp in used.items():
            table[group[block], warp] = instance * 16 + 7
            table[group[block], warp, 0] += 8


def count(test: Litmus, condition: str, outs: Any) -> int:
    """Of how many instances, of those that did not give up, is the condition true?"""
    if not condition:
        return 0
    outs = outs.reshape(-1, OUTS).astype(np.int64)
    values = {f"r{index}": outs[:, index] for index in range(LOST)}
    found = np.broadcast_to(eval(condition, {"__builtins__": {}}, values), len(outs))
    return int((found & (outs[:, LOST] == 0)).sum())


def rounds(outs: Any) -> int:
    return int((outs.reshape(-1, OUTS)[:, LOST] == 0).sum())
