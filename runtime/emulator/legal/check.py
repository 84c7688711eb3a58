"""Checks each instruction of a module against the table of legal forms."""

from __future__ import annotations

import itertools
import re
from functools import cache

from ..code import LAUNCH_SPECIALS, THREAD_SPECIALS
from ..findings import PtxError
from ..reader import (
    ArgumentList,
    Float,
    Integer,
    Label,
    Operand,
    PtxAddress,
    PtxFunction,
    PtxInstruction,
    PtxModule,
    Register,
    TensorAddress,
    Variable,
    Vector,
)
from . import arithmetic, machine
from .forms import FormTable, LegalForm, number_of, runs_on
from .operands import BYTES, FormMismatch, RegisterScope, check_operands

# Modifiers that need more than the oldest target and version of the forms that they stand in.
WORD_NEEDS: dict[str, tuple[str, tuple[int, int]]] = {
    "shared::cluster": ("sm_90", (7, 8)),
    "shared::cta": ("", (7, 8)),
    "param::entry": ("", (8, 3)),
    "param::func": ("", (8, 3)),
    "cluster": ("sm_90", (7, 8)),
    "L2::cache_hint": ("sm_80", (7, 4)),
    "L2::64B": ("sm_75", (7, 4)),
    "L2::128B": ("sm_75", (7, 4)),
    "L2::256B": ("sm_80", (7, 4)),
    **{f"L1::{word}": ("sm_70", (7, 4)) for word in ("evict_normal", "evict_unchanged", "evict_first", "evict_last")},
    "mbarrier relaxed": ("sm_90", (8, 0)),
    **{f"mbarrier.{name} relaxed": ("sm_90", (8, 6)) for name in ("arrive", "arrive_drop", "test_wait", "try_wait")},
    "L1::no_allocate": ("sm_70", (7, 4)),
}


@cache
def table() -> FormTable:
    found = FormTable()
    for text in (
        arithmetic.INTEGER,
        arithmetic.VIDEO,
        arithmetic.FLOATING,
        arithmetic.COMPARISON,
        arithmetic.CONVERSION,
    ):
        found.add(text, arithmetic.MACROS)
    for text in (
        machine.MOVEMENT,
        machine.MEMORY,
        machine.ASYNCHRONOUS,
        machine.WARP,
        machine.MATRIX,
        machine.WARPGROUP,
        machine.CONTROL,
    ):
        found.add(text, machine.MACROS)
    return found


@cache
def forms_of(name: str) -> tuple[tuple[LegalForm, dict[str, str]], ...]:
    """The forms that an opcode has, each with what its names stand for."""
    found = []
    for form in table().forms.get(name.split(".")[0], []):
        match = form.regex.fullmatch(name)
        if match:
            found.append((form, {key: value or "" for key, value in match.groupdict().items()}))
    return tuple(found)


def specials() -> dict[str, str]:
    """The special registers, with the widths in bytes that they can be read in."""
    found = dict.fromkeys(THREAD_SPECIALS | LAUNCH_SPECIALS, "4")
    for axis in "xyz":
        found |= {f"%{name}.{axis}": "2 4" for name in ("tid", "ntid", "ctaid", "nctaid")}
    found |= {"%gridid": "4 8", "%clock64": "8", "%globaltimer": "8", "%is_explicit_cluster": "pred"}
    return found


def check_module(module: PtxModule) -> None:
    """Raises `PtxError` at the first instruction that is not legal."""
    shared = {name: variable.space for name, variable in module.variables.items()}
    for function in module.functions.values():
        scope = scope_of(function, shared, set(module.functions))
        check_labels(function, scope)
        legal: set[tuple] = set()
        for item in function.body:
            if isinstance(item, PtxInstruction):
                kinds = kinds_of(item, scope)
                if kinds is None or kinds not in legal:
                    check_instruction(item, scope, module, function)
                if kinds is not None:
                    legal.add(kinds)


