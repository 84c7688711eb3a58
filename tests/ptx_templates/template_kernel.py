"""A kernel, written by hand, that executes rows on given registers: what tests of the rows' meanings run.

A block of one warp, any number of them side by side. The registers of all operands stand in slots of 32 lanes times
8 bytes: `inputs` in the order of the rows and their operands, `outputs` likewise. A register of an address holds an
offset into one of two images of memory, of global memory, which stands in an argument, and of shared memory, which the
kernel fills first and stores back in the end.
"""

from collections.abc import Callable, Sequence
from itertools import count

from dsl.ptx_templates import Instruction, Operand
from dsl.runtime.emulator.mbarriers import DENIALS
from dsl.runtime.header import Argument, Header, HeaderTensor, SourceRecord, write

LANES = 32
SLOT = LANES * 8
ADDRESSES = ("address", "source", "destination", "barrier")
# Immediate operands: barrier 0, all threads, no group left unfinished.
IMMEDIATES = {"barrier": 0, "threads": LANES, "n": 0}

ARGUMENTS = ("inputs", "outputs", "global_image", "shared_image")
_PREFIX = {"pred": "%p", "b16": "%h", "b32": "%r", "b64": "%l", "f32": "%f", "f64": "%d"}
# What an instruction needs before or after it to be a whole: other threads' part, or the end of what it began.
_AFTER = {
    "bar.arrive": "bar.sync 1;",
    "barrier.arrive": "barrier.sync 1;",
    "barrier.cluster.arrive": "barrier.cluster.wait;",
    "cp.async": "cp.async.wait_all;",
}
_BEFORE = {"barrier.cluster.wait": "barrier.cluster.arrive;"}
# What may say "no" of a phase that is over (PTX ISA 9.7.13.15.16) is asked until it says "yes", so often at most: more
# often than the emulator denies it.
_WAITS = ("mbarrier.test_wait", "mbarrier.try_wait")
_TRIES = DENIALS + 8


def written(operand: Operand) -> bool:
    return operand.role != "in"


def given(operand: Operand) -> bool:
    """Whether the operand takes slots of `inputs`."""
    return operand.role != "out" and operand.type != "immediate"


def slots(rows: Sequence[Instruction], wanted: Callable[[Operand], bool]) -> int:
    return sum(operand.registers for row in rows for operand in row.operands if wanted(operand))


def header(rows: Sequence[Instruction], target: str, image: int, warps: int) -> Header:
    """The header of `kernel`: four arrays of bytes, none of them empty."""
    sizes = [warps * size for size in (slots(rows, given) * SLOT, slots(rows, written) * SLOT, image, image)]
    return Header(
        entry="rows",
        kernel="rows",
        schedule=None,
        source=SourceRecord("rows.tile", "0" * 64),
        arch=target,
        constants={},
        threads=LANES,
        cluster=1,
        shared_bytes=image,
        maxnreg=None,
        dims=(),
        params=tuple(
            HeaderTensor(name, "u8", (max(size, 1),), strided=False, access="rw", align=16)
            for name, size in zip(ARGUMENTS, sizes, strict=True)
        ),
        arguments=tuple(Argument("pointer", name) for name in ARGUMENTS),
        grid=(warps, 1, 1),
        index_bits=32,
        requires=(),
    )


