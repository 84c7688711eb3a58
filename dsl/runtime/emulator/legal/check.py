"""Checks each instruction of a module against the table of legal forms."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache

from msgspec.structs import replace

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
from .forms import FormNeed, FormTable, LegalForm, runs_on
from .operands import BYTES, FormMismatch, RegisterScope, check_operands
from .order import in_order
from .wide import split_wide

# Some modifiers require a later target or PTX version than the oldest form that contains the modifier. This table lists
# these requirements. A key with an instruction's name takes precedence over the same key without a name. For 490 forms,
# 23 targets and 30 versions, the table agrees with ptxas 13.5.
WORD_NEEDS: dict[str, FormNeed] = {
    "shared::cluster": FormNeed("sm_90", (7, 8)),
    "shared::cta": FormNeed("", (7, 8)),
    "cp.async.ca shared::cta": FormNeed("", (7, 0)),  # ptxas requires only the version of the instruction
    "cp.async.cg shared::cta": FormNeed("", (7, 0)),
    "param::entry": FormNeed("", (8, 3)),
    "param::func": FormNeed("", (8, 3)),
    "cluster": FormNeed("sm_90", (7, 8)),
    "L2::cache_hint": FormNeed("sm_80", (7, 4)),
    "L2::64B": FormNeed("sm_75", (7, 4)),
    "L2::128B": FormNeed("sm_75", (7, 4)),
    "L2::256B": FormNeed("sm_80", (7, 4)),
    **{f"L1::evict_{which}": FormNeed("sm_70", (7, 4)) for which in ("normal", "unchanged", "first", "last")},
    "L1::no_allocate": FormNeed("sm_70", (7, 4)),
    "bar cta": FormNeed("", (7, 8)),
    "barrier cta": FormNeed("", (7, 8)),
    **{f"barrier.cluster {word}": FormNeed("sm_90", (8, 0)) for word in ("acquire", "release", "relaxed")},
    **{f"mbarrier {word}": FormNeed("", (8, 0)) for word in ("acquire", "release")},
    "mbarrier relaxed": FormNeed("sm_90", (8, 0)),
    **{f"mbarrier.{name} relaxed": FormNeed("sm_90", (8, 6)) for name in ("arrive", "arrive_drop")},
    **{f"mbarrier.{name} relaxed": FormNeed("sm_90", (8, 6)) for name in ("test_wait", "try_wait")},
}


def word_needs(opcode: tuple[str, ...]) -> Iterator[FormNeed]:
    """Yields the targets and PTX versions that the modifiers of an opcode require."""
    roots = (*(f"{'.'.join(opcode[:count])} " for count in (3, 2, 1)), "")
    for word in opcode:
        found = next((WORD_NEEDS[root + word] for root in roots if root + word in WORD_NEEDS), None)
        if found is not None:
            yield found


@cache
def table() -> FormTable:
    found = FormTable()
    for family in (arithmetic, machine):
        for text in family.FORMS:
            found.add(text, family.MACROS)
    return found


@cache
def forms_of(name: str) -> tuple[tuple[LegalForm, dict[str, str]], ...]:
    """Returns a pair (form, dict) for each form that matches an opcode. The dict maps the letters of the form to words
    of the opcode, such as T to f32."""
    found = []
    for form in table().forms.get(name.split(".")[0], []):
        match = form.regex.fullmatch(name)
        if match:
            found.append((form, {key: value or "" for key, value in match.groupdict().items()}))
    return tuple(found)


@cache
def usual_order(opcode: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the words of an opcode in the order of the table. Returns the opcode unchanged if no form consists of the
    same words."""
    if forms_of(".".join(opcode)):
        return opcode
    found = (in_order(form, opcode) for form in table().forms.get(opcode[0], []))
    return next((words for words in found if words is not None), opcode)


def specials() -> dict[str, str]:
    """Maps each special register to the widths in bytes as which it can be read, such as "2 4"."""
    found = dict.fromkeys(THREAD_SPECIALS | LAUNCH_SPECIALS, "4")
    for axis in "xyz":
        found |= {f"%{name}.{axis}": "2 4" for name in ("tid", "ntid", "ctaid", "nctaid")}
    found |= {"%gridid": "4 8", "%clock64": "8", "%globaltimer": "8", "%is_explicit_cluster": "pred"}
    return found


def check_module(module: PtxModule) -> None:
    """Raises `PtxError` at the first instruction that is not legal. Also puts the words of each opcode in the order of
    the table, since the emulator relies on this order."""
    shared = {name: variable.space for name, variable in module.variables.items()}
    for function in module.functions.values():
        split_wide(function, module)
        scope = scope_of(function, shared, set(module.functions))
        check_labels(function, scope)
        # Unrolled code repeats instructions with the same opcode and operand types. Only the first of these is checked.
        legal: set[tuple] = set()
        for index, item in enumerate(function.body):
            if isinstance(item, PtxInstruction):
                if (opcode := usual_order(item.opcode)) is not item.opcode:
                    item = function.body[index] = replace(item, opcode=opcode)
                kinds = kinds_of(item, scope)
                if kinds is None or kinds not in legal:
                    check_instruction(item, scope, module, function)
                if kinds is not None:
                    legal.add(kinds)