def kinds_of(ins: PtxInstruction, scope: RegisterScope) -> tuple | None:
    """All that the check of an instruction asks, where its operands are registers, numbers and addresses in registers:
    of a thousand unrolled instructions one is checked."""
    if ins.opcode[0] in {"bra", "brx", "call"}:  # their names are no registers
        return None
    kinds: list[object] = [ins.opcode, "" if ins.guard is None else scope.registers.get(ins.guard.name)]
    if any(isinstance(operand, TensorAddress) for operand in ins.operands):
        return None
    for operand in ins.operands:
        for item in operand.items if isinstance(operand, Vector) else (operand,):
            base = item.base if isinstance(item, PtxAddress) else item
            kind: object = scope.registers.get(base.name) if isinstance(base, Register) else None
            if isinstance(item, Integer):
                kind = item.value
            elif isinstance(item, Float):
                kind = (str(item), item.bits, item.width)
            if kind is None:
                return None
            kinds.append((type(item), kind))
        kinds.append(type(operand))
    return tuple(kinds)


def scope_of(function: PtxFunction, shared: dict[str, str], functions: set[str]) -> RegisterScope:
    scope = RegisterScope(dict(function.registers), dict(shared), functions=functions, specials=specials())
    for formals, names in ((function.params, scope.inputs), (function.results, scope.outputs)):
        for variable in formals:
            if variable.space == "reg":
                scope.registers[variable.name] = variable.type
            else:
                scope.spaces[variable.name] = variable.space
                scope.sizes[variable.name] = variable.size
                names.add(variable.name)
    for name, variable in function.variables.items():
        scope.spaces[name] = variable.space
        if variable.space == "param":
            scope.sizes[name] = variable.size
    return scope


def check_labels(function: PtxFunction, scope: RegisterScope) -> None:
    for item in function.body:
        if isinstance(item, Label):
            if item.name in scope.labels:
                raise PtxError(f"the label {item.name} stands twice in {function.name}", item.ptx_line)
            scope.labels.add(item.name)
    for name, targets in function.targets.items():
        scope.tables.add(name)
        for target in targets:
            if target not in scope.labels:
                raise PtxError(f"unknown label {target} among the targets {name}", function.ptx_line)


ATOMIC_WORDS = (
    {"relaxed", "acquire", "release", "acq_rel"},
    {"cta", "cluster", "gpu", "sys"},
    {"global", "shared", "shared::cta", "shared::cluster"},
)


def usual_order(ins: PtxInstruction) -> str:
    """The opcode, of atomics with order, scope and space in front, which ptxas takes anywhere: nvcc writes them behind
    the operation."""
    if ins.opcode[0] not in ("atom", "red") or "async" in ins.opcode:
        return ins.name

    def rank(word: str) -> int:
        return next((i for i, words in enumerate(ATOMIC_WORDS) if word in words), len(ATOMIC_WORDS))

    return ".".join([ins.opcode[0], *sorted(ins.opcode[1:], key=rank)])


def check_instruction(ins: PtxInstruction, scope: RegisterScope, module: PtxModule, function: PtxFunction) -> None:
    def error(message: str) -> PtxError:
        return PtxError(f"{message} in `{ins}`", ins.ptx_line)

    if ins.guard is not None and scope.registers.get(ins.guard.name) != "pred":
        raise error(f"the guard {ins.guard} is not a predicate")
    if ins.opcode[0] == "call":
        check_call(ins, scope, module, error)
        return
    forms = forms_of(usual_order(ins))
    if not forms:
        known = table().forms.get(ins.opcode[0], [])
        if ins.opcode[0] == "multimem":
            raise error("multimem is for the memory of several devices, and the emulator has one")
        if not known:
            raise PtxError(f"unknown instruction `{ins}`", ins.ptx_line)
        raise error(f"{ins.name} is no form that the emulator knows; {known_forms(known, ins.opcode)}")
    reasons = []
    for form, words in forms:
        try:
            check_operands(ins, form, words, scope)
            check_needs(form.target, form.version, module)
            for word in ins.opcode:
                roots = ("", f"{ins.opcode[0]} ", f"{'.'.join(ins.opcode[:2])} ")
                for needs in (WORD_NEEDS.get(root + word) for root in roots):
                    if needs is not None:
                        check_needs(*needs, module)
            return
        except FormMismatch as mismatch:
            reasons.append(str(mismatch))
    raise error(min(reasons, key=nearness))


