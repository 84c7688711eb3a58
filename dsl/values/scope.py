"""Scopes, which bind names to values, and closures, which are `def`s as values."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from msgspec import Struct, field

from dsl.text import tree as ast
from dsl.text.program import library_functions

MISSING = object()


class Scope(Struct):
    """The names of one block, with their bindings. The creator of `names` may add entries later."""

    parent: Scope | None
    names: MutableMapping[str, Any] = field(default_factory=dict)

    def find(self, name: str, default: Any = None) -> Any:
        """Returns the binding of `name` in this scope, or in the nearest outer scope that has it. Returns `default` if
        no scope has the name."""
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


class Closure(Struct):
    """A `def` and the scope that defines it."""

    node: ast.Def
    scope: Scope


def scope_of(functions: dict[str, ast.Def]) -> Scope:
    """Makes the outermost scope of a file. It contains the file's `def`s, and each `def` can call all others."""
    top = Scope(None)
    top.names.update({name: Closure(node, top) for name, node in functions.items()})
    return top


def library_closure(name: str) -> Closure | None:
    """Returns the library function `name`, written in the language, or None. The function resolves names in its own
    file, not in the user's file."""
    definitions = library_functions(name)
    found = scope_of(definitions).names[name] if name in definitions else None
    assert found is None or isinstance(found, Closure)
    return found


def arguments_of_join(function: Any, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Returns the arguments of a function that joins two groups of values. A `def` of two parameters takes the groups
    as tuples, and any other function takes their values one by one."""
    takes_groups = len(left) > 1 and isinstance(function, Closure) and len(function.node.params) == 2
    return [tuple(left), tuple(right)] if takes_groups else [*left, *right]


def same(a: Any, b: Any) -> bool:
    """Whether two bindings are the same value."""
    if isinstance(a, Closure) and isinstance(b, Closure):
        return a.node is b.node and a.scope is b.scope
    # Python's `==` treats 1, 1.0 and true as equal, but here they are different bindings.
    return type(a) is type(b) and a == b
