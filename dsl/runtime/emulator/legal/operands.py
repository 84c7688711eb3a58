"""Checks that the operands of an instruction match the operands of a form (PTX ISA 6.4, 9.2, 9.4)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct, field

from ..reader import (
    TYPE_BYTES,
    ArgumentList,
    Float,
    Integer,
    Not,
    Operand,
    Pair,
    Part,
    PtxAddress,
    PtxInstruction,
    Register,
    Symbol,
    TensorAddress,
    Vector,
)
from .forms import LegalForm, OperandSlot, vector_size

BYTES = {**TYPE_BYTES, "u16x2": 4, "s16x2": 4, "tf32": 4, "e4m3x2": 2, "e5m2x2": 2, "i32": 4, "i64": 8}
VECTOR_SPECIALS = {f"%{name}" for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid")}
# Operands of these types must be registers.
HALVES = {"f16", "bf16", "f16x2", "bf16x2", "u16x2", "s16x2", "tf32", "e4m3x2", "e5m2x2"}
MOST_COUNT = (1 << 20) - 1  # arrivals at an mbarrier (PTX ISA 9.7.13.15.2)
# The maximum number of bytes of a bulk copy: the largest multiple of 16 that an mbarrier can count. ptxas 13.0 refuses
# a larger constant.
MOST_BULK = (1 << 20) - 16
INTEGERS = {"i32", "i64"}  # integers with or without a sign, or bits


# Maps each letter of a form to a word of the opcode, such as T to f32.
Words = dict[str, str]
NumberCheck = Callable[[Integer | Float, PtxInstruction], None]


class RegisterScope(Struct):
    """The names that one function declares or may use, and their types."""

    registers: dict[str, str]
    spaces: dict[str, str]  # the space of each variable and parameter
    sizes: dict[str, int] = field(default_factory=dict)  # the size of each parameter, in bytes
    inputs: set[str] = field(default_factory=set)  # only `ld.param` may name these formal parameters
    outputs: set[str] = field(default_factory=set)  # only `st.param` may name these formal parameters
    labels: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    specials: dict[str, str] = field(default_factory=dict)


class FormMismatch(Exception):
    """Raised if an instruction does not match a form. The message states why."""


def agree(held: str, wanted: str, wider: bool) -> bool:
    """Checks whether a register of type `held` may be an operand of type `wanted`. Untyped bits (`.b32`) match all
    types, and integers match all integers. `wider` allows a register that is wider than the operand."""
    if "pred" in (held, wanted):
        return held == wanted
    if BYTES[held] < BYTES[wanted] or (BYTES[held] > BYTES[wanted] and not wider):
        return False
    # PTX stores values of these types in registers of untyped bits (`.b` types). Only .f16 and .f16x2 are register
    # types, too. An .f16x2 register may also contain packed integers.
    if wanted in HALVES:
        return (
            (held[0] == "b" and held[:2] != "bf")
            or (held == wanted and wanted in {"f16", "f16x2"})
            or (wanted in {"u16x2", "s16x2"} and held == "f16x2")
        )
    if held[0] == "b" and held[:2] != "bf":
        return True
    if wanted in INTEGERS:
        return held[0] in "su"
    if wanted[0] == "b":
        return True
    if held == "f16x2":
        return wanted[0] in "su"
    if held[0] in "su":
        return wanted[0] in "su"
    return held == wanted


def check_operands(ins: PtxInstruction, form: LegalForm, words: dict[str, str], scope: RegisterScope) -> None:
    """Raises `FormMismatch` for the first operand that does not match the form."""
    slots = [slot for slot in form.slots if not slot.when or words.get(slot.when)]
    least = sum(not slot.optional for slot in slots)
    if not least <= len(ins.operands) <= len(slots):
        count = str(least) if least == len(slots) else f"{least} to {len(slots)}"
        raise FormMismatch(f"it takes {count} operands, not {len(ins.operands)}")
    missing = len(slots) - len(ins.operands)
    for index in range(len(slots) - 1, -1, -1):
        if missing and slots[index].optional:
            del slots[index]
            missing -= 1
    lanes, kind = words.get("V"), words.get("T", "")
    if lanes and int(lanes[1:]) * BYTES[kind] > 16 and form.target != "sm_100":
        raise FormMismatch(f"a vector of {lanes[1:]} .{kind} is wider than 16 bytes")
    for operand, slot in zip(ins.operands, slots, strict=True):
        check_slot(operand, slot, words, scope, ins)
    if ins.opcode[0] == "cvta":
        check_converted(str(ins.operands[1]), ins.opcode[1].split("::")[0], scope)


def check_converted(name: str, space: str, scope: RegisterScope) -> None:
    """Checks `cvta.space d, name`. If `name` is a variable, it must lie in `space`."""
    lies = scope.spaces.get(name, "" if name in scope.functions else space)
    if name not in scope.registers and lies != space:
        raise FormMismatch(f"{name} lies in .{lies}, not in .{space}" if lies else f"{name} is a function")


def check_slot(
    operand: Operand, slot: OperandSlot, words: dict[str, str], scope: RegisterScope, ins: PtxInstruction
) -> None:
    kind = words.get(slot.type, slot.type) if slot.type.isupper() else slot.type
    if isinstance(operand, ArgumentList):
        raise FormMismatch(f"{operand} is a list for calls only")
    if kind in SPECIAL:
        SPECIAL[kind](operand, slot, words, scope, ins)
    elif kind in NUMBERS:
        type, check = NUMBERS[kind]
        if isinstance(operand, Float if type[0] == "f" else Integer):
            check(operand, ins)
        check_source(operand, type, OperandSlot(type), scope)
    elif kind[0] == "@":
        check_address(operand, scope, ins, kind[1:])
    elif kind[0] == "#":
        check_constant(operand, kind[1:])
    else:
        check_value(operand, slot, kind, words, scope)


def check_predicate(operand: Operand, slot: OperandSlot, _: Words, scope: RegisterScope, __: PtxInstruction) -> None:
    source = operand.operand if isinstance(operand, Not) else operand
    if "*" in slot.mark and not is_register(source, scope):
        raise FormMismatch(f"{operand} is not a predicate")
    check_source(source, "pred", slot, scope)


def check_dropped(operand: Operand, *_: object) -> None:
    if not (isinstance(operand, Register) and operand.name == "_"):
        raise FormMismatch(f"its first operand is _, not {operand}")


def check_special(operand: Operand, *_: object) -> None:
    if str(operand) not in VECTOR_SPECIALS:
        raise FormMismatch(f"{operand} is no vector")


def check_named(operand: Operand, names: Collection[str], what: str) -> None:
    if not isinstance(operand, Register) or operand.name not in names:
        raise FormMismatch(f"unknown {what} {operand}")


# Checks of operands that are not values.
SPECIAL: dict[str, Callable[[Operand, OperandSlot, Words, RegisterScope, PtxInstruction], None]] = {
    "@tensor": lambda o, slot, words, scope, ins: check_tensor(o, int(words[slot.count][0]), scope, ins),
    "offsets": lambda o, slot, words, scope, _: check_offsets(o, int(words[slot.count][0]) - 2, scope),
    "!": check_predicate,
    "_": check_dropped,
    "special": check_special,
    "label": lambda o, slot, words, scope, _: check_named(o, scope.labels, "label"),
    "table": lambda o, slot, words, scope, _: check_named(o, scope.tables, "branch targets"),
}


def refuses(wrong: Callable[[float], bool], message: str) -> NumberCheck:
    def check(operand: Integer | Float, _: PtxInstruction) -> None:
        if wrong(operand.value):
            raise FormMismatch(message.format(operand))

    return check


def within(limits: str) -> NumberCheck:
    return lambda operand, _: check_constant(operand, limits)


def check_size(operand: Integer | Float, ins: PtxInstruction) -> None:
    """Checks the source size of a `cp.async`. It must not exceed the size of the copy."""
    check_constant(operand, f"0..{next(each.value for each in ins.operands if isinstance(each, Integer))}")


def unchecked(operand: Integer | Float, ins: PtxInstruction) -> None:
    """Accepts all values. The emulator checks the value when a thread executes the instruction."""


# Operands that are numbers in a range. Each value contains the operand's type, and the check for a constant.
NUMBERS: dict[str, tuple[str, NumberCheck]] = {
    "barrier": ("u32", unchecked),
    "threads": ("u32", unchecked),
    "arrivals": ("u32", refuses(lambda n: n == 0, "an arrival states the threads of its barrier, and 0 are none")),
    "count": (
        "u32",
        refuses(lambda n: not 0 < n <= MOST_COUNT, f"an mbarrier counts 1 to {MOST_COUNT} arrivals, not {{}}"),
    ),
    "bulk": (
        "u32",
        refuses(
            lambda n: n % 16 != 0 or not 0 <= n <= MOST_BULK,
            f"a bulk copy has a multiple of 16 bytes from 0 to {MOST_BULK}, not {{}}",
        ),
    ),
    "parity": ("u32", within("0,1")),
    "mask": ("u16", within("0..65535")),
    "fraction": ("f32", refuses(lambda f: not 0 < f <= 1, "the fraction {} is not above 0 and at most 1")),
    "size": ("u32", check_size),
    "byte": ("u32", within("0..255")),
}


def check_value(operand: Operand, slot: OperandSlot, kind: str, words: dict[str, str], scope: RegisterScope) -> None:
    if "<" in slot.mark:
        check_parts(operand, kind, slot, scope)
        return
    count = words.get(slot.count) if slot.count.isupper() else slot.count
    if slot.count and count:
        size = vector_size(count, kind)
        if not isinstance(operand, Vector) or len(operand.items) != size:
            raise FormMismatch(f"{operand} is not a vector of {size}")
        check_vector(operand, slot, kind, scope)
        return
    if slot.second:
        if isinstance(operand, Pair):
            check_target(operand.second, "pred", OperandSlot("pred", True, True), scope)
            operand = operand.first
        elif not slot.second.endswith("?"):
            raise FormMismatch("it has two destinations, d|p")
    check_one(operand, slot, kind, scope)


def check_vector(vector: Vector, slot: OperandSlot, kind: str, scope: RegisterScope) -> None:
    """Checks the items of a vector. If its registers have several types, items that should be 16-bit floats, packed or
    i32 are checked as untyped bits."""
    held = {scope.registers.get(str(item), "") for item in vector.items}
    loose = kind in HALVES | INTEGERS and "-" not in slot.mark and len(held) > 1
    for item in vector.items:
        if "-" in slot.mark and str(item) == "_":
            raise FormMismatch("it cannot drop a part of its result with _")
        check_one(item, slot, f"b{8 * BYTES[kind]}" if loose else kind, scope, in_vector=True)
    if slot.is_target and all(str(item) == "_" for item in vector.items):
        raise FormMismatch(f"{vector} drops the whole result")
    if kind[0] in "bi" and not slot.type.isupper() and all(isinstance(item, Integer) for item in vector.items):
        raise FormMismatch(f"{vector} has no register, so that it has no type")
    held.discard("")
    if len({BYTES[each] for each in held}) > 1:
        raise FormMismatch(f"the registers of {vector} have several widths")
    if kind[0] in "su" and "f16x2" in held and len(held) > 1:
        raise FormMismatch(f"the registers of {vector} have several types")


def is_register(operand: Operand, scope: RegisterScope) -> bool:
    return isinstance(operand, Register) and operand.name in scope.registers


def check_one(operand: Operand, slot: OperandSlot, kind: str, scope: RegisterScope, in_vector: bool = False) -> None:
    if isinstance(operand, Part) and "^" in slot.mark:
        operand = operand.register
        if not is_register(operand, scope):
            raise FormMismatch(f"unknown register {operand}")
    elif slot.is_target and "^" in slot.mark:
        raise FormMismatch(f"the destination {operand} is no part of a register")
    if slot.is_target:
        if in_vector and isinstance(operand, Register) and operand.name == "_":
            return
        check_target(operand, kind, slot, scope)
    else:
        check_source(operand, kind, slot, scope)


def check_target(operand: Operand, kind: str, slot: OperandSlot, scope: RegisterScope) -> None:
    if isinstance(operand, Register) and operand.name == "_":
        if not slot.discards:
            raise FormMismatch("it cannot drop its result with _")
        return
    if not isinstance(operand, Register) or operand.name not in scope.registers:
        raise FormMismatch(f"the destination {operand} is not a register")
    check_register(operand, kind, slot, scope)


def check_register(operand: Register, kind: str, slot: OperandSlot, scope: RegisterScope) -> None:
    held = scope.registers[operand.name]
    # an f16x2 register matches an integer type only if the opcode names the type
    packed = held == "f16x2" and kind[0] in "su" and not slot.type.isupper()
    if held not in BYTES or packed or not agree(held, kind, "~" in slot.mark):
        raise FormMismatch(f"register {operand} of type .{held} does not fit .{kind}")


def check_source(operand: Operand, kind: str, slot: OperandSlot, scope: RegisterScope) -> None:
    if isinstance(operand, Register):
        if operand.name in scope.registers:
            check_register(operand, kind, slot, scope)
            return
        check_name(operand.name, kind, slot, scope)
        return
    if "*" in slot.mark or kind in HALVES:
        raise FormMismatch(f"{operand} is not a register of type .{kind}")
    if isinstance(operand, Integer):
        if kind[0] == "f":
            raise FormMismatch(f"the integer {operand} is no constant of type .{kind}")
    elif isinstance(operand, Float):
        check_float(operand, kind)
    elif isinstance(operand, Symbol):
        check_name(operand.name, kind, slot, scope)
    else:
        raise FormMismatch(f"{operand} cannot stand for a .{kind}")


def check_float(operand: Float, kind: str) -> None:
    if kind in {"f32", "f64"}:
        return
    if (kind == "b64" and operand.width == 64) or (kind == "b32" and operand.bits is not None and operand.width == 32):
        return
    raise FormMismatch(f"the constant {operand} is no .{kind}")


def check_name(name: str, kind: str, slot: OperandSlot, scope: RegisterScope) -> None:
    """Checks a source that is a special register, a variable or a function. Only `mov` and similar instructions accept
    such sources."""
    if name == "_":
        raise FormMismatch("_ is no source")
    if name in scope.specials:
        held = scope.specials[name]
        if not {"&", "%"} & set(slot.mark):
            raise FormMismatch(f"the special register {name} is read by mov only")
        fits = kind == "pred" if held == "pred" else kind[0] in "bsu" and BYTES[kind] in map(int, held.split())
        if not fits:
            raise FormMismatch(f"the special register {name} does not fit .{kind}")
        return
    if name in scope.spaces or name in scope.functions:
        if not {"&", "+"} & set(slot.mark) or kind[0] not in "bsu":
            raise FormMismatch(f"{name} is an address, not a register; put it in one with mov")
        if scope.spaces.get(name) == "param" and name not in scope.inputs | scope.outputs:
            raise FormMismatch(f"{name} is a parameter of a call, which has no address")
        if BYTES[kind] < 4 or (BYTES[kind] < 8 and scope.spaces.get(name) == "global"):
            raise FormMismatch(f"the address of {name} does not fit .{kind}")
        return
    raise FormMismatch(f"unknown {'register' if name.startswith('%') else 'name'} {name}")


def check_parts(operand: Operand, kind: str, slot: OperandSlot, scope: RegisterScope) -> None:
    """Checks the vector of `mov.b64 d, {a, b}`. The widths of its parts must add up to the width of `d`."""
    if not isinstance(operand, Vector):
        raise FormMismatch(f"{operand} is not a vector")
    count = len(operand.items)
    bits = 8 * BYTES[kind] // count if count in {1, 2, 4} else 0
    if bits < 8 or 8 * BYTES[kind] % count:
        raise FormMismatch(f"{operand} does not make up .{kind}")
    for item in operand.items:
        if slot.is_target and isinstance(item, Register) and item.name == "_":
            continue
        if not slot.is_target and isinstance(item, Integer | Float):
            continue
        if not isinstance(item, Register) or item.name not in scope.registers:
            raise FormMismatch(f"{item} is not a register")
        held = scope.registers[item.name]
        if held == "pred" or held not in BYTES or BYTES[held] * 8 != bits:
            raise FormMismatch(f"register {item} of type .{held} is no part of {bits} bits")


def check_address(operand: Operand, scope: RegisterScope, ins: PtxInstruction, space: str) -> None:
    if not isinstance(operand, PtxAddress):
        raise FormMismatch(f"{operand} is not an address in brackets")
    named = [word.split("::")[0] for word in ins.opcode if word.split("::")[0] in STATE_SPACES]
    space = space or (named[0] if named else "")
    if operand.base is None:
        if space != "local":
            raise FormMismatch("a number is an address in .local only")
        return
    name = operand.base.name
    if name in scope.registers:
        check_base(name, scope.registers[name], space in {"", "global"})
    elif name in scope.spaces:
        check_variable(name, operand.offset, space, scope, ins)
    else:
        raise FormMismatch(f"unknown {'register' if name.startswith('%') else 'name'} {name}")


def check_variable(name: str, offset: int, space: str, scope: RegisterScope, ins: PtxInstruction) -> None:
    """Checks an address that lies in a variable or a parameter."""
    lies, does, size = scope.spaces[name], ins.opcode[0], scope.sizes.get(name)
    bytes = access_size(ins) if size is not None and does in {"ld", "st"} else 0
    is_formal = name in scope.inputs or name in scope.outputs
    faults = (
        (name in scope.inputs and does != "ld", f"the parameter {name} can only be read"),
        (name in scope.outputs and does == "ld", f"the result {name} can only be written"),
        (
            bytes and not 0 <= offset <= (size or 0) - bytes,
            f"{bytes} bytes at {offset} are past the end of {name}, of {size} bytes",
        ),
        (
            ins.guard is not None and lies == "param" and not is_formal,
            f"an access to {name}, which goes with a call, cannot have a guard",
        ),
        (space != lies and (space or lies == "param"), f"{name} lies in .{lies}, not in .{space}"),
    )
    for is_there, message in faults:
        if is_there:
            raise FormMismatch(message)


def check_base(name: str, held: str, is_wide: bool) -> None:
    """Checks a register that contains an address. Generic and global addresses need a register of 64 bits."""
    if held[0] not in "bsu" or BYTES.get(held, 0) not in {4, 8}:
        raise FormMismatch(f"register {name} of type .{held} holds no address")
    if BYTES[held] == 4 and is_wide:
        raise FormMismatch(f"register {name} of type .{held} is too narrow for an address of 64 bits")


def check_tensor(operand: Operand, dimensions: int, scope: RegisterScope, ins: PtxInstruction) -> None:
    """Checks the operand `[map, {coordinates}]`. The address of the tensor map is generic. The coordinates are 32-bit
    integers, innermost first."""
    if not isinstance(operand, TensorAddress):
        raise FormMismatch(f"{operand} is no part of a tensor: [map, {{coordinates}}]")
    base = operand.map.base
    assert base is not None
    if base.name not in scope.registers and scope.spaces.get(base.name) != "global":
        raise FormMismatch(f"{base} is no generic address of a tensor's map; a parameter's is what cvta.param gives")
    check_address(operand.map, scope, ins, "global")
    items = operand.coordinates.items
    if len(items) != dimensions:
        raise FormMismatch(f"{operand.coordinates} are not {dimensions} coordinates")
    for item in items:
        if not isinstance(item, Integer) and not is_register(item, scope):
            raise FormMismatch(f"the coordinate {item} is neither a register nor an integer")
        check_source(item, "i32", OperandSlot("i32"), scope)


def check_offsets(operand: Operand, count: int, scope: RegisterScope) -> None:
    """Checks the im2col offsets from the base pixel to the pixel to read. There is one unsigned 16-bit offset for each
    spatial axis."""
    if not isinstance(operand, Vector) or len(operand.items) != count:
        raise FormMismatch(f"{operand} is no vector of {count} offsets, one for each spatial axis")
    for item in operand.items:
        if isinstance(item, Integer):
            check_constant(item, "0..65535")
        check_source(item, "u16", OperandSlot("u16"), scope)


def access_size(ins: PtxInstruction) -> int:
    lanes = next((int(word[1:]) for word in ins.opcode if word in {"v2", "v4", "v8"}), 1)
    return lanes * BYTES.get(ins.opcode[-1], 1)


STATE_SPACES = {"global", "shared", "local", "const", "param"}


def check_constant(operand: Operand, limits: str) -> None:
    if not isinstance(operand, Integer):
        raise FormMismatch(f"{operand} is not an integer constant")
    if ".." in limits:
        low, high = map(int, limits.split(".."))
        if not low <= operand.value <= high:
            raise FormMismatch(f"the constant {operand} is not in {low} to {high}")
    elif limits and operand.value not in map(int, limits.split(",")):
        *others, last = limits.split(",")
        raise FormMismatch(f"the constant {operand} is not {', '.join(others) + ' or ' if others else ''}{last}")
