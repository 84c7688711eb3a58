"""The extension of VS Code: its grammar of TextMate, its fields and rules."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from coloured import FILES, Piece, classes, pieces

from dsl.command import COMMANDS
from dsl.editors import textmate
from dsl.editors.pygments_lexer import TileLexer
from dsl.editors.rules import COLOURS, rules
from dsl.editors.words import words

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"
GRAMMAR = EXTENSION / "syntaxes" / "tile.tmLanguage.json"
CLASSES_OF_SCOPES = {f"{colour.scope}.tile": name for name, colour in COLOURS.items() if colour.scope}


def test_the_grammar_of_textmate_is_up_to_date() -> None:
    assert GRAMMAR.read_text() == textmate.text(), (
        "python -m dsl.editors.textmate > editors/vscode/syntaxes/tile.tmLanguage.json"
    )


@cache
def matchers() -> list[tuple[re.Pattern[str], dict[int, str]]]:
    """The expressions of the committed grammar, and the classes of their groups."""
    patterns = json.loads(GRAMMAR.read_text())["patterns"]
    return [(re.compile(each["match"]), groups_of(each)) for each in patterns]


def groups_of(pattern: dict[str, Any]) -> dict[int, str]:
    if "captures" in pattern:
        return {int(group): CLASSES_OF_SCOPES[each["name"]] for group, each in pattern["captures"].items()}
    return {0: CLASSES_OF_SCOPES[pattern["name"]]} if "name" in pattern else {}


def scoped(line: str) -> list[Piece]:
    """What TextMate makes of a line: the rule that matches first, and of several at a place the first one."""
    found, at = [], 0
    while at < len(line):
        matches = [(match, groups) for regex, groups in matchers() if (match := regex.search(line, at))]
        if not matches:
            break
        match, groups = min(matches, key=lambda each: each[0].start())
        assert match.end() > at, f"{match.re.pattern} matches nothing"
        found += [(match.start(group), name, match[group]) for group, name in groups.items()]
        at = match.end()
    return found


def test_textmate_colours_as_pygments_does() -> None:
    lines = sorted({line for path in FILES for line in path.read_text().splitlines()})
    assert len(lines) > 2000
    for line in lines[:: 1 + len(lines) // 1500]:
        assert scoped(line) == [each for each in pieces(line) if COLOURS[each[1]].scope], line


def test_no_expression_needs_what_oniguruma_lacks() -> None:
    """VS Code reads them with Oniguruma: groups with names, conditions and flags are written in another way there."""
    for rule in rules():
        assert not re.search(r"\(\?[P(aiLmsux]|\\[AZ]|\n", rule.regex), rule.regex
        groups = re.compile(rule.regex).groups
        assert len(rule.colours) == 1 or len(rule.colours) == groups, rule.regex


def test_the_extension_has_what_vsce_asks_for() -> None:
    package = json.loads((EXTENSION / "package.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", package["name"]) and re.fullmatch(r"[\w-]+", package["publisher"])
    assert package["version"] == project["version"] and re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
    assert re.fullmatch(r"\^\d+\.\d+\.\d+", package["engines"]["vscode"])
    assert package["displayName"] and package["description"] and package["license"] == project["license"]
    assert (EXTENSION / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    # Since 1.74, an extension that contributes a language starts with its first file: it needs no `activationEvents`.
    assert (EXTENSION / package["main"]).is_file() and "activationEvents" not in package
    readme = (EXTENSION / "README.md").read_text()
    assert f"{package['name']}-{package['version']}.vsix" in readme
    assert not re.search(r"\]\((?!https:)", readme)  # vsce rewrites relative links by a repository


def test_the_extension_leads_to_its_files() -> None:
    contributes = json.loads((EXTENSION / "package.json").read_text())["contributes"]
    (language,), (grammar,) = contributes["languages"], contributes["grammars"]
    assert (
        language["id"] == grammar["language"] == "tile"
        and f"[{language['id']}]" in (contributes["configurationDefaults"])
    )
    assert [f"*{each}" for each in language["extensions"]] == [*TileLexer.filenames]
    assert (EXTENSION / grammar["path"]).resolve() == GRAMMAR
    assert json.loads(GRAMMAR.read_text())["scopeName"] == grammar["scopeName"] == "source.tile"
    assert (EXTENSION / language["configuration"]).is_file()


def test_the_extension_starts_the_language_server() -> None:
    package = json.loads((EXTENSION / "package.json").read_text())
    code, contributes = (EXTENSION / package["main"]).read_text(), package["contributes"]
    (setting,) = contributes["configuration"]["properties"].items()
    program, command = setting[1]["default"]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert program in scripts and command in COMMANDS
    section, _, name = setting[0].partition(".")
    assert f'getConfiguration("{section}").get("{name}")' in code
    assert {each["command"] for each in contributes["commands"]} == set(re.findall(r'registerCommand\("([^"]+)"', code))
    modules = {name.partition("/")[0] for name in re.findall(r'require\("([^"]+)"\)', code)}
    assert modules == {"vscode", *package["dependencies"]}


def configuration() -> dict[str, Any]:
    return json.loads((EXTENSION / "language-configuration.json").read_text())


def test_comments_brackets_and_words_are_those_of_the_grammar() -> None:
    found, known = configuration(), words()
    assert classes(f"{found['comments']['lineComment']} x") == {"# x": "comment"}
    assert {sign for pair in found["brackets"] for sign in pair} == known.signs & set("()[]{}")
    assert found["wordPattern"] == known.patterns["NAME"]
    named = set(re.findall(r"[a-z]{4,}", json.dumps([found["indentationRules"]["decreaseIndentPattern"]])))
    assert named == {"elif", "else"} and named <= known.keywords


def test_indentation_rules_fit_all_files() -> None:
    """A line is indented more behind those that the rule names, and behind no others: statements of one line, since
    brackets indent those of several."""
    rule = configuration()["indentationRules"]
    deeper, back = re.compile(rule["increaseIndentPattern"]), re.compile(rule["decreaseIndentPattern"])
    count = 0
    for path in FILES:
        before, depth = "", 0
        for line in path.read_text().splitlines():
            code = "".join(piece for _, name, piece in pieces(line) if name not in ("comment", "string"))
            if not code.strip():
                continue
            width, last = len(line) - len(line.lstrip()), len(before) - len(before.lstrip())
            if before and not depth:
                assert bool(deeper.search(before)) == (width > last), f"{path}: {before}"
                # `else:` is not indented less than an `if a: b` of one line.
                is_line = re.match(r"\s*(el)?if\b.*:.*\S", before)
                assert not back.search(line) or width < last or (is_line and width == last), f"{path}: {line}"
                count += width > last
            was_open, depth = depth, depth + sum(map(code.count, "([")) - sum(map(code.count, ")]"))
            before = "" if was_open or depth else line
    assert count > 300
