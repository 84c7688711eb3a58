"""Tests share a GPU: those that need much of its memory run one at a time, and give it back."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

A_FEW = 4
"""Gigabytes that a test may take without saying so."""
LOCK = Path(tempfile.gettempdir()) / "dsl-tests-gpu-memory.lock"


@contextmanager
def alone(lock: Path = LOCK) -> Iterator[None]:
    """Waits for other processes in such a block, of this run of the tests or another one.

    What the block allocated is the driver's again when the next one begins: torch keeps freed memory for itself, which
    no other process can have.
    """
    import fcntl

    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_initialized():
                gc.collect()
                torch.cuda.empty_cache()
