"""Launches that do not end: which words their loops poll, and whether anything can still change these.

The emulator is deterministic. If every thread that can run has repeated its loop often, with the same registers at its
head and without a write that changed memory, it repeats it for ever. That is a deadlock, found after some hundred
iterations (0.1 s) and not at the time limit (300 s).

A program that polls no memory is looked at now and then while it runs: a loop whose registers and memory return to an
earlier state has no end either, whatever its length. Programs that read a clock, or whose threads meet at mbarriers,
change in other ways: they have only the limits of time and instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .code import Site
from .memory import GLOBAL_WINDOW
from .reader import PtxInstruction
from .shadow import SpacePlace
from .spaces import Space

# Rotations without a change until it is a deadlock. Late writes (`delays.py`) have all been seen after the first one.
ROTATIONS = 3
# Steps of a wave between two looks at its state. A look takes as long as a few steps. 2,520 is a multiple of all
# numbers up to ten, so a cycle of up to ten steps is where it was at each look.
LOOK = 2520
MOST_NAMED = 3  # words, and lines


@dataclass(slots=True)
class Poll:
    """The latest strong read by one instruction of a loop. `spent`: instructions of the launch before it."""

    site: Site
    place: SpacePlace
    memory: Space
    group: Any
    spent: int


class Spins:
    """What the loops of a launch poll, and how long nothing has changed."""

    def __init__(self, launch: Any):
        self.launch = launch
        self.polls: dict[int, Poll] = {}
        self.marks = [0, 0]  # instructions spent before the second last rotation, and before the last
        self.registers: list[Any] = []
        self.written: list[int] = []
        self.rotations = 0
        program = launch.program
        self.asks = program.waits_for_memory
        self.steps, self.looks, self.window = 0, 0, 1

    @property
    def is_decidable(self) -> bool:
        """Whether a standstill can be proved. In a rehearsal with mbarriers it can, as their phases are part of the
        state."""
        program = self.launch.program
        return not program.reads_clocks and (self.launch.rehearses or not program.has_mbarriers)

    def read(self, site: Site, place: SpacePlace, memory: Space, g: Any) -> None:
        """Notes a strong read, or an atomic operation whose result is used."""
        if site.in_loop and place.lanes:
            self.polls[site.number] = Poll(site, place, memory, g, self.launch.spent)

    def rotated(self, active: list[Any]) -> bool:
        """All waves have had their turn. Is it certain that they go on like this for ever?"""
        self.marks = [self.marks[1], self.launch.spent]
        if not self.is_decidable or not self.asks:
            return False
        registers = [wave.state() for wave in active]
        is_same = registers == self.registers
        self.registers = registers
        return self.stands(is_same)

    def stands(self, is_same: bool) -> bool:
        """is_same: the registers are unchanged. Is the memory unchanged, too, and for long enough?"""
        spaces = self.launch.all_spaces()
        written = [space.changes for space in spaces]
        # Comparing each write with the old value costs time, so it is only for launches that seem to stand still.
        for space in spaces:
            space.compares = is_same
        self.rotations = self.rotations + 1 if is_same and written == self.written else 0
        self.written = written
        return self.rotations >= ROTATIONS

    def stepped(self, wave: Any) -> bool:
        """The wave of a program that polls no memory has made a step. Is it certain that it goes on for ever? The
        state that it is compared with is kept twice as long each time, so a cycle of any length is found (after
        Brent 1980)."""
        self.steps += 1
        if self.steps % LOOK or self.asks or not self.is_decidable:
            return False
        self.looks += 1
        registers = [wave.state()]
        is_same = registers == self.registers
        if not is_same:
            if self.looks < self.window:
                return False
            self.registers, self.looks, self.window = registers, 0, 2 * self.window
        return self.stands(is_same)

    def current(self) -> list[Poll]:
        """The reads of the loops that run now."""
        # A loop that was left before the last two rotations polls no more.
        found = [poll for poll in self.polls.values() if poll.spent >= self.marks[0]]
        return sorted(found, key=lambda poll: poll.site.number)

    def described(self, poll: Poll) -> str:
        """In words, the word that a poll reads, its value, its last writer, and what could change it."""
        launch, size = self.launch, poll.place.size
        unit = poll.place.start if poll.place.index is None else int(poll.place.index[0])
        value = int.from_bytes(poll.memory.data[unit * size : unit * size + size].tobytes(), "little")
        # Only of global memory it is known who last wrote each byte.
        if poll.memory is not launch.device:
            return f"{size} bytes of {poll.memory.shadow.name if poll.memory.shadow else 'its'} memory, {value:#x}"
        address = GLOBAL_WINDOW + unit * size
        allocation = launch.memory.find(address)
        writers = launch.writers(address)
        by = None if writers is None else writers(address)
        name, first = allocation.name, address - allocation.address
        text = f"bytes {first} to {first + size - 1} of {name}, which hold {value}; "
        others = [ins for ins in launch.stores_to(allocation.address) if ins.ptx_line != poll.site.ptx_line]
        text += f"last access that may have changed them: {by}; " if by else "no thread has written them; "
        return text + (
            f"{name} is also changed at {places_of(others)}" if others else f"nothing else in the kernel changes {name}"
        )

    def text(self, waiting: int) -> str:
        """In words, what the loops wait for. `waiting`: blocks that have not started."""
        polls = self.current()
        if not polls:
            return "no loop that runs reads what another thread may write: its condition stays true"
        lines = [
            f"{poll.site.location or 'no source line'} reads {self.described(poll)}" for poll in polls[:MOST_NAMED]
        ]
        more = len(polls) - len(lines)
        text = "\n  ".join(lines) + (f"\n  and {more} more" if more else "")
        running = sum(int(wave.live.sum()) for wave in self.launch.active)
        ended = self.launch.begun - running
        text += f"\n  {running} threads are still there, {ended} have ended"
        return text + (f", {waiting} blocks have not started" if waiting else "")


def places_of(sites: list[PtxInstruction]) -> str:
    """The lines of these instructions, each once."""
    found = list(dict.fromkeys(f"{site.location or f'PTX line {site.ptx_line}'}" for site in sites))
    return ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
