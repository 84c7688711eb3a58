"""The terminal of what rich draws."""

from __future__ import annotations

from rich.console import Console


class Terminal(Console):
    """A console that leaves it to the command what a reader that has gone means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
