"""The terminal of what rich draws."""

from __future__ import annotations

from typing import Any

from rich.console import Console


class Terminal(Console):
    """A console that leaves it to the command what a reader that has gone means."""

    def __init__(self, **options: Any) -> None:
        super().__init__(force_jupyter=False, **options)  # else a notebook shows what is to be printed

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
