"""Schedules evaluated: constants, layouts and properties of one kernel for given dims and types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from dsl import tree as ast
from dsl.evaluate import WORDS, Evaluator, names_in
from dsl.program import Program, dim_names
from lowering.location import Loc, TileError, closest
from lowering.schedule import Named, Pin, SwizzlePin
from lowering.targets import LEAST_REGISTERS, MOST_REGISTERS, Target
from lowering.types import DType

DEFAULT_WARPS = 4
LAYOUT_ROWS = {"vector", "lanes", "warps", "contiguous", "register", "lane", "warp"}


@dataclass(slots=True)
class ResolvedSchedule:
    """What a schedule says for one variant.

    constants: every name it sets, the kernel's constants among them. definitions: the expression behind each name that
    depends on dims, for the variant's `requires`. tune: the values of each tuned name, the first its default.
    places: where the properties that are numbers are written.
    """

    name: str | None
    constants: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, ast.Expr] = field(default_factory=dict)
    tune: dict[str, list[Any]] = field(default_factory=dict)
    pins: dict[str, Pin] = field(default_factory=dict)
    instructions: dict[str, Named] = field(default_factory=dict)
    swizzles: dict[str, SwizzlePin] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Loc] = field(default_factory=dict)
    unrolled: dict[str, Loc] = field(default_factory=dict)
    specialize: dict[str, ast.Expr] = field(default_factory=dict)
    warps: int = DEFAULT_WARPS


def target_facts(target: Target, sms: int | None = None) -> dict[str, int]:
    """Names of the device that schedules and dispatch may read."""
    return {
        "sms": sms or target.sms,
        "shared_memory": target.shared,
        "registers": target.registers,
        "shared_per_sm": target.shared_per_sm,
        "threads_per_sm": target.threads_per_sm,
        "blocks_per_sm": target.blocks_per_sm,
    }


def given_names(kernel: ast.Kernel, absent: Collection[str]) -> dict[str, bool]:
    """`given(x)` for each optional tensor x: whether it is there."""
    return {f"given({p.name})": p.name not in absent for p in kernel.params if p.is_optional}


def resolve_schedule(
    program: Program,
    kernel: ast.Kernel,
    name: str | None,
    dims: Mapping[str, int],
    types: Mapping[str, DType],
    facts: Mapping[str, int],
    overrides: Mapping[str, Any],
    scalars: Mapping[str, Any],
) -> ResolvedSchedule:
    """Evaluates the lines in order; `overrides` win over what the schedule says."""
    out = ResolvedSchedule(name)
    if name is not None:
        known = program.schedules_of(kernel.name)
        if name not in known:
            raise TileError(
                "name", None, f"kernel '{kernel.name}' has no schedule '{name}'", closest(name, known) or _list(known)
            )
        names: dict[str, Any] = {**facts, **dims, **types, **scalars}
        for function in program.functions:
            names.setdefault(function, program.functions[function])
        for constant in kernel.constants:
            if constant.name in overrides:
                names[constant.name] = overrides[constant.name]
            elif constant.default is not None and names_in(constant.default) <= names.keys() | WORDS.keys():
                names[constant.name] = default_of(program, constant, names)
        _lines(program, kernel, known[name], out, names, overrides, (known[name],))
    out.constants.update({k: v for k, v in overrides.items() if k not in out.constants})
    out.definitions = {k: v for k, v in out.definitions.items() if k not in overrides}
    warps = out.constants.pop("warps", DEFAULT_WARPS)
    if isinstance(warps, bool) or not isinstance(warps, int) or not 1 <= warps <= 32 or warps & (warps - 1):
        written = out.definitions.get("warps")
        loc = written.loc if written is not None else known[name].loc if name is not None else kernel.loc
        raise TileError("schedule", loc, f"warps is a power of two from 1 to 32; this is {warps}")
    out.warps = warps
    return out


def _list(names: Any) -> str | None:
    return f"known: {', '.join(names)}" if names else None


class _Lines(Evaluator):
    """The expressions of a schedule: an unset dim is told apart from an unknown name."""

    def __init__(self, names: Mapping[str, Any], dims: list[str]):
        super().__init__(names)
        self.dims = dims

    def name(self, node: ast.Name) -> Any:
        if node.id in self.dims and node.id not in self.names:
            message = f"the schedule needs the dim '{node.id}', which is not given"
            raise TileError("name", node.loc, message, f"give it: {node.id}=NUMBER")
        return super().name(node)


def default_of(program: Program, constant: ast.ConstantParameter, names: Mapping[str, Any]) -> Any:
    """The default of a kernel's constant: a number, or the name of a function."""
    default = constant.default
    if isinstance(default, ast.Name) and program.function(default.id) is not None:
        return default.id
    assert default is not None
    return Evaluator(names)(default)