def nearness(reason: str) -> int:
    """Of several forms the one counts that fits but for its target, else one with as many operands."""
    return 0 if reason.startswith("it needs") else 2 if reason.startswith("it takes") else 1


def known_forms(known: list[LegalForm], opcode: tuple[str, ...]) -> str:
    """Those that share most words with the opcode."""
    words = set(opcode)
    ranked = sorted(known, key=lambda form: -len(words & set(re.findall(r"[\w:]+", form.pattern))))
    shown = list(dict.fromkeys(form.pattern for form in ranked[:2]))
    return f"the nearest {'is' if len(shown) == 1 else 'are'} {' and '.join(shown)}"


def check_needs(target: str, version: tuple[int, int], module: PtxModule) -> None:
    if target and module.target and not runs_on(target, module.target):
        raise FormMismatch(f"it needs .target {target}{'' if target[-1].isalpha() else ' or later'}")
    if module.version and tuple(map(int, module.version.split("."))) < version:
        raise FormMismatch("it needs PTX .version {}.{} or later".format(*version))


def check_call(ins: PtxInstruction, scope: RegisterScope, module: PtxModule, error: object) -> None:
    assert callable(error)
    words = set(ins.opcode[1:])
    if words - {"uni"}:
        raise error(f"{ins.name} is no form of call; there are call and call.uni")
    names = [item.name for item in ins.operands if isinstance(item, Register)]
    callee = module.functions.get(names[0]) if names else None
    if callee is None or len(names) != 1 or callee.is_entry:
        raise error(f"{names[0] if names else ins} is no function of the module, and indirect calls are not supported")
    at = next(index for index, item in enumerate(ins.operands) if isinstance(item, Register))
    results = ins.operands[0].items if at == 1 and isinstance(ins.operands[0], ArgumentList) else ()
    rest = ins.operands[at + 1 :]
    arguments = rest[0].items if rest and isinstance(rest[0], ArgumentList) else ()
    if at > 1 or len(rest) > 1 or len(results) != len(callee.results) or len(arguments) != len(callee.params):
        raise error(
            f"{callee.name} has {len(callee.results)} results and {len(callee.params)} arguments, "
            f"not {len(results)} and {len(arguments)}"
        )
    for formal, actual in zip((*callee.results, *callee.params), (*results, *arguments), strict=True):
        fault = unfit(formal, actual, scope, is_result=formal in callee.results)
        if fault:
            raise error(f"{fault}, which {callee.name} calls {formal.name}")


def unfit(formal: Variable, actual: Operand, scope: RegisterScope, is_result: bool) -> str:
    """Why this cannot be an argument or a result; empty where it can."""
    if isinstance(actual, Integer | Float):
        return f"the constant {actual} cannot be a result" if is_result else ""
    if not isinstance(actual, Register):
        return f"{actual} cannot be an argument or a result"
    if actual.name in scope.registers:
        size = BYTES.get(scope.registers[actual.name], 0)
    elif scope.spaces.get(actual.name) == "param":
        size = scope.sizes.get(actual.name, 0)
    elif actual.name == "_" and is_result:
        return ""
    else:
        return f"{actual} is no register and no .param variable"
    return "" if size == formal.size else f"{actual} has {size} bytes and not the {formal.size} of the parameter"


def all_forms() -> list[LegalForm]:
    """The whole table."""
    return [form for forms in table().forms.values() for form in forms]


def choices_of(pattern: str) -> list[list[str]]:
    """The pieces of an opcode pattern, each with the texts that it may be."""
    choices = []
    for part in re.findall(r"\{[^}]*\}|[^{]+", pattern):
        pieces = re.split(r"[A-Z]?\[([^\]]*)\]", part.strip("{}"))
        words = [each.split() if index % 2 else [each] for index, each in enumerate(pieces)]
        choices.append([""] * (part[0] == "{") + ["".join(each) for each in itertools.product(*words)])
    return choices


__all__ = ["all_forms", "check_module", "choices_of", "number_of"]
