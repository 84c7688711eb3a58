"""Inlines function calls: replaces each call by the body of the called function (PTX ISA 7.1)."""

from __future__ import annotations

from msgspec.structs import replace

from .findings import PtxError
from .limits import MOST_INSTRUCTIONS
from .reader import (
    TYPE_BYTES,
    ArgumentList,
    Label,
    Not,
    Operand,
    Pair,
    Part,
    PtxAddress,
    PtxFunction,
    PtxInstruction,
    PtxModule,
    Register,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)


def renamed(operand: Operand, names: dict[str, str], suffix: str) -> Operand:
    """Renames an operand of an inlined function. `names` maps old names to new ones: parameters become the caller's
    variables, and other names get a suffix."""
    if isinstance(operand, Register):
        return Register(names.get(operand.name, operand.name))
    if isinstance(operand, Symbol):
        return Symbol(names.get(operand.name, operand.name), operand.offset)
    if isinstance(operand, PtxAddress):
        base = renamed(operand.base, names, suffix) if operand.base is not None else None
        return PtxAddress(base, operand.offset)  # type: ignore[arg-type]
    if isinstance(operand, TensorAddress):
        parts = (renamed(each, names, suffix) for each in (operand.map, operand.coordinates))
        return TensorAddress(*parts)  # type: ignore[arg-type]
    if isinstance(operand, Vector | ArgumentList):
        return type(operand)(tuple(renamed(item, names, suffix) for item in operand.items))
    if isinstance(operand, Pair):
        return Pair(renamed(operand.first, names, suffix), renamed(operand.second, names, suffix))
    if isinstance(operand, Part):
        return Part(Register(names.get(operand.register.name, operand.register.name)), operand.part)
    if isinstance(operand, Not):
        return Not(renamed(operand.operand, names, suffix))
    return operand


def list_of(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, ArgumentList) else ()


def access_type(variable: Variable) -> str:
    """Returns the type of the `mov`, `ld` or `st` that copies one value of a formal parameter."""
    return "pred" if variable.type == "pred" else f"b{8 * TYPE_BYTES[variable.type]}"