def _lines(
    program: Program,
    kernel: ast.Kernel,
    schedule: ast.Schedule,
    out: ResolvedSchedule,
    names: dict[str, Any],
    overrides: Mapping[str, Any],
    seen: tuple[ast.Schedule, ...],
) -> None:
    evaluate = _Lines(names, dim_names(kernel))

    def set_constant(name: str, value: Any) -> None:
        if name in overrides:
            value = overrides[name]
        names[name] = out.constants[name] = value

    for line in schedule.lines:
        if isinstance(line, ast.Assign):
            if line.op is not None or not all(isinstance(t, ast.Name) for t in line.targets):
                raise TileError("syntax", line.loc, "a schedule sets names: NAME = expression")
            values = [line.value] if len(line.targets) == 1 else getattr(line.value, "items", [])
            if len(values) != len(line.targets):
                raise TileError("syntax", line.loc, f"{len(line.targets)} names for {len(values)} values")
            for target, value in zip(line.targets, values, strict=True):
                assert isinstance(target, ast.Name)
                set_constant(target.id, evaluate(value))
                out.definitions[target.id] = value
        elif isinstance(line, ast.Tune):
            values = [evaluate(v) for v in line.values]
            out.tune[line.name] = values
            set_constant(line.name, values[0])
            out.definitions.pop(line.name, None)
        elif isinstance(line, ast.Layout):
            for name in line.names:
                parts = {key: [evaluate(i) for i in row.items] for key, row in line.parts.items()}
                unknown = parts.keys() - LAYOUT_ROWS
                if unknown:
                    word = sorted(unknown)[0]
                    hint = closest(word, LAYOUT_ROWS)
                    raise TileError(
                        "layout",
                        line.loc,
                        f"a layout has no '{word}'",
                        hint or "vector, lanes, warps; warps, contiguous; or register, lane, warp",
                    )
                out.pins[name] = Pin(parts, line.loc)
        else:
            _property(program, kernel, line, out, names, overrides, seen, evaluate)


def _word(node: ast.Expr, known: tuple[str, ...], what: str) -> str:
    if not isinstance(node, ast.Name) or node.id not in known:
        raise TileError("schedule", node.loc, f"{what} is one of {', '.join(known)}")
    return node.id


def _word_or_flag(node: ast.Expr, words: tuple[str, str], what: str, evaluate: Evaluator) -> str:
    """One of two words, or a condition that chooses the second: so that it can be tuned."""
    if isinstance(node, ast.Name) and node.id in words:
        return node.id
    known = not isinstance(node, ast.Name) or node.id in evaluate.names or node.id in WORDS
    value = evaluate(node) if known else None
    if not isinstance(value, bool):
        raise TileError("schedule", node.loc, f"{what} is one of {', '.join(words)}, true, false")
    return words[value]


def _one(line: ast.Property) -> ast.Expr:
    if line.subject or len(line.values) != 1:
        raise TileError("schedule", line.loc, f"'{line.name}' takes one value")
    return line.values[0]


def _instruction(node: ast.Expr) -> Named:
    """`mma.sync.m16n8k32.satfinite` as its shape and modifier."""
    from lowering.tensor_cores import shapes

    words: list[str] = []
    rest = node
    while isinstance(rest, ast.Attribute):
        words.insert(0, rest.name)
        rest = rest.value
    name = ".".join(words[1:])
    if not isinstance(rest, ast.Name) or rest.id != "mma" or words[:1] != ["sync"] or name not in shapes():
        hint = closest(name, shapes()) or ", ".join(shapes())
        raise TileError("schedule", node.loc, "an instruction is named as in mma.sync.m16n8k16", hint)
    shape, _, modifier = name.partition(".")
    return Named((shape, modifier), node.loc)


def _swizzle(line: ast.Property, evaluate: Evaluator) -> SwizzlePin:
    """`none`, or three numbers."""
    values = line.values
    if len(values) == 1 and isinstance(values[0], ast.Name) and values[0].id == "none":
        return SwizzlePin(None, line.loc)
    if len(values) != 3:
        raise TileError("schedule", line.loc, "swizzle TILE: none, or BITS, BASE, SHIFT", "swizzle s: 3, 4, 3")
    bits, base, shift = (evaluate.integer(v, "a swizzle's bits") for v in values)
    return SwizzlePin((bits, base, shift), line.loc)


EVICTIONS = ("first", "last", "normal", "unchanged", "no_allocate")