def kinds_of(ins: PtxInstruction, scope: RegisterScope) -> tuple | None:
    """Returns a tuple of everything on which the check of an instruction depends. Instructions with equal tuples are
    checked once. Returns None if some operand is not a register, a number, or an address in a register."""
    if ins.opcode[0] in {"bra", "brx", "call"}:  # the operands are labels and functions
        return None
    registers = scope.registers
    kinds: list[object] = [ins.opcode, "" if ins.guard is None else registers.get(ins.guard.name)]
    for operand in ins.operands:
        if isinstance(operand, Register):  # the most frequent case
            if (kind := registers.get(operand.name)) is None:
                return None
            kinds.append(kind)
            continue
        if isinstance(operand, TensorAddress):
            return None
        for item in operand.items if isinstance(operand, Vector) else (operand,):
            base = item.base if isinstance(item, PtxAddress) else item
            of: object = registers.get(base.name) if isinstance(base, Register) else None
            if isinstance(item, Integer):
                of = item.value
            elif isinstance(item, Float):
                of = (str(item), item.bits, item.width)
            if of is None:
                return None
            kinds.append((type(item), of))
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
                raise PtxError(f"the label {item.name} is declared twice in {function.name}", item.ptx_line)
            scope.labels.add(item.name)
    for name, targets in function.targets.items():
        scope.tables.add(name)
        for target in targets:
            if target not in scope.labels:
                raise PtxError(f"unknown label {target} among the targets {name}", function.ptx_line)


def check_instruction(ins: PtxInstruction, scope: RegisterScope, module: PtxModule, function: PtxFunction) -> None:
    def error(message: str) -> PtxError:
        return PtxError(f"{message} in `{ins}`", ins.ptx_line)

    if ins.guard is not None and scope.registers.get(ins.guard.name) != "pred":
        raise error(f"the guard {ins.guard} is not a predicate")
    if ins.opcode[0] == "call":
        check_call(ins, scope, module, error)
        return
    forms = forms_of(ins.name)
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
            check_needs(form.needs, module)
            for each in word_needs(ins.opcode):
                check_needs((each,), module)
            return
        except FormMismatch as mismatch:
            reasons.append(str(mismatch))
    # Several forms may match the opcode. The error gives the reason of the nearest form.
    raise error(min(reasons, key=nearness))


def nearness(reason: str) -> int:
    """Ranks the reason for a mismatch: 0 if only the target or the version is wrong, 2 if the number of operands is
    wrong, and otherwise 1."""
    return 0 if reason.startswith("it needs") else 2 if reason.startswith("it takes") else 1


def known_forms(known: list[LegalForm], opcode: tuple[str, ...]) -> str:
    """Returns a text that names the (at most two) forms that share most words with the opcode."""
    words = set(opcode)
    ranked = sorted(known, key=lambda form: -len(words & set(re.findall(r"[\w:]+", form.pattern))))
    shown = list(dict.fromkeys(form.pattern for form in ranked[:2]))
    return f"the nearest {'is' if len(shown) == 1 else 'are'} {' and '.join(shown)}"


def check_needs(needs: tuple[FormNeed, ...], module: PtxModule) -> None:
    """Raises `FormMismatch` if the module's target and version meet none of `needs`."""
    known = [each for each in needs if not each.target or not module.target or runs_on(each.target, module.target)]
    if needs and not known:
        targets = [each.target + ("" if each.target.endswith("a") else " or later") for each in needs]
        raise FormMismatch(f"it needs .target {', or '.join(targets)}")
    least = min((each.version for each in known), default=(1, 0))
    if module.version and tuple(map(int, module.version.split("."))) < least:
        raise FormMismatch("it needs PTX .version {}.{} or later".format(*least))


def check_call(ins: PtxInstruction, scope: RegisterScope, module: PtxModule, error: Callable[[str], PtxError]) -> None:
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
    """Returns the reason why `actual` cannot be an argument or result for the parameter `formal`, or "" if it can."""
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
    """Returns the forms of the whole table."""
    return [form for forms in table().forms.values() for form in forms]


def choices_of(pattern: str) -> list[list[str]]:
    """Returns the alternatives for each part of an opcode pattern: `add{.[rn rz]}` gives [["add"], ["", ".rn",
    ".rz"]]."""
    choices = []
    for part in re.findall(r"\{[^}]*\}|[^{]+", pattern):
        pieces = re.split(r"[A-Z]?\[([^\]]*)\]", part.strip("{}"))
        words = [each.split() if index % 2 else [each] for index, each in enumerate(pieces)]
        choices.append([""] * (part[0] == "{") + ["".join(each) for each in itertools.product(*words)])
    return choices
