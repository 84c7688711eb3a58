"""Names and what they are bound to; `def`s as values."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from dsl.text import tree as ast
from dsl.text.program import library_functions

MISSING = object()


@dataclass(slots=True)
class Scope:
    """The names of one block. names: a mapping to which its owner may add names later."""

    parent: Scope | None
    names: MutableMapping[str, Any] = field(default_factory=dict)

    def find(self, name: str, default: Any = None) -> Any:
        """The binding of a name in this scope or an outer one."""
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
    """A `def` with the scope that it is defined in."""

    node: ast.Def
    scope: Scope


def scope_of(functions: dict[str, ast.Def]) -> Scope:
    """The outermost scope of a file: its `def`s, each of which sees all others."""
    top = Scope(None)
    top.names.update({name: Closure(node, top) for name, node in functions.items()})
    return top


def library_closure(name: str) -> Closure | None:
    """A function of the language that is written in the language. It sees the names of its own file, not the user's."""
    definitions = library_functions(name)
    found = scope_of(definitions).names[name] if name in definitions else None
    assert found is None or isinstance(found, Closure)
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two names are bound to one thing."""
    if isinstance(a, Closure) and isinstance(b, Closure):
        return a.node is b.node and a.scope is b.scope
    # 1, 1.0 and true are equal in Python. Branches that bind them bind different things.
    return type(a) is type(b) and a == b
