"""Qualified names of imported files: after `import "rows.tile" as rows`, `rows.body` is that file's `body`.

A file that is imported under a name is called a module. The program stores the members of a module under qualified
names such as `rows.body`. Identifiers contain no dot, so they cannot clash with qualified names. When a file is read,
each attribute `rows.body` becomes a single name. So the compiler's later stages need not handle modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.text import tree as ast


def qualified(
    node: Any, names: Mapping[str, str], modules: Mapping[str, Mapping[str, Any]], errors: list[TileError]
) -> Any:
    """Returns a copy of a block with qualified names. Keys of `names` are replaced by their values, and an attribute
    `rows.body` of a module becomes a single name. Names that the block itself binds stay. An unknown member of a module
    adds an error to `errors`."""
    if isinstance(node, ast.Name):
        return ast.Name(node.loc, names[node.id]) if node.id in names else node
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
        return ast.Name(node.loc, _member(node.loc, node.value.id, node.name, modules, errors))
    if isinstance(node, ast.WithItem) and node.value is None:
        return ast.WithItem(node.loc, _part(node.loc, node.name, modules, errors), None)
    if isinstance(node, ast.WithSchedule):
        kernel = qualified(node.kernel, names, modules, errors)
        return ast.WithSchedule(node.loc, kernel, _part(node.loc, node.schedule, modules, errors))
    # As in Python, a local name shadows a module: a parameter `rows` hides the file that is imported as `rows`.
    own = _bound(node)
    if own:
        names = {name: whole for name, whole in names.items() if name not in own}
        modules = {name: members for name, members in modules.items() if name not in own}
    return ast.rebuilt(node, lambda part: qualified(part, names, modules, errors))


def _part(loc: Loc, name: str, modules: Mapping[str, Mapping[str, Any]], errors: list[TileError]) -> str:
    """Returns the name of a schedule that a launch names. Adds an error if a module has no such part."""
    alias, dot, member = name.partition(".")
    return _member(loc, alias, member, modules, errors) if dot and alias in modules else name


def _member(loc: Loc, alias: str, name: str, modules: Mapping[str, Mapping[str, Any]], errors: list[TileError]) -> str:
    # A name with a dot belongs to a file that the module itself imports. The importer of the module cannot use this
    # name.
    members = [member for member in modules[alias] if "." not in member]
    if name not in members:
        hint = closest(name, members) or f"known: {', '.join(members) or 'none'}"
        errors.append(TileError("name", loc, f"'{alias}' has no function or part '{name}'", hint))
    return f"{alias}.{name}"


def _bound(node: Any) -> set[str]:
    """Returns all names that a block binds, as parameters or anywhere in its body."""
    found: set[str] = set()
    if isinstance(node, ast.Def | ast.KernelDef):
        found |= {p if isinstance(p, str) else p.name for p in node.params} | {c.name for c in node.constants}
        if isinstance(node, ast.KernelDef):
            types = [p.type for p in node.params if isinstance(p.type, ast.TensorAnnotation)]
            found |= {dim.id for type in types for dim in type.dims if isinstance(dim, ast.Name)}
        body: Any = node.body
    elif isinstance(node, ast.Dispatch):
        found, body = {*node.params}, node.lines
    elif isinstance(node, ast.Schedule | ast.Example):
        body = node.lines
    else:
        return found
    for each in ast.walk(body):
        if isinstance(each, ast.Assign):
            found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
        elif isinstance(each, ast.For | ast.Tune | ast.Option | ast.Def):
            found.add(each.name)
        elif isinstance(each, ast.Shared):
            found |= set(each.names)
    return found
