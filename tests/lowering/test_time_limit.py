"""A call of the user's code ends in time, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OVERDUE = """
import sys, threading, time
from dsl.lowering.ir.time_limit import Overdue, limited

def late():
    try:
        with limited(0.02):
            while True:
                time.sleep(0.001)
    except Overdue:
        told.append(True)

told = []
thread = threading.Thread(target=late)
thread.start()
thread.join()
late()
sys.setprofile(lambda *about: None)
told.append(sum(each for each in range(3)))
sys.setprofile(None)
print(told)
"""


def test_what_runs_behind_a_call_that_was_ended_can_be_profiled() -> None:
    """An interrupt that was taken back left Python looking for it: under a profiler it never came out of that."""
    done = subprocess.run([sys.executable, "-c", OVERDUE], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[True, True, 3]", done.stderr
