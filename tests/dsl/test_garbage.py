"""Imports, as Python's garbage collector sees them."""

import subprocess
import sys

CODE = """
import gc
from dsl.kernels.garbage import imports

if {freeze}:
    gc.freeze()
frozen, thresholds = gc.get_freeze_count(), gc.get_threshold()
with imports():
    import colorsys
assert gc.get_threshold() == thresholds
assert gc.get_freeze_count() == (frozen if {freeze} else 0)
print(any(each is colorsys.__dict__ for each in gc.get_objects(generation=2)))
"""


def run(freeze: bool) -> str:
    code = CODE.format(freeze=freeze)  # in a process of its own, since the tests freeze objects
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_what_modules_make_is_of_the_oldest_generation_at_once() -> None:
    assert run(freeze=False) == "True"


def test_what_the_caller_froze_stays_frozen() -> None:
    assert run(freeze=True) == "False"
