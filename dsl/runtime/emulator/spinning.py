"""Detects launches that never end. Names the words that their loops poll, and the stores that could change these words.

The emulator is deterministic. Suppose that all threads that can run are in loops. At each loop's head the registers
have been the same for several iterations, and no write has changed memory. Then the loops never end, which is a
deadlock. It is found after some hundred iterations (0.1 s), and not only at the time limit (300 s).

A program that polls no memory is checked from time to time while it runs. If its registers and memory return to an
earlier state, it never ends, however long its loop is. A program that reads a clock, or whose threads meet at
mbarriers, has further state. Such a program is ended only by the limits of time and instructions.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .code import Site
from .memory import GLOBAL_WINDOW
from .reader import PtxInstruction
from .shadow import SpacePlace
from .spaces import Space

# Number of rotations without a change after which a deadlock is reported. In a rotation, each wave has one turn.
# Delayed writes (`delays.py`) are visible after the first of these rotations.
ROTATIONS = 3
# Number of steps of a wave between two looks at its state. A look takes as long as a few steps. 2,520 is a multiple of
# all numbers up to ten, so a cycle of up to ten steps always shows the same state.
LOOK = 2520
MOST_NAMED = 3  # the most words and lines that a report names


class Poll(Struct):
    """The latest strong read by an instruction in a loop. `spent` is the number of instructions that the launch had run
    by then."""

    site: Site
    place: SpacePlace
    memory: Space
    group: Any
    spent: int


class Spins:
    """Records which words the loops of a launch poll, and for how long the launch's state has not changed."""

    def __init__(self, launch: Any):
        self.launch = launch
        self.polls: dict[int, Poll] = {}
        self.marks = [0, 0]  # instructions run by the end of the last two rotations
        self.registers: list[Any] = []
        self.written: list[int] = []
        self.rotations = 0
        program = launch.program
        self.asks = program.waits_for_memory
        self.steps, self.looks, self.window = 0, 0, 1

    @property
    def is_decidable(self) -> bool:
        """Whether the emulator can prove that a program stands still. A program with mbarriers can be decided only in a
        rehearsal, where the phases are part of the state."""
        program = self.launch.program
        return not program.reads_clocks and (self.launch.rehearses or not program.has_mbarriers)

    def read(self, site: Site, place: SpacePlace, memory: Space, g: Any) -> None:
        """Records a strong read, or an atomic operation whose result is used, if it is in a loop."""
        if site.in_loop and place.lanes:
            self.polls[site.number] = Poll(site, place, memory, g, self.launch.spent)

    def rotated(self, active: list[Any]) -> bool:
        """Records that each wave has had a turn. Returns whether it is certain that the waves repeat their loops
        forever."""
        self.marks = [self.marks[1], self.launch.spent]
        if not self.is_decidable or not self.asks:
            return False
        registers = [wave.state() for wave in active]
        is_same = registers == self.registers
        self.registers = registers
        return self.stands(is_same)

    def stands(self, is_same: bool) -> bool:
        """Returns whether registers and memory have been unchanged for `ROTATIONS` calls. `is_same` states whether the
        registers are unchanged since the last call."""
        spaces = self.launch.all_spaces()
        written = [space.changes for space in spaces]
        # Comparing each write with the old value costs time. So it is done only in launches that seem to stand still.
        for space in spaces:
            space.compares = is_same
        self.rotations = self.rotations + 1 if is_same and written == self.written else 0
        self.written = written
        return self.rotations >= ROTATIONS

    def stepped(self, wave: Any) -> bool:
        """Counts a step of a wave, in a program that polls no memory. Returns whether it is certain that the wave never
        ends.

        Each new state is compared with one kept state. The kept state is replaced after 1, 2, 4, 8, … looks, so that a
        cycle of any length is found (after Brent 1980).
        """
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
        """Returns the reads of the loops that are running now."""
        # A loop that the threads left before the last two rotations no longer polls.
        found = [poll for poll in self.polls.values() if poll.spent >= self.marks[0]]
        return sorted(found, key=lambda poll: poll.site.number)

    def described(self, poll: Poll) -> str:
        """Returns a text about the word that a loop polls: its value, its last writer, and the lines that could change
        it."""
        launch, size = self.launch, poll.place.size
        unit = poll.place.start if poll.place.index is None else int(poll.place.index[0])
        value = int.from_bytes(poll.memory.data[unit * size : unit * size + size].tobytes(), "little")
        # The last writer of each byte is known only for global memory.
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
        """Returns a text about what the loops wait for. `waiting` is the number of blocks that have not started."""
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
    """Returns a text with the source lines of these instructions, each line once."""
    found = list(dict.fromkeys(f"{site.location or f'PTX line {site.ptx_line}'}" for site in sites))
    return ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
