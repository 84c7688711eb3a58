"""The commands of the pages: each has options that exist, and the quick ones run. `.ci/full pages` runs all of them."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import click
import pytest

from dsl.command import COMMANDS, cli
from dsl.lowering.passes import PASSES
from tests import page_commands
from tests.page_commands import (
    LEFT_OUT,
    PAGES,
    PLACEHOLDERS,
    PREPARED,
    ROOT,
    STATUS,
    Command,
    commands_of,
    copy_of_tree,
    files_of,
    is_named,
    is_quick,
    is_whole,
    left_out,
    run,
    scripts_of,
)

ALL = {page: commands_of(page) for page in PAGES}
OF_PASSES = {"--print-after": False, "--skip-pass": True, "--after": False, "--pass": False}
"""Options that take a pass, and whether it must be one that may be left out."""


def words_of(command: Command) -> list[str]:
    """Of the `dsl` command in it; none if it has none."""
    text = command.text.split(" > ")[0]
    found = re.search(r"(?:^|; |&& |\s|/)dsl (.*)", text)
    try:
        return shlex.split(found[1]) if found else []
    except ValueError:  # code in a sentence that ends within quotes
        return found[1].split() if found else []


def faults_of_script(command: Command) -> list[str]:
    """Files of `python FILE.py`, `python -m MODULE` and `pytest FILE`, and options, that there are not."""
    words = command.text.split()
    module = next((after for word, after in pairwise(words) if word == "-m" and after.startswith("tests.")), None)
    script = next((word for word in words if re.fullmatch(r"[\w/]+\.py", word) and "/" in word), None)
    path = script if module is None else module.replace(".", "/")
    if path is None:
        return []
    if module is not None:
        path += "/__main__.py" if (ROOT / path).is_dir() else ".py"
    if not (ROOT / path).is_file():
        return [path]
    beside = "".join(each.read_text() for each in (ROOT / path).parent.glob("*.py"))
    return [
        word for word in words if re.fullmatch(r"--[a-z][a-z-]*", word) and words[0] != "pytest" and word not in beside
    ]


def faults(command: Command) -> list[str]:
    """Subcommands, options and passes that there are not."""
    if re.match(r"(python3?|pytest) ", command.text):
        return faults_of_script(command)
    words = words_of(command)
    if not words or not re.fullmatch(r"[a-z]+", words[0]):
        return []
    if words[0] not in COMMANDS:
        return [f"no command {words[0]}"]
    known = cli.get_command(click.Context(cli), words[0])
    assert known is not None
    options = {name for each in known.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
    found = [word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word) and word not in options]
    passes = {each.name: each.may_go for each in PASSES} | {"build": False}
    for option, value in pairwise(words):
        if option in OF_PASSES and value.islower() and (value not in passes or passes[value] < OF_PASSES[option]):
            found.append(f"{option} {value}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_have_options_that_exist(page: Path) -> None:
    assert not {str(each): found for each in ALL[page] if (found := faults(each))}


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(map(is_quick, ALL[page]))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_quick_commands_of_a_page_run(page: Path) -> None:
    with copy_of_tree(page) as (tree, environment):
        for command in filter(is_quick, ALL[page]):
            assert (fault := run(command, tree, environment)) is None, f"{command}\n{fault}"


def test_most_commands_run_somewhere_and_each_exception_is_one() -> None:
    """A row of a table that no page needs any more hides the next mistake."""
    whole = [each for page in PAGES for each in ALL[page] if is_whole(each)]
    assert len(whole) > 60 and sum(map(is_quick, whole)) >= 20
    for pattern in [*(row.pattern for row in LEFT_OUT), *(row[0] for row in STATUS), *map(re.escape, PLACEHOLDERS)]:
        assert any(re.search(pattern, each.text) for each in whole), pattern
    for name in PREPARED:
        assert any(is_named(name, each) for each in whole), name


PAGE = """# A page

See `python -m tests.nothing`, `python3 benchmarks/softmax.py --nothing`, `pytest tests/whole.py --update-golden`.

Say `dsl explain hazard`, `dsl run samples/add.tile` and `dsl run FILE`.

```sh
dsl explain nothing_of_the_kind   # and a comment
cd samples
dsl compile add.tile \\
    --emmit ptx
```

```
$ dsl why samples/add.tile --skip-pass buildd
add
```

```python
dsl run x
```

Save this as `one.tile`:

```
kernel
```
"""


def test_wrong_commands_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = commands_of(page)
    assert files_of(page) == {"one.tile": "kernel\n"}
    assert [faults(each) for each in found[:3]] == [["tests/" + "nothing.py"], ["--nothing"], []]
    found = found[3:]
    assert [(each.line, each.text, is_whole(each)) for each in found] == [
        (5, "dsl explain hazard", False),
        (5, "dsl run samples/add.tile", True),
        (5, "dsl run FILE", False),
        (8, "dsl explain nothing_of_the_kind", True),
        (9, "cd samples", True),
        (10, "cd samples; dsl compile add.tile --emmit ptx", True),
        (15, "dsl why samples/add.tile --skip-pass buildd", True),
    ]
    assert [faults(each) for each in found[-2:]] == [["--emmit"], ["--skip-pass buildd"]]
    monkeypatch.setattr(page_commands, "ROOT", tmp_path)
    scripts_of(tmp_path / "bin", ["dsl"])
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    assert "exit status 2, not 0" in (run(found[3], tmp_path, environment) or "")
    assert left_out(Command(page, 1, ".ci/full")) == "runs this" and left_out(found[3]) is None
