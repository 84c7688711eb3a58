"""The tables of the LALR parser. Lark builds them from `grammar.lark`. The package contains the result as
`grammar_tables.json`.

Building the tables takes about 90 ms, and reading them takes 8 ms. After you change the grammar, run `python -m
dsl.text.grammar_tables` to write the file again. Until then, each start builds the tables, and a test fails. Lark's own
cache is not used, since it is a pickle in a shared temporary folder.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from lark import Lark

GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLES = Path(__file__).with_name("grammar_tables.json")
OBJECTS = ("postlex", "transformer")
"""Lark's options whose values are objects. JSON cannot hold objects, so each `load` passes them again."""


def build(**objects: Any) -> Lark:
    """Builds the parser from the text of the grammar."""
    text = GRAMMAR.read_text()
    return Lark(text, parser="lalr", lexer="contextual", maybe_placeholders=True, **objects)


def load(**objects: Any) -> Lark:
    """Loads the parser from the packaged tables. If the tables were made from another version of the grammar, builds
    the parser from the grammar."""
    tables = msgspec.json.decode(TABLES.read_bytes())
    # Old tables do not match a changed grammar. Building takes only 90 ms, so a stale file is no error.
    if tables["grammar"] != digest():
        return build(**objects)
    table = tables["data"]["parser"]["parser"]
    table["tokens"] = _integer_keys(table["tokens"])
    table["states"] = {int(state): _integer_keys(row) for state, row in table["states"].items()}
    tables["data"]["options"] |= objects
    # `Lark.load` accepts the dict that it would otherwise read from a pickle. `Lark.save` is not used for two reasons.
    # Its pickle depends on the order of sets, so the file would differ in every run. Also, a pickle can execute code.
    return Lark.load({"data": tables["data"], "memo": _integer_keys(tables["memo"])})


def digest() -> str:
    """Returns the hexadecimal SHA-256 digest of the grammar's text."""
    return sha256(GRAMMAR.read_bytes()).hexdigest()


def _integer_keys(record: dict[str, Any]) -> dict[int, Any]:
    """Converts the keys of a record back to integers, since JSON stores all keys as strings."""
    return {int(key): value for key, value in record.items()}


def serialise(parser: Lark) -> str:
    """Returns the text of `grammar_tables.json`. The same grammar always gives the same text. Lark's numbers of states
    and tokens depend on the order of its sets, so they are replaced by other numbers."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = parser.memo_serialize([TerminalDef, Rule])
    data["options"] = {name: value for name, value in data["options"].items() if name not in OBJECTS}
    table = data["parser"]["parser"]
    table["states"], table["start_states"], table["end_states"] = _renumbered(table)
    used = sorted(table["tokens"].items(), key=lambda item: item[1])
    new = {old: number for number, (old, _) in enumerate(used)}
    table["tokens"] = {new[old]: token for old, token in used}
    table["states"] = {
        s: {new[t]: row[t] for t in sorted(row, key=new.__getitem__)} for s, row in table["states"].items()
    }
    return json.dumps({"grammar": digest(), "data": data, "memo": memo}, separators=(",", ":")) + "\n"


def _renumbered(table: dict[str, Any]) -> tuple[dict[int, Any], dict[str, int], dict[str, int]]:
    """Returns the states, start states and end states of a table, renumbered in breadth-first order from the start
    states. The search visits tokens in the order of their names, since the tokens' numbers differ from run to run."""
    order: dict[int, int] = {}
    waiting = sorted(table["start_states"].values())
    while waiting:
        state = waiting.pop(0)
        if state in order:
            continue
        order[state] = len(order)
        row = table["states"][state]
        waiting += [row[t][1] for t in sorted(row, key=lambda t: table["tokens"][t]) if row[t][0] == 0]
    states = {
        order[state]: {
            t: (0, order[to]) if kind == 0 else (kind, to) for t, (kind, to) in table["states"][state].items()
        }
        for state in order
    }
    named = [{name: order[s] for name, s in table[key].items() if s in order} for key in ("start_states", "end_states")]
    return states, named[0], named[1]


if __name__ == "__main__":
    TABLES.write_text(serialise(build()))