def _property(
    program: Program,
    kernel: ast.Kernel,
    line: ast.Property,
    out: ResolvedSchedule,
    names: dict[str, Any],
    overrides: Mapping[str, Any],
    seen: tuple[ast.Schedule, ...],
    evaluate: Evaluator,
) -> None:
    kind = line.name
    if kind == "like":
        _one(line)
        other = program.like(line, kernel.name)
        if other is None:
            known = [name if of == kernel.name else f"{of}.{name}" for of, name in program.schedules]
            raise TileError("name", line.loc, "there is no such schedule", _list(known))
        if any(other is schedule for schedule in seen):
            raise TileError("schedule", line.loc, f"schedule '{other.name}' is like itself")
        _lines(program, kernel, other, out, names, overrides, (*seen, other))
    elif kind == "specialize":
        if line.subject and (len(line.values) != 1 or not isinstance(evaluate(line.values[0]), bool)):
            raise TileError("schedule", line.loc, "specialize NAMES, or specialize NAMES: CONDITION")
        names_of = line.subject or line.values
        for value in names_of if not line.subject or evaluate(line.values[0]) else []:
            if not isinstance(value, ast.Name):
                raise TileError("schedule", value.loc, "'specialize' takes names of dims and scalars")
            out.specialize[value.id] = value
    elif kind == "recompute":
        for value in line.values:
            if not isinstance(value, ast.Name):
                raise TileError("schedule", value.loc, "'recompute' takes names of values")
            out.attrs.setdefault("recompute", {})[value.id] = value.loc
    elif kind == "barriers":
        out.attrs["barriers"] = _word(_one(line), ("manual", "automatic"), "barriers")
    elif kind == "require":
        out.attrs["require"] = _word(_one(line), ("async",), "require")
    elif kind == "contract":
        out.attrs["contract"] = _word_or_flag(_one(line), ("off", "fast"), "contract", evaluate)
    elif kind in ("maxregs", "blocks_per_sm", "cluster"):
        number = evaluate.integer(_one(line), kind)
        limit = {"maxregs": (LEAST_REGISTERS, MOST_REGISTERS), "blocks_per_sm": (1, 32), "cluster": (1, 16)}[kind]
        if not limit[0] <= number <= limit[1]:
            raise TileError("schedule", line.loc, f"{kind} is from {limit[0]} to {limit[1]}; this is {number}")
        out.attrs[kind], out.places[kind] = number, line.loc
    elif kind == "instruction":
        for subject in line.subject:
            if not isinstance(subject, ast.Name) or len(line.values) != 1:
                raise TileError("schedule", line.loc, "instruction NAME: mma.sync.m16n8k16")
            out.instructions[subject.id] = _instruction(line.values[0])
    elif kind == "swizzle":
        for subject in line.subject:
            if not isinstance(subject, ast.Name):
                raise TileError("schedule", line.loc, "swizzle TILE: none, or BITS, BASE, SHIFT")
            out.swizzles[subject.id] = _swizzle(line, evaluate)
    elif kind == "unroll":
        for subject in line.subject:
            if not isinstance(subject, ast.Name) or len(line.values) != 1:
                raise TileError("schedule", line.loc, "unroll NAME: COUNT")
            count = evaluate.integer(line.values[0], "unroll")
            if count < 1:
                message = f"a loop is unrolled by 1 or more; this is {count}"
                raise TileError("schedule", line.values[0].loc, message, "1 leaves it as it is")
            out.attrs.setdefault("unroll", {})[subject.id] = count
            out.unrolled[subject.id] = subject.loc
    elif kind in ("evict", "cache"):
        for subject in line.subject:
            if not isinstance(subject, ast.Name) or len(line.values) != 1:
                raise TileError("schedule", line.loc, f"{kind} TENSOR: WORD")
            if subject.id not in {p.name for p in kernel.params}:
                raise TileError("name", subject.loc, f"the kernel has no parameter '{subject.id}'")
            known_words = (
                EVICTIONS
                if kind == "evict"
                else ("all", "global", "streaming", "last_use", "write_back", "write_through")
            )
            out.attrs.setdefault(kind, {})[subject.id] = _word(line.values[0], known_words, kind)
    else:
        known_kinds = [
            "like",
            "specialize",
            "recompute",
            "barriers",
            "require",
            "contract",
            "maxregs",
            "blocks_per_sm",
            "cluster",
            "unroll",
            "instruction",
            "swizzle",
            "evict",
            "cache",
        ]
        raise TileError(
            "schedule",
            line.loc,
            f"a schedule has no property '{kind}'",
            closest(kind, known_kinds) or ", ".join(known_kinds),
        )
