"""Finds which tensors a kernel reads and which it writes, from the text of the kernel and of the functions that it
calls.

A call may leave out outputs. Therefore the planner must know the written tensors before it knows the arguments and the
variant. The result is the union over all variants: each access in a variant's header is found here. A test checks this
for the samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from dsl.text import tree as ast
from dsl.text.program import Program, library_names
from dsl.values.table import find

ASKING = ("given", "contiguous", "bytes")
"""Functions that do not access the elements of their argument."""
VIEWS = ("flat", "transpose", "reshape")
"""Functions that return a view of their first argument."""
STORING = ("store", "copy")
"""Functions that write to their first argument."""


class Uses(Struct):
    """The names that a body writes and reads. `views` maps a name to other names whose memory it may share. `returned`
    holds the names whose memory a function may return."""

    written: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    views: dict[str, set[str]] = field(default_factory=dict)
    returned: set[str] = field(default_factory=set)

    def add(self, names: set[str], access: str) -> None:
        self.written |= names if "w" in access else set()
        self.read |= names if "r" in access else set()

    def resolve(self) -> Uses:
        """Adds to each set of names the names whose memory they share, because using a view uses this memory."""
        for names in (self.written, self.read, self.returned):
            left = [*names]
            while left:
                new = self.views.get(left.pop(), set()) - names
                names |= new
                left += new
        return self

    def of(self, name: str) -> str:
        return "r" * (name in self.read) + "w" * (name in self.written)


def tensors_used(program: Program, kernel: str) -> tuple[set[str], set[str]]:
    """Returns two sets: the names that a kernel stores to, and the names that it reads. If only a variant determines
    which function is called, the arguments of the call count as both."""
    found = UsesReader(program, program.functions).uses(program.kernels[kernel].body)
    return found.written, found.read


class UsesReader:
    """Finds the uses of names in bodies. `functions` holds the functions that are visible in a body. `open` holds the
    ids of the functions that are being read, to stop at recursion."""

    def __init__(self, program: Program, functions: Mapping[str, ast.Def], open: tuple[int, ...] = ()):
        self.program, self.functions, self.open = program, functions, open

    def uses(self, body: list[Any]) -> Uses:
        """Finds the uses of the names in a body."""
        own = {each.name: each for each in ast.walk(body) if isinstance(each, ast.Def)}
        reader = UsesReader(self.program, {**self.functions, **own}, self.open) if own else self
        found = Uses()
        reader.node(body, found)
        return found.resolve()

    def node(self, node: Any, found: Uses) -> None:
        if isinstance(node, list):
            for each in node:
                self.node(each, found)
        elif isinstance(node, dict):
            self.node([*node.items()], found)
        elif isinstance(node, ast.Assign):
            self.assign(node, found)
        elif isinstance(node, ast.Return):
            value = node.value
            found.returned |= self.memory(value, found)
            self.value(value, found)
        elif isinstance(node, ast.Call):
            self.call(node, found)
        elif isinstance(node, ast.Index):
            found.add(self.memory(node, found), "r")
            self.subscripts([node], found)
        elif isinstance(node, ast.Name):
            found.add({node.id}, "r")
        elif not isinstance(node, ast.Def):  # a def is read where it is called
            self.node([getattr(node, name) for name in ast.PARTS.get(type(node), ())], found)

    def value(self, node: Any, found: Uses) -> None:
        """Visits an assigned or returned expression. A tensor's name alone makes a view, so it does not count as a
        read."""
        if isinstance(node, ast.Sequence):
            for each in node.items:
                self.value(each, found)
        elif not isinstance(node, ast.Name):
            self.node(node, found)

    def assign(self, node: ast.Assign, found: Uses) -> None:
        memory = self.memory(node.value, found)
        for target in node.targets:
            if isinstance(target, ast.Index):
                found.add(self.memory(target, found), "w" if node.op is None else "rw")
                self.node(target.subscripts, found)
            else:
                for each in ast.walk(target):
                    if isinstance(each, ast.Name):
                        found.views.setdefault(each.id, set()).update(memory - {each.id})
        self.value(node.value, found)

    def memory(self, node: Any, found: Uses) -> set[str]:
        """Returns the names whose memory the value of an expression may share. Computed values share no memory."""
        if isinstance(node, ast.Name):
            return {node.id}
        if isinstance(node, ast.Index | ast.Attribute):
            return self.memory(node.value, found)
        if isinstance(node, ast.Sequence):
            return set().union(*(self.memory(each, found) for each in node.items))
        if not isinstance(node, ast.Call) or not isinstance(node.function, ast.Name):
            return set()
        if node.function.id in VIEWS:
            return self.memory(node.args[0], found) if node.args else set()
        function = self.functions.get(node.function.id)
        # Only VIEWS return the memory of an argument. All other functions of the language return values.
        if function is None:
            return set()
        inner, given = self.inner(function, node)
        returned = {name for name in inner.returned if name not in given}
        return returned.union(*(self.memory(given[name], found) for name in inner.returned & given.keys()))

    def call(self, node: ast.Call, found: Uses) -> None:
        name = node.function.id if isinstance(node.function, ast.Name) else ""
        arguments = [*node.args, *node.keywords.values()]
        if not name:  # `x.to(f32)`
            self.node(getattr(node.function, "value", None), found)
        if name in ASKING or name in VIEWS:
            self.node([each for each in arguments if not isinstance(each, ast.Name)], found)
        elif name in STORING or name.startswith("atomic"):
            # An atomic operation returns the old value, so it also reads.
            found.add(self.memory(arguments[0], found) if arguments else set(), "w" if name in STORING else "rw")
            self.subscripts(arguments[:1], found)
            self.node(arguments[1:], found)
        elif name in self.functions:
            self.of_function(self.functions[name], node, found)
        elif name in library_names() or find(name) is not None:
            self.node(arguments, found)
        else:
            for each in arguments:
                # A constant of the kernel may be a function. Only a variant knows which function.
                found.add(self.memory(each, found), "rw")
                self.node(each, found)

    def subscripts(self, nodes: list[Any], found: Uses) -> None:
        """Visits the subscripts of a tensor, as in `x[i, j]`, but not the tensor itself."""
        for each in nodes:
            if isinstance(each, ast.Index):
                self.subscripts([each.value], found)
                self.node(each.subscripts, found)
            elif not isinstance(each, ast.Name):
                self.node(each, found)

    def of_function(self, function: ast.Def, node: ast.Call, found: Uses) -> None:
        """Visits a call of a `def`. If the function uses a parameter, the argument is used in the same way. Uses of
        names from outside the function count unchanged."""
        inner, given = self.inner(function, node)
        local = {*function.params, *(constant.name for constant in function.constants), *inner.views}
        for access, names in (("w", inner.written), ("r", inner.read)):
            found.add({name for name in names if name not in local}, access)
        for name, argument in given.items():
            if isinstance(argument, ast.Name):
                found.add({argument.id}, inner.of(name))
            elif isinstance(argument, ast.Index):
                found.add(self.memory(argument, found), inner.of(name) or "r")
                self.subscripts([argument], found)
            else:
                found.add(self.memory(argument, found), inner.of(name))  # a view
                self.node(argument, found)

    def inner(self, function: ast.Def, node: ast.Call) -> tuple[Uses, dict[str, ast.Expr]]:
        """Returns the uses of names in a function, and the call's arguments by parameter. Functions passed as arguments
        are looked up in the caller's scope."""
        params = [*function.params, *(constant.name for constant in function.constants)]
        given = {**dict(zip(params, node.args, strict=False)), **node.keywords}
        if id(function) in self.open:  # a function that calls itself is reported elsewhere
            return Uses(), given
        passed = {n: a.id for n, a in given.items() if isinstance(a, ast.Name)}
        named = {n: f for n, name in passed.items() if (f := self.functions.get(name) or self.program.function(name))}
        reader = UsesReader(self.program, {**self.functions, **named}, (*self.open, id(function)))
        return reader.uses(function.body), given


def names_given(program: Program, kernel: str) -> set[str]:
    """Returns the names that a kernel passes to functions."""
    calls = (node for node in ast.walk(program.kernels[kernel].body) if isinstance(node, ast.Call))
    given = (each for node in calls for each in (*node.args, *node.keywords.values()))
    return {each.id for each in given if isinstance(each, ast.Name)}
