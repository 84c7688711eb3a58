"""What a wrong program is told, to the letter: `NAME.tile` beside `NAME.expected`, which `dsl check` prints.

`--update-golden` writes the expectations anew: read them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dsl.lowering.ir.location import TileError
from dsl.studies.check import check_file
from dsl.text.syntax import read

FOLDER = Path(__file__).parent
CASES = sorted(FOLDER.glob("*.tile"))


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_message(path: Path, update_golden: bool) -> None:
    errors = check_file(path).sorted()
    assert errors, "this program is right"
    rendered = "".join(error.render() + "\n" for error in errors).replace(f"{FOLDER}/", "")
    expected = path.with_suffix(".expected")
    if update_golden:
        expected.write_text(rendered)
    assert rendered == expected.read_text()


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_each_mistake_of_a_text_is_found_once(path: Path) -> None:
    """Whoever parses alone, as `dsl run` does, prints them as they are found."""
    try:
        found = [error.render() for error in read(path.read_text(), path.name).errors]
    except TileError:  # of the whole text
        return
    assert len(set(found)) == len(found)


def test_every_expectation_has_a_program() -> None:
    assert {p.stem for p in FOLDER.glob("*.expected")} == {p.stem for p in CASES}