def kernel(rows: Sequence[Instruction], target: str, ptx: tuple[int, int], image: int, warps: int = 1) -> str:
    """PTX text with the entry `rows(inputs, outputs, global_image, shared_image)`; images are of `image` bytes.

    Each of the warps, a block each, has its own part of the four arrays, one behind the other.
    """
    body: list[str] = []
    numbers = {prefix: count(16) for prefix in _PREFIX.values()}
    input_slot, output_slot, waits = count(), count(), count()

    def register(kind: str) -> str:
        return _PREFIX[kind] + str(next(numbers[_PREFIX[kind]]))

    def load(operand: Operand) -> str:
        place = f"[%l10+{next(input_slot) * SLOT}]"
        name = register(operand.type)
        if operand.type == "pred":
            body.append(f"ld.global.b32 %r8, {place}; setp.ne.b32 {name}, %r8, 0;")
        else:
            body.append(f"ld.global.{operand.type} {name}, {place};")
        if operand.name in ADDRESSES:
            body.append(f"add.s64 {name}, {name}, %l12;" if operand.type == "b64" else f"add.s32 {name}, {name}, %r9;")
        return name

    def store(operand: Operand, name: str) -> None:
        place = f"[%l11+{next(output_slot) * SLOT}]"
        if operand.type == "pred":
            body.append(f"selp.b32 %r8, 1, 0, {name}; st.global.b32 {place}, %r8;")
        else:
            body.append(f"st.global.{operand.type} {place}, {name};")

    for row in rows:
        asm = row.asm
        results = []
        for operand in row.operands:
            if operand.type == "immediate":
                asm = asm.replace(f"{{{operand.name}}}", str(IMMEDIATES[operand.name]))
                continue
            names = [load(operand) if given(operand) else register(operand.type) for _ in range(operand.registers)]
            asm = asm.replace(f"{{{operand.name}}}", names[0] if operand.count is None else f"{{{', '.join(names)}}}")
            if written(operand):
                results += [(operand, name) for name in names]
        body += [text for name, text in _BEFORE.items() if row.name.startswith(name)]
        if row.name.startswith(_WAITS):
            again, ((_, is_over),) = f"$again_{next(waits)}", results
            asm = f"""mov.u32 %r5, 0;
{again}: {asm}
add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, {_TRIES}; not.pred %p1, {is_over}; and.pred %p0, %p0, %p1;
@%p0 bra {again};"""
        body.append(asm)
        body += [text for name, text in _AFTER.items() if row.name.removeprefix("@").startswith(name)]
        for operand, name in results:
            store(operand, name)

    declarations = [f".reg .{kind} {prefix}<{next(numbers[prefix])}>;" for kind, prefix in _PREFIX.items()]
    words = range(0, image, 4 * LANES)
    fill = [f"ld.global.b32 %r8, [%l13+{i}]; st.shared.b32 [%r10+{i}], %r8;" for i in words]
    drain = [f"ld.shared.b32 %r8, [%r10+{i}]; st.global.b32 [%l13+{i}], %r8;" for i in words]
    lines = [
        *declarations,
        "ld.param.b64 %l10, [inputs]; ld.param.b64 %l11, [outputs];",
        "ld.param.b64 %l12, [global_image]; ld.param.b64 %l13, [shared_image];",
        f"mov.u32 %r6, %ctaid.x; mad.wide.u32 %l10, %r6, {slots(rows, given) * SLOT}, %l10;",
        f"mad.wide.u32 %l11, %r6, {slots(rows, written) * SLOT}, %l11;",
        f"mad.wide.u32 %l12, %r6, {image}, %l12; mad.wide.u32 %l13, %r6, {image}, %l13;",
        "mov.u32 %r7, %tid.x; mul.wide.u32 %l9, %r7, 8;",
        "add.s64 %l10, %l10, %l9; add.s64 %l11, %l11, %l9;",
        "mov.u32 %r9, tile; mul.wide.u32 %l9, %r7, 4;",
        "add.s64 %l13, %l13, %l9; mad.lo.u32 %r10, %r7, 4, %r9;",
        *fill,
        "bar.sync 0;",
        *body,
        "bar.sync 0;",
        *drain,
        "ret;",
    ]
    parameters = ", ".join(f".param .u64 {name}" for name in ARGUMENTS)
    text = "\n".join(lines)
    return write(header(rows, target, image, warps)) + (
        f".version {ptx[0]}.{ptx[1]}\n.target {target}\n.address_size 64\n"
        f".extern .shared .align 16 .b8 tile[];\n.visible .entry rows({parameters})\n{{\n{text}\n}}\n"
    )
