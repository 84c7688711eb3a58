"""docs/reference/ is what tests/reference_pages.py makes of the tables, commands and docstrings."""

from __future__ import annotations

import re

import pytest

import dsl
from dsl.command import COMMANDS
from dsl.command.error_codes import read_codes
from dsl.schedules.properties import PROPERTIES
from tests.reference_pages import FOLDER, PAGES, SCHEMA, page, prose


@pytest.mark.parametrize("name", [*PAGES, SCHEMA])
def test_a_page_is_up_to_date(name: str, update_golden: bool) -> None:
    if update_golden:
        (FOLDER / name).write_text(page(name), encoding="utf-8")
    assert (FOLDER / name).read_text(encoding="utf-8") == page(name), "pytest --update-golden writes it"


def test_every_page_of_the_folder_is_made_or_is_the_index() -> None:
    assert {path.name for path in FOLDER.glob("*")} == {*PAGES, SCHEMA, "README.md"}
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"({name})" in index for name in (*PAGES, SCHEMA))


def test_every_public_thing_has_a_heading() -> None:
    def headings(name: str) -> set[str]:
        return set(re.findall(r"^#+ (.*)$", (FOLDER / name).read_text(encoding="utf-8"), re.M))

    assert headings("errors.md") >= set(read_codes())
    assert headings("properties.md") >= set(PROPERTIES)
    assert headings("commands.md") >= {f"dsl {name}" for name in COMMANDS}
    assert headings("python.md") >= {f"dsl.{name}" for name in dsl.HOME} | {"dsl.torch.op", "dsl.jax.op"}


def test_prose_is_not_markup() -> None:
    assert prose("a*b*c <T> x[i](j) and `a*b`") == r"a\*b\*c \<T> x\[i\](j) and `a*b`"
