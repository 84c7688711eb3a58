"""Describes the lines of a log: their JSON Schema, and the fields of a line that this version does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_text(of: type) -> str:
    """The JSON Schema of a struct, as the text of `docs/reference/trial.schema.json`."""
    from msgspec.json import schema

    made = {"$schema": DIALECT, **schema(of)}
    for each in made["$defs"].values():
        # How docstrings are indented depends on the versions of Python and msgspec.
        if "description" in each:
            each["description"] = " ".join(each["description"].split())
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def unknown_fields(record: Any, of: type) -> list[str]:
    """The fields of a JSON object that the struct `of` and its parts lack, each once. msgspec would drop them."""
    return list(dict.fromkeys(_unknown(record, _fields(of), "")))


@cache
def _fields(of: type) -> Any:
    from msgspec.inspect import type_info

    return _tree(type_info(of))


def _tree(info: Any) -> Any:
    """The names that an object may have, each with the tree of its value. A list stands for arrays of one tree, and
    None for values that have no named fields."""
    from msgspec import inspect

    match info:
        case inspect.Metadata():
            return _tree(info.type)
        case inspect.StructType() | inspect.TypedDictType():
            return {each.encode_name: _tree(each.type) for each in info.fields}
        case inspect.ListType():
            inner = _tree(info.item_type)
            return None if inner is None else [inner]
        case inspect.UnionType():
            return next((found for each in info.types if (found := _tree(each)) is not None), None)
    return None


def _unknown(value: Any, tree: Any, at: str) -> Iterator[str]:
    if isinstance(tree, list) and isinstance(value, list):
        for each in value:
            yield from _unknown(each, tree[0], at)
    elif isinstance(tree, dict) and isinstance(value, dict):
        for name, each in value.items():
            if name not in tree:
                yield f"{at}{name}"
            elif tree[name] is not None:
                yield from _unknown(each, tree[name], f"{at}{name}.")
