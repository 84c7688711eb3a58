"""Evaluates the syntax tree: names, operators, calls and `def`s. A subclass, called a domain, defines the kind of
values, such as numpy arrays or IR values.

Numbers are the same in all domains, so this class computes operators and functions whose operands are all numbers. The
domain's methods `joined`, `both` and `prefixed` compute operators with other operands. For a call of a function, the
walk looks up the implementation for its domain in the function's row (`table.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NoReturn

from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.types import DTYPES, DType
from dsl.text import tree as ast
from dsl.text.elsewhere import MODULES, OTHER_NAMES, instead_of
from dsl.text.program import library_names
from dsl.values import table
from dsl.values.arithmetic import ConstantError, call, infix, prefix
from dsl.values.scope import MISSING, Closure, Scope, library_closure, same
from dsl.values.table import PLACES, Builtin, Form, named

NUMBERS = (int, float)  # bool is an int
MAX_CALLS = 64
"""The maximum nesting depth of `def` calls. A `def` cannot recurse, since kernels inline its calls."""
NAMED_DIMS = "dims are named: x: f32[n] has n elements"
MEMBERS = {
    "size": NAMED_DIMS, "numel": NAMED_DIMS, "ndim": NAMED_DIMS,
    "astype": ".to(TYPE) converts", "type": ".to(TYPE) converts", "float": ".to(f32) converts",
    "half": ".to(f16) converts", "int": ".to(s32) converts", "view": "reshape(x, extents), or bitcast(x, TYPE)",
}  # fmt: skip
"""Members of arrays of numpy and torch, and what to write instead of each."""
WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "nan": float("nan"),
}


def are_numbers(values: list[Any]) -> bool:
    for value in values:  # noqa: SIM110 (a generator takes twice the time, and each call of a function asks)
        if not isinstance(value, NUMBERS):
            return False
    return True


class Returned(Exception):
    """Raised by `return`: carries the return value out of a `def`'s body."""

    def __init__(self, value: Any):
        self.value = value


