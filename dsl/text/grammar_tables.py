"""The parser's tables as data: made from `grammar.lark` by Lark, shipped as `grammar_tables.json`.

Building them takes some 90 ms, reading them 10. `python -m dsl.text.grammar_tables` writes the file again after a
change of the grammar; until then the tables are built at each start, and a test fails. Lark's own cache is no choice:
it is a pickle in a shared temporary folder.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from lark import Lark

GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLES = Path(__file__).with_name("grammar_tables.json")
OBJECTS = ("postlex", "transformer")
"""Options that are objects. JSON cannot hold them, so each load passes them again."""


def build(**objects: Any) -> Lark:
    """The parser from the grammar's text."""
    text = GRAMMAR.read_text()
    return Lark(text, parser="lalr", lexer="contextual", maybe_placeholders=True, **objects)


def load(**objects: Any) -> Lark:
    """The parser from the shipped tables; built from the grammar if the tables belong to another one."""
    tables = json.loads(TABLES.read_text())
    # A changed grammar must not be parsed by old tables. Building takes 90 ms, so nobody is stopped by it.
    if tables["grammar"] != digest():
        return build(**objects)
    table = tables["data"]["parser"]["parser"]
    table["tokens"] = _integer_keys(table["tokens"])
    table["states"] = {int(state): _integer_keys(row) for state, row in table["states"].items()}
    tables["data"]["options"] |= objects
    # `Lark.load` takes the dict that it would read from a pickle. `Lark.save` is not used: its pickle depends on the
    # order of sets, so the file would differ with every run, and a pickle in a package is code.
    return Lark.load({"data": tables["data"], "memo": _integer_keys(tables["memo"])})


def digest() -> str:
    """SHA-256 of the grammar's text, hexadecimal."""
    return sha256(GRAMMAR.read_bytes()).hexdigest()


def _integer_keys(record: dict[str, Any]) -> dict[int, Any]:
    """The record with integers for keys: JSON turns them into strings."""
    return {int(key): value for key, value in record.items()}


def serialise(parser: Lark) -> str:
    """The text of `grammar_tables.json`. The same grammar gives the same text: states and tokens are numbered afresh,
    because Lark's numbers depend on the order of its sets."""
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
    """The states, start states and end states of a table, numbered in the order in which a search from the start
    reaches them. It follows tokens by name, since their numbers differ from run to run."""
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
