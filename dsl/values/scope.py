"""Scopes, which bind names to values, and `def`s as values."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from dsl.text import tree as ast
from dsl.text.program import library_functions

MISSING = object()


@dataclass(slots=True)
class Scope:
    """The names of one block. The mapping's owner may add entries to `names` later."""

    parent: Scope | None
    names: MutableMapping[str, Any] = field(default_factory=dict)

    def find(self, name: str, default: Any = None) -> Any:
        """The binding of `name` in this scope or the nearest outer scope that has it. Returns `default` if no scope has
        the name."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name, MISSING)
            if found is not MISSING:
                return found
            scope = scope.parent
        return default

    def all_names(self) -> set[str]:
        out: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            out |= scope.names.keys()
            scope = scope.parent
        return out


@dataclass(slots=True)
class Closure:
    """A `def` and the scope that defines it."""

    node: ast.Def
    scope: Scope


def scope_of(functions: dict[str, ast.Def]) -> Scope:
    """The outermost scope of a file. The scope holds the file's `def`s, and each `def` can call all others."""
    top = Scope(None)
    top.names.update({name: Closure(node, top) for name, node in functions.items()})
    return top


def library_closure(name: str) -> Closure | None:
    """The library function `name`, written in the language, or None. The function resolves names in its own file, not
    in the user's file."""
    definitions = library_functions(name)
    found = scope_of(definitions).names[name] if name in definitions else None
    assert found is None or isinstance(found, Closure)
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two bindings are the same value."""
    if isinstance(a, Closure) and isinstance(b, Closure):
        return a.node is b.node and a.scope is b.scope
    # Python's `==` treats 1, 1.0 and true as equal, but here they are different bindings.
    return type(a) is type(b) and a == b