class Inliner:
    """Replaces calls by the bodies of the called functions. Raises `PtxError` for recursion.

    Arguments are passed by value. A formal `.reg` parameter becomes a new register. An argument is copied to its
    register before the body, and a result is copied from its register after the body. A formal `.param` variable is
    either only read (an argument) or only written (a result). So the inlined body can use the caller's variable
    instead. The exception is a variable that the caller passes both as an argument and as a result.
    """

    def __init__(self, module: PtxModule):
        self.module = module
        self.count = 0
        self.size = 0
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.targets: dict[str, tuple[str, ...]] = {}

    def expand(
        self, function: PtxFunction, names: dict[str, str], suffix: str, callers: tuple[str, ...] = ()
    ) -> list[PtxInstruction | Label]:
        if function.name in callers:
            raise PtxError(f"recursive calls of {function.name} are not supported", function.ptx_line)
        for name, kind in function.registers.items():
            names[name] = name + suffix
            self.registers[name + suffix] = kind
        for name, variable in function.variables.items():
            names[name] = name + suffix
            self.variables[name + suffix] = replace(variable, name=name + suffix)
        labels = {item.name for item in function.body if isinstance(item, Label)} | set(function.targets)
        names.update({label: label + suffix for label in labels})
        for label, targets in function.targets.items():
            self.targets[names[label]] = tuple(names.get(target, target) for target in targets)
        body: list[PtxInstruction | Label] = []
        for item in function.body:
            if isinstance(item, Label):
                body.append(Label(names[item.name]))
                continue
            self.size += 1
            if self.size > MOST_INSTRUCTIONS:
                raise PtxError(
                    f"with its calls inlined, the kernel has more than {MOST_INSTRUCTIONS} instructions; "
                    "call fewer functions, or call them from a loop",
                    item.ptx_line,
                )
            ins = item
            if suffix:  # the entry's own names stay
                guard = Register(names.get(item.guard.name, item.guard.name)) if item.guard else None
                operands = tuple(renamed(operand, names, suffix) for operand in item.operands)
                ins = replace(item, operands=operands, guard=guard)
            body += self.call(ins, (*callers, function.name)) if ins.opcode[0] == "call" else [ins]
        return body

    def call(self, ins: PtxInstruction, callers: tuple[str, ...]) -> list[PtxInstruction | Label]:
        callee = self.callee(ins)
        if callee is None:
            return [ins]
        lists = [list_of(operand) for operand in ins.operands]
        results = lists[0] if callee.results else ()
        arguments = lists[-1] if callee.params else ()
        if len(results) != len(callee.results) or len(arguments) != len(callee.params):
            raise PtxError(f"{callee.name} has another number of arguments or results in `{ins}`", ins.ptx_line)
        self.count += 1
        # Names in PTX contain no slash, so a name with this suffix is unique to the call.
        suffix = f"/{self.count}"
        names: dict[str, str] = {}
        before: list[PtxInstruction] = []
        behind: list[PtxInstruction] = []
        given = {str(result) for result in results}
        for formal, actual in zip(callee.params, arguments, strict=True):
            shared = self.is_variable(actual) and formal.space == "param" and str(actual) not in given
            names[formal.name] = str(actual) if shared else self.own(formal, suffix)
            if not shared:
                before += self.transfer(Register(names[formal.name]), actual, formal, ins)
        for formal, actual in zip(callee.results, results, strict=True):
            shared = self.is_variable(actual) and formal.space == "param"
            names[formal.name] = str(actual) if shared else self.own(formal, suffix)
            if not shared and str(actual) != "_":
                behind += self.transfer(actual, Register(names[formal.name]), formal, ins)
        after, skipped = Label(f"return{suffix}"), Label(f"after call{suffix}")
        body = self.expand(callee, names, suffix, callers)
        jump = PtxInstruction(("bra",), (Register(after.name),), None, False, ins.ptx_line, ins.location)
        inlined: list[PtxInstruction | Label] = [
            replace(item, opcode=("bra",), operands=jump.operands)
            if isinstance(item, PtxInstruction) and item.opcode[0] == "ret"
            else item
            for item in body
        ]
        whole = [*before, *inlined, after, *behind]
        if ins.guard is not None:
            around = (Register(skipped.name),)
            opcode = ("bra", *ins.opcode[1:])  # a call.uni becomes a bra.uni: threads must not diverge there
            skip = replace(jump, opcode=opcode, operands=around, guard=ins.guard, guard_negated=not ins.guard_negated)
            whole = [skip, *whole, skipped]
        return whole

    def callee(self, ins: PtxInstruction) -> PtxFunction | None:
        """Returns the function that a `call` instruction names, or None if it has no body."""
        names = (item.name for item in ins.operands if isinstance(item, Register))
        found = next(map(self.module.functions.get, names), None)
        return found if found is not None and found.has_body else None

    def is_variable(self, operand: Operand) -> bool:
        return isinstance(operand, Register) and operand.name in self.variables

    def own(self, formal: Variable, suffix: str) -> str:
        """Declares a register or variable for a formal parameter in one call, and returns its name."""
        name = formal.name + suffix
        if formal.space == "reg":
            self.registers[name] = formal.type
        else:
            self.variables[name] = replace(formal, name=name)
        return name

    def transfer(self, to: Operand, source: Operand, formal: Variable, ins: PtxInstruction) -> list[PtxInstruction]:
        """Returns the instructions that copy one argument or result between registers, constants and `.param`
        variables."""

        def made(opcode: str, *operands: Operand) -> PtxInstruction:
            return PtxInstruction(tuple(opcode.split(".")), operands, None, False, ins.ptx_line, ins.location)

        kind = access_type(formal)
        if not self.is_variable(to) and not self.is_variable(source):
            return [made(f"mov.{kind}", to, source)]
        if not self.is_variable(to):
            return [made(f"ld.param.{kind}", to, PtxAddress(source))]  # type: ignore[arg-type]
        if not self.is_variable(source):
            return [made(f"st.param.{kind}", PtxAddress(to), source)]  # type: ignore[arg-type]
        # A structure is passed as an array of .b8, so it is moved byte by byte.
        unit = TYPE_BYTES[formal.type]
        scratch = Register(f"copy/{self.count}")
        self.registers[scratch.name] = f"b{8 * max(unit, 2)}"
        moves = []
        for at in range(0, formal.size, unit):
            moves.append(made(f"ld.param.b{8 * unit}", scratch, PtxAddress(source, at)))  # type: ignore[arg-type]
            moves.append(made(f"st.param.b{8 * unit}", PtxAddress(to, at), scratch))  # type: ignore[arg-type]
        return moves
