"""No word that CHANGELOG.md lists as renamed is left: in code, samples, documents, benchmarks; and old files are
rewritten."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dsl.text import renamed

ROOT = Path(__file__).parents[1]
OLD = {
    "a property": r"(?<![\w.`])(?:grouped|turns|parts|fragments|tabulate|maxregs) (?=\d|\w+: ?(?:\d|early|late|whole))",
    "a property in a document": r"`(?:grouped|turns|parts|fragments|tabulate|maxregs|bulk)(?: \w+)?[:`]",
    "TMA": r"\b[iI]n bulk\b|\bstage [\w, …{}]+: bulk\b|[\"'`]bulk_(?:copy|store|commit|wait|fence)\b",
    "a kind of choices": r"\bchoose (?:grouped|order|columns|again|exchange|slots|sums|turns|parts|fragments)\b",
    "an operation": r"\b(?:turn_begin|turn_end|product_wait)\b|[(\"](?:filled|dots)\"",
    "a pass": r"\b(?:lower_exchanges|check_turns|earlier_rounds)\b",
    "other words": r"\b(?:maxregs|tabulat\w+|fetchers?|dictate[sd]?|panels?|HeaderChannel|channels_of|at_channel)\b",
    "an identifier": r"\b(?:Panels|_usual_slots|is_bulk|_bulk_(?:copy|store|commit|wait|fence)|_product_wait|_dots)\b",
    "a stage": r"\bslots?\b(?!=True)(?!__)",
}
APART = {
    "CHANGELOG.md", "dsl/text/renamed.py", "tests/test_renamed_words.py",
    "tests/errors/renamed_words.tile", "tests/errors/renamed_words.expected",
}  # fmt: skip
"""They tell of the old words."""
OTHERS = ("dsl/runtime/emulator/", "dsl/ptx_templates/", "tests/runtime/", "tests/ptx_templates/", "benchmarks/",
          "tests/benchmarks/")  # fmt: skip
"""Rooms with slots and panels of their own: those of a wave, of hand-written kernels, of a figure."""
TEXTS = (".py", ".md", ".tile", ".toml", ".lark", ".html", ".expected", ".ir", ".ipynb")


def texts() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = [ROOT / name for name in listed if name.endswith(TEXTS) and name not in APART]
    return [path for path in found if path.is_file()]  # what is deleted may still be in the index


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source distribution has no list of files")
@pytest.mark.parametrize("what", OLD)
def test_no_renamed_word_is_left(what: str) -> None:
    pattern = re.compile(OLD[what])
    found = []
    for path in texts():
        name = str(path.relative_to(ROOT))
        if what in ("a stage", "other words", "an identifier", "a property in a document") and name.startswith(OTHERS):
            continue
        if what == "a property in a document" and path.suffix != ".md":
            continue
        text = path.read_text(encoding="utf-8")
        if not pattern.search(text):  # in a tenth of the time that its lines take
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line) and "cp.async.bulk" not in line:
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found[:40])


OLD_TEXT = """choice order(n):
    up = n
schedule s of k:
    grouped 8                                # groups of 8
    stage a, b: bulk
    stage c: where(m > 4,
        bulk, shared)
    parts acc: 128, 64
    fragments p: early
    order descending
    recompute v, w
    choose exchange.v: shared
    bulk = 3
"""
NEW_TEXT = """choice order(n):
    up = n
schedule s of k:
    l2_group 8                                # groups of 8
    stage a, b: tma
    stage c: where(m > 4,
        tma, shared)
    subtile acc: 128, 64
    prefetch_fragments p: early
    choose tile_order.grid: descending
    choose recompute.v: anew
    choose recompute.w: anew
    choose convert_layout.v: shared
    bulk = 3
"""


def test_files_are_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "k.tile"
    path.write_text(OLD_TEXT)
    for said in ("rewritten", "as it was"):
        done = subprocess.run(
            [sys.executable, "-m", "dsl.rename", str(path)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{path}: {said}\n" and path.read_text() == NEW_TEXT


def test_a_file_that_is_not_there_is_no_traceback(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dsl.rename", str(tmp_path / "k.tile")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "No such file" in done.stderr and "Traceback" not in done.stderr


def test_each_old_property_has_its_new_line() -> None:
    for name in (*renamed.PROPERTIES, *renamed.BY_CHOICE):
        assert renamed.new_lines(name, "v")
    assert renamed.new_lines("pipeline", "p: 3") == []