class Walk:
    """Evaluates expressions and calls of `def`s with the names of `scope`. Errors are TileErrors with a source
    location."""

    domain: ClassVar[str]
    home: ClassVar[str]
    """The domain whose functions may be called here. It is `domain` unless a subclass overrides it."""
    runs_library: ClassVar[bool] = False
    """Whether a function that has no meaning in this domain is evaluated as its `def` in `dsl/library/`."""
    operands: ClassVar[str] = "numbers"
    """What operators in this domain take, in words for error messages."""
    many: ClassVar[str] = "an array"
    """What this domain calls a value with axes, in words for error messages."""

    def __init__(self, scope: Scope):
        self.scope = scope
        self.caller: Loc | None = None  # the call of the def that is being evaluated
        self.depth = 0
        self.calls = 0
        self.node: ast.Call | None = None  # the call whose meaning is being computed
        # The number of statements so far that depended on a constant (`if`, loops, `assert`). In such a statement, a
        # line without an effect for these constants may have an effect for other constants.
        self.chosen = 0

    @property
    def names(self) -> Mapping[str, Any]:
        """The names of the innermost scope."""
        return self.scope.names

    # ---- errors ----

    def error(self, code: str, loc: Loc, message: str, hint: str | None = None) -> NoReturn:
        raise TileError(code, self.at(loc), message, hint)

    def at(self, loc: Loc) -> Loc:
        return loc.under(self.caller)

    def describe(self, value: Any) -> str:
        """Describes a value in words, for error messages."""
        if isinstance(value, bool | int | float):
            return str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, DType):
            return f"the type {value}"
        if isinstance(value, Builtin | Closure):
            return f"the function '{value.name if isinstance(value, Builtin) else value.node.name}'"
        if isinstance(value, tuple | list):
            return f"a sequence of {len(value)}"
        return "this"

    # ---- expressions ----

    def __call__(self, node: ast.Expr) -> Any:
        return self.expr(node)

    def expr(self, node: ast.Expr) -> Any:
        self.depth += 1
        try:
            if self.depth > ast.MAX_NESTING:
                self.error("limit", node.loc, f"expressions are nested more than {ast.MAX_NESTING} deep")
            return self._NODES[type(node)](self, node)
        except ConstantError as error:
            raise TileError("constant", self.at(node.loc), str(error), error.hint) from None
        finally:
            self.depth -= 1

    def _literal(self, node: ast.Number | ast.String) -> Any:
        return node.value

    def _sequence(self, node: ast.Sequence) -> Any:
        return [self.expr(i) for i in node.items] if node.is_list else tuple(self.expr(i) for i in node.items)

    def _index(self, node: ast.Index) -> Any:
        return self._other(node)

    def _other(self, node: ast.Expr) -> Any:
        self.error("syntax", node.loc, "this has no value here")

    def check_used(self, node: ast.ExprStatement, value: Any) -> None:
        """Raises an error for a line that is only an expression, since its value is not used. A string is allowed as a
        comment. A call of a `def` without a return value is also allowed."""
        asked = node.value
        call = asked if isinstance(asked, ast.Call) else None
        if value is None or isinstance(value, str) or (call is not None and isinstance(value, tuple) and not value):
            return
        first = call.args[0] if call is not None and call.args and isinstance(call.function, ast.Name) else None
        given = self.scope.find(first.id) if isinstance(first, ast.Name) else None
        hint: str | None = f"a name keeps it: NAME = {asked.loc.text}"
        if isinstance(first, ast.Name) and given is not None and not isinstance(given, self.NAMED):
            hint = f"no function changes what it is given: {first.id} = {asked.loc.text}"
        elif isinstance(asked, ast.Compare) and asked.ops == ["=="]:
            hint = "'==' compares; '=' gives a value"
        elif isinstance(asked, ast.Name):
            hint = f"a call has brackets: {asked.id}(…)" if isinstance(value, Builtin | Closure) else None
        self.error("type", asked.loc, "this line does nothing: its value is not used", hint)

    # ---- names ----

    def _name(self, node: ast.Name) -> Any:
        found = self.scope.find(node.id, MISSING)
        if found is not MISSING:
            return found
        for known in (WORDS, DTYPES):
            if node.id in known:
                return known[node.id]
        return self.function_of(node.id, node.loc) or self.unknown("name", node.id, node.loc)

    def function_of(self, name: str, loc: Loc) -> Builtin | None:
        """Returns the language's function `name`, or None if there is no such function. Raises an error if the function
        exists but cannot be used in this domain."""
        found = table.find(name)
        if found is not None and not found.stands_in(self.home) and not (self.runs_library and name in library_names()):
            places = [place for domain, place in PLACES.items() if found.stands_in(domain)]
            self.error("call", loc, f"'{name}' stands only in {', '.join(places)}")
        return found

    def unknown(self, what: str, name: str, loc: Loc) -> NoReturn:
        hint = instead_of(name, named(self.home)) or closest(name, self.known_names())
        self.error("name", loc, f"unknown {what} '{name}'", hint)

    def known_names(self) -> list[str]:
        return [*self.scope.all_names(), *WORDS, *DTYPES, *named(self.home)]

    def _attribute(self, node: ast.Attribute) -> Any:
        dotted = ast.dotted(node)
        root = None if dotted is None else dotted.partition(".")[0]
        if dotted is not None and root is not None:
            bound = self.scope.find(root, MISSING)
            # A def has no attributes: `exp.approx` is the language's.
            if bound is MISSING or isinstance(bound, Closure):
                found = self.function_of(dotted, node.loc)
                if found is not None:
                    return found
                if bound is MISSING:
                    self.unknown_member(root, dotted, node.loc)
        return self.member(node, self.expr(node.value))

    def unknown_member(self, root: str, dotted: str, loc: Loc) -> None:
        """Raises an error for an unknown function whose prefix is known, such as `shfl.`, `ref.` or a module's."""
        if root in MODULES:
            self.error("name", loc, f"unknown name '{dotted}'", instead_of(dotted, named(self.home)))
        family = [name for name in named(self.home) if name.startswith(f"{root}.")]
        if family:
            what = "reference" if root == "ref" else "function"
            self.error("name", loc, f"unknown {what} '{dotted}'", closest(dotted, family) or ", ".join(family))
        if root not in self.known_names() and (own := self.known_as(dotted.rpartition(".")[2])) is not None:
            self.error("name", loc, f"unknown name '{root}'", f"functions have no module: {own}")

    def known_as(self, name: str) -> str | None:
        """Returns how the language writes a function or word of this name of Python, numpy or torch, or None."""
        found = OTHER_NAMES.get(name, name)
        is_function = table.find(found) is not None and found in named(self.home)
        return f"{found}(…)" if is_function else found if found in WORDS else None

    def member(self, node: ast.Attribute, value: Any) -> Any:
        """Evaluates `value.name`. The only member is `.T`."""
        found = table.find(f".{node.name}")
        meaning = None if found is None or found.form.most else found.meaning(self.domain)
        if meaning is None:
            self.error("name", node.loc, f"{self.describe(value)} has no '{node.name}'", self.member_hint(node.name))
        return meaning(self, node.loc, value)

    def member_hint(self, name: str) -> str:
        """Returns what to write in place of the member `name` of a value."""
        if name in MEMBERS:
            return MEMBERS[name]
        if (own := self.known_as(name)) is not None:
            return f"functions take the value: {own}"
        return NAMED_DIMS if name == "shape" else "values have .to(TYPE) and .T"

    # ---- operators ----

    def operand(self, node: ast.Expr, op: str) -> Any:
        """Evaluates an operand of `op`: a number, or another value that this domain's operators accept."""
        return self.side(self.expr(node), node, op)

    def side(self, value: Any, node: ast.Expr, op: str) -> Any:
        if not isinstance(value, NUMBERS) and not self.joins(value):
            self.error("type", node.loc, f"'{op}' takes {self.operands}; this is {self.describe(value)}")
        return value

    def joins(self, value: Any) -> bool:
        """Whether this domain's operators accept `value`, which is not a number."""
        return False

    def _unary(self, node: ast.Unary) -> Any:
        value = self.operand(node.value, node.op)
        return prefix(node.op, value) if isinstance(value, NUMBERS) else self.prefixed(node.op, value, node.loc)

    def _binary(self, node: ast.Binary) -> Any:
        if node.op in ("and", "or"):
            return self.logic(node, partial(self.operand, op=node.op))
        return self.infix(node.op, self.operand(node.left, node.op), self.operand(node.right, node.op), node.loc)

    def infix(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        if isinstance(left, NUMBERS) and isinstance(right, NUMBERS):
            return infix(op, left, right)
        return self.joined(op, left, right, loc)

    def logic(self, node: ast.Binary, side: Callable[[ast.Expr], Any]) -> Any:
        """Evaluates `and` or `or`. If the left side is a number and decides the result, the right side is not
        evaluated."""
        left = side(node.left)
        if isinstance(left, NUMBERS) and bool(left) == (node.op == "or"):
            return bool(left)
        right = side(node.right)
        if isinstance(left, NUMBERS):
            return bool(right) if isinstance(right, NUMBERS) else right
        return self.both(node.op, left, right, node)

    def _compare(self, node: ast.Compare) -> Any:
        return self.compared(node, [self.expr(o) for o in node.operands])

    def compared(self, node: ast.Compare, values: list[Any]) -> Any:
        """Evaluates a chain such as `a < b < c`: compares each adjacent pair, and joins the results by `and`."""
        if len(values) == 2 and are_numbers(values):
            return bool(self.infix(node.ops[0], values[0], values[1], node.loc))
        if not any(isinstance(value, self.NAMED) for value in values):
            values = [self.side(v, n, node.ops[0]) for v, n in zip(values, node.operands, strict=True)]
        result: Any = True
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            part = self.alike(op, a, b, node.loc)
            part = self.infix(op, a, b, node.loc) if part is None else part
            if isinstance(result, NUMBERS):
                result = (bool(part) if isinstance(part, NUMBERS) else part) if result else False
            elif not isinstance(part, NUMBERS):
                result = self.conjoined(result, part, node.loc)
            elif not part:
                result = False
        return result

    def alike(self, op: str, a: Any, b: Any, loc: Loc) -> bool | None:
        """Computes `==` or `!=` on types, words and functions. Returns None if neither side is such a value."""
        if not isinstance(a, self.NAMED) and not isinstance(b, self.NAMED):
            return None
        if op not in ("==", "!="):
            self.error("type", loc, f"'{op}' does not compare {self.describe(a)} with {self.describe(b)}")
        return same(a, b) == (op == "==")

    NAMED: ClassVar[tuple[type, ...]] = (DType, str, Closure, Builtin)

    def prefixed(self, op: str, value: Any, loc: Loc) -> Any:
        """Applies a prefix operator to a value that is not a number."""
        raise NotImplementedError

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        """Applies an infix operator, where at least one operand is not a number."""
        raise NotImplementedError

    def both(self, op: str, left: Any, right: Any, node: ast.Binary) -> Any:
        """Computes `and` or `or`, where the left operand is not a number."""
        raise NotImplementedError

    def conjoined(self, left: Any, right: Any, loc: Loc) -> Any:
        """Joins two comparisons of a chain by `and`. Neither of them is a number."""
        raise NotImplementedError

    # ---- calls ----

    def _call(self, node: ast.Call) -> Any:
        values: list[Any] = []
        if isinstance(node.function, ast.Attribute) and (found := table.find(f".{node.function.name}")) is not None:
            # This is a method call. The value before the dot is the first argument.
            values, function = [self.expr(node.function.value)], found
        else:
            function = self.callee(node.function)
        if isinstance(function, Closure):
            return self.call_def(function, node)
        if node.rest is not None:
            self.error("call", node.rest, "'...' passes constants to a def; this is not a def")
        if not isinstance(function, Builtin):
            hint = f"value.to({function.name}) converts" if isinstance(function, DType) else None
            self.error("type", node.loc, f"{self.describe(function)} is no function", hint)
        if function.unread:
            self.check(function, function.form, len(node.args), node.keywords, node.loc)
            return self.meaning(function, node.loc)(self, node)
        words = function.form.words
        if not words and not function.memory and not function.shared:
            values += [self.expr(each) for each in node.args]
            keywords = {name: self.expr(each) for name, each in node.keywords.items()}
            return self.of(function, values, keywords, node.loc, node)
        for place, each in enumerate(node.args):
            values.append(self.argument_at(function, place, each))
        keywords = {
            name: self.word(function, each, words[name], name) if name in words else self.expr(each)
            for name, each in node.keywords.items()
        }
        return self.of(function, values, keywords, node.loc, node)

    def callee(self, node: ast.Expr) -> Any:
        """Returns the function that a call expression calls."""
        if isinstance(node, ast.Name):
            found = self.scope.find(node.id, MISSING)
            if isinstance(found, Closure):
                return found
            if found is MISSING and node.id not in DTYPES:
                return self.function_of(node.id, node.loc) or self.unknown("function", node.id, node.loc)
        return self.expr(node)

    def argument_at(self, function: Builtin, place: int, node: ast.Expr) -> Any:
        """Evaluates the positional argument number `place` of a call. The function's row determines whether the
        argument is a word, memory or a value."""
        if place in function.form.words:
            return self.word(function, node, function.form.words[place])
        if place in function.shared:
            return self.shared_memory(node)
        return self.memory(node) if place in function.memory else self.expr(node)

    def memory(self, node: ast.Expr) -> Any:
        """Evaluates an argument that names memory. Returns the access itself, not the value stored there."""
        return self.expr(node)

    def shared_memory(self, node: ast.Expr) -> Any:
        """Evaluates an argument that may name shared memory. For shared memory, returns the access itself. For other
        memory, returns the value stored there."""
        return self.expr(node)

    def word(self, function: Builtin, node: ast.Expr, known: tuple[str, ...], name: str | None = None) -> str:
        """Returns an argument that must be one of the words in `known`, as in `cache=global`."""
        said = node.id if isinstance(node, ast.Name) else node.value if isinstance(node, ast.String) else None
        if said not in known:
            what = f"{function.name} takes {' or '.join(known)} here"
            what = what if name is None else f"{name}= is one of {', '.join(known)}"
            self.error("call", node.loc, what, closest(said or "", known))
        assert said is not None
        return said

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        """Calls a function of the language. `node` is the call expression, if there is one."""
        if function.numbers is not None and values and not keywords and are_numbers(values):
            self.check(function, function.form_of_numbers, len(values), keywords, loc)
            return call(function.name, function.numbers, values)
        self.check(function, function.form, len(values) - function.is_method, keywords, loc)
        # `place_of` needs the call to report errors at an argument rather than at the whole call.
        self.node = node
        return self.meaning(function, loc)(self, loc, *values, **keywords)

    def place_of(self, argument: int | str, loc: Loc) -> Loc:
        """Returns the source location of an argument of the current call, or `loc` if the call does not have that
        argument."""
        parts = () if self.node is None else self.node.args if isinstance(argument, int) else self.node.keywords
        try:
            return parts[argument].loc  # type: ignore[index, call-overload]
        except LookupError:
            return loc

    def check(self, function: Builtin, form: Form, count: int, keywords: Any, loc: Loc) -> None:
        """Raises an error for a call whose arguments do not match the function's usage."""
        if form.least == count == form.most and not keywords:
            return
        wrong = form.misfit(count, keywords)
        if wrong is not None:
            self.error("call", loc, wrong[0], wrong[1] or function.short)

    def meaning(self, function: Builtin, loc: Loc) -> Callable[..., Any]:
        found = function.meaning(self.domain)
        if found is not None:
            return found
        closure = library_closure(function.name) if self.runs_library else None
        if closure is None:
            raise ConstantError(f"{function.name} takes numbers")
        return lambda walk, loc, *values: walk.inlined(closure, list(values), {}, loc)

    def apply(self, function: Any, values: list[Any], loc: Loc) -> Any:
        """Calls `function`, which was passed as a value: a def or a function of the language."""
        if isinstance(function, Closure):
            return self.inlined(function, values, {}, loc)
        if not isinstance(function, Builtin):
            self.error("type", loc, f"{self.describe(function)} is no function")
        return self.of(function, values, {}, loc)

    # ---- defs ----

    def call_def(self, closure: Closure, node: ast.Call) -> Any:
        values = [self.passed(each) for each in node.args]
        keywords = {name: self.passed(each) for name, each in node.keywords.items()}
        if node.rest is not None:
            keywords |= self.rest(node.rest, closure.node, len(values), keywords)
        return self.inlined(closure, values, keywords, node.loc)

    def passed(self, node: ast.Expr) -> Any:
        """Evaluates an argument of a call to the value that the `def` receives."""
        return self.expr(node)

    def rest(self, loc: Loc, definition: ast.Def, count: int, keywords: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments that `...` passes after the first `count` arguments. Each remaining parameter or
        constant without a keyword gets the caller's value of the same name. Raises an error if the caller has no such
        name and there is no default."""
        defaults = {c.name: c.default for c in definition.constants}
        wanted = [name for name in (*definition.params[count:], *defaults) if name not in keywords]
        found = {name: value for name in wanted if (value := self.scope.find(name)) is not None}
        for name in wanted:
            if name not in found and defaults.get(name) is None:
                hint = closest(name, self.scope.all_names()) or f"give it: {name}=…"
                self.error("call", loc, f"{definition.name} needs '{name}', which has no value here", hint)
        return found

    def inlined(self, closure: Closure, values: list[Any], keywords: dict[str, Any], loc: Loc) -> Any:
        """Evaluates a `def` with these arguments. Returns its return value, or () if the `def` has no `return`."""
        bound = self.bound(closure.node, values, keywords, loc)
        if self.calls >= MAX_CALLS:
            message = f"calls of '{closure.node.name}' are nested more than {MAX_CALLS} deep"
            self.error("limit", loc, message, "a def cannot recurse")
        outer, caller, depth = self.scope, self.caller, self.depth
        self.scope, self.caller, self.depth = Scope(closure.scope, bound), self.at(loc), 0
        self.calls += 1
        try:
            # The default of a constant may use the parameters and the constants before it.
            for constant in closure.node.constants:
                if constant.name not in bound and constant.default is not None:
                    bound[constant.name] = self.expr(constant.default)
            missing = [c.name for c in closure.node.constants if c.name not in bound]
            if missing:
                raise TileError("call", self.caller, f"{closure.node.name} needs '{missing[0]}'")
            self.statements(closure.node.body)
            return ()
        except Returned as returned:
            return returned.value
        finally:
            self.scope, self.caller, self.depth = outer, caller, depth
            self.calls -= 1

    def bound(self, definition: ast.Def, values: list[Any], keywords: dict[str, Any], loc: Loc) -> dict[str, Any]:
        """Returns the arguments of a call, keyed by the `def`'s parameter names. Constants that have defaults may be
        missing."""
        names = [*definition.params, *(c.name for c in definition.constants)]
        if len(values) > len(definition.params):
            count = len(definition.params)
            hint = "constants are given by name" if definition.constants else None
            message = f"{definition.name} takes {count} argument{'s' * (count != 1)}; got {len(values)}"
            self.error("call", loc, message, hint)
        out = dict(zip(definition.params, values, strict=False))
        for name, value in keywords.items():
            if name not in names:
                self.error("call", loc, f"{definition.name} has no parameter '{name}'", closest(name, names))
            if name in out:
                self.error("call", loc, f"'{name}' is given twice")
            out[name] = value
        for constant in definition.constants:
            if constant.name in out:
                self.check_constant(definition, constant.name, out[constant.name], loc)
        missing = [name for name in definition.params if name not in out]
        if missing:
            self.error("call", loc, f"{definition.name} needs '{missing[0]}'")
        return out

    def check_constant(self, definition: ast.Def, name: str, value: Any, loc: Loc) -> None:
        """Raises an error if a constant of a def cannot have this value. Subclasses override this method."""

    def statements(self, body: list[ast.Statement]) -> None:
        raise NotImplementedError

    # ---- for statements of all domains ----

    def range_of(self, node: ast.For) -> ast.Call:
        """Returns the call `range(…)` over which a loop iterates."""
        found = node.iterable
        if not (isinstance(found, ast.Call) and isinstance(found.function, ast.Name) and found.function.id == "range"):
            dotted = ast.dotted(found.function) if isinstance(found, ast.Call) else None
            hint = instead_of(dotted or "") if (dotted or "").endswith("static_range") else None
            self.error("syntax", found.loc, "a loop runs over range(stop) or range(start, stop[, step])", hint)
        if found.keywords or not 1 <= len(found.args) <= 3:
            self.error("call", found.loc, "range takes 1 to 3 arguments")
        return found

    def parts(self, value: Any, count: int, loc: Loc) -> tuple[Any, ...]:
        """Returns the `count` values that are assigned to `count` names. Raises TileError `shape` if `value` contains
        another number of values."""
        if not isinstance(value, tuple | list) or len(value) != count:
            have = f"{len(value)} values" if isinstance(value, tuple | list) else self.describe(value)
            self.error("shape", loc, f"{count} names for {have}")
        return tuple(value)

    # ---- checks of arguments, for meanings ----

    def whole(self, value: Any, loc: Loc, what: str) -> int:
        """Returns `value` as a Python integer. Raises an error if the value is not an integer or is not known at
        compile time."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.error("constant", loc, f"{what} is an integer; this is {self.describe(value)}")
        return value

    def axis(self, value: Any, loc: Loc, rank: int) -> int:
        axis = self.whole(value, loc, "axis=")
        if not -rank <= axis < rank:
            self.error("shape", loc, f"{self.many} of rank {rank} has no axis {axis}")
        return axis % rank

    def flag(self, value: Any, loc: Loc, name: str) -> bool:
        if not isinstance(value, bool):
            self.error("constant", loc, f"{name}= is true or false")
        return value

    # ---- entry points ----

    def number(self, node: ast.Expr, what: str) -> int | float | bool:
        value = self.expr(node)
        if not isinstance(value, NUMBERS):
            self.error("constant", node.loc, f"{what} is a number")
        return value

    def integer(self, node: ast.Expr, what: str) -> int:
        return self.whole(self.expr(node), node.loc, what)

    def argument(self, node: ast.Expr) -> Any:
        """Evaluates a launch argument. `None` in the source omits an optional tensor."""
        return None if ast.is_none(node) else self.expr(node)

    _KINDS: ClassVar[dict[type, str]] = {
        ast.Name: "_name",
        ast.Number: "_literal",
        ast.String: "_literal",
        ast.Unary: "_unary",
        ast.Binary: "_binary",
        ast.Compare: "_compare",
        ast.Call: "_call",
        ast.Sequence: "_sequence",
        ast.Index: "_index",
        ast.Attribute: "_attribute",
        ast.WithSchedule: "_other",
    }
    _NODES: ClassVar[dict[type, Callable[..., Any]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "domain"):  # `CodeWriter` has none until it is joined with a domain
            cls.home = getattr(cls, "home", cls.domain)
        cls._NODES = {kind: getattr(cls, name) for kind, name in cls._KINDS.items()}
