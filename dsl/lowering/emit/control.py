"""Emits loops, branches, `assert` and `print`."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import reduce

from dsl.lowering.emit.chains import emit_block
from dsl.lowering.emit.elementwise import convert
from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.shared_address import shared_memory
from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value, walk
from dsl.lowering.ir.types import F64, I1, S32, S64, U32, int_range
from dsl.lowering.known.facts import counts_elements, in_order
from dsl.lowering.known.forms import linear


def _phis(
    w: Writer, args: list[Value], entry: str, starts: list[list[str]], packed: list[bool] | None = None
) -> list[tuple[int, str, str]]:
    """Writes a loop's phis without the incoming value of the back edge, which `_close` adds. Returns (line, register,
    type) of each phi."""
    open_lines = []
    for i, (arg, start) in enumerate(zip(args, starts, strict=True)):
        in_words = packed is not None and packed[i]
        llvm = "i32" if in_words else w.llvm(arg.dtype)
        names = []
        for value in start:
            name = w.text.phi(f"{llvm} [ {value}, %{entry} ]")
            open_lines.append((len(w.text.lines) - 1, name, llvm))
            names.append(name)
        (w.words.held if in_words else w.registers)[arg] = names
    return open_lines


def _close(w: Writer, open_lines: list[tuple[int, str, str]], values: list[list[str]], label: str) -> None:
    flat = [v for registers in values for v in registers]
    for (line, _, _), value in zip(open_lines, flat, strict=True):
        close_phi(w, line, value, label)


def close_phi(w: Writer, line: int, value: str, label: str) -> None:
    """Adds an incoming value from another block to the phi in line `line`."""
    phi, mark, place = w.text.lines[line].partition(", !dbg")
    w.text.lines[line] = f"{phi}, [ {value}, %{label} ]{mark}{place}"


def _carried(w: Writer, values: list[Value], packed: list[bool] | None = None) -> list[list[str]]:
    """Returns the registers of each value. For values whose entry in `packed` is true, returns the 32-bit words that
    hold the packed elements."""
    if packed is None:
        return [w.registers[v] for v in values]
    return [w.words.of(v) if p else w.registers[v] for v, p in zip(values, packed, strict=True)]


@rule("for")
def _for(w: Writer, op: Op) -> None:
    packed = [v in w.words.held for v in op.operands[3:]]
    starts = _carried(w, op.operands[3:], packed)
    if has_no_iteration(w, op):
        for result, registers, in_words in zip(op.results, starts, packed, strict=True):
            (w.words.held if in_words else w.registers)[result] = registers
        return
    start, stop, step = (w.registers[v][0] for v in op.operands[:3])
    body = op.regions[0]
    counter = body.args[0]
    llvm = w.llvm(counter.dtype)
    entry, head, inside, done = w.text.label, *(w.fresh_label(s) for s in ("for", "body", "done"))
    down = (w.facts.of(op.operands[2]).high or 0) < 0
    if may_be_decided(w, op):
        start = unknown(w, start, llvm, 1 if down else -1)  # so that the loop may have an iteration
    w.do(f"br label %{head}")
    w.start(head)
    open_lines = _phis(w, [counter, *body.args[1:]], entry, [[start], *starts], [False, *packed])
    number = w.registers[counter][0]
    unsigned = counter.dtype.kind == "unsigned"
    test = ("ugt" if unsigned else "sgt") if down else ("ult" if unsigned else "slt")
    go_on = w.let(f"icmp {test} {llvm} {number}, {stop}")
    w.do(f"br i1 {go_on}, label %{inside}, label %{done}")
    # The loop exits at its head, so its results are the values there. Their registers are read before the body is
    # emitted, because the body may rebind the registers of its arguments.
    at_head = _carried(w, body.args[1:], packed)
    w.start(inside)
    w.loops += 1
    with w.head.stretches_of(body) if any(inner.spec.control.counters for inner in body.ops) else nullcontext():
        emit_block(w, body)
    w.loops -= 1
    w.at(op)
    following = w.let(f"add {llvm} {number}, {step}")
    if passes_the_last(w, op, down):
        # The addition may wrap around. If at most one step remains before the stop, no iteration follows, so the
        # counter is set to the stop.
        left = w.let(f"sub {llvm} {f'{number}, {stop}' if down else f'{stop}, {number}'}")
        size = w.let(f"sub {llvm} 0, {step}") if down else step
        following = w.let(f"select i1 {w.let(f'icmp ule {llvm} {left}, {size}')}, {llvm} {stop}, {llvm} {following}")
    values = [[following], *_carried(w, body.ops[-1].operands, packed)]
    _close(w, open_lines, values, w.text.label)
    w.do(f"br label %{head}, !llvm.loop !{_rolled(w)}")
    w.start(done)
    w.head.after_loop(op)
    for result, registers, in_words in zip(op.results, at_head, packed, strict=True):
        (w.words.held if in_words else w.registers)[result] = registers


def has_no_iteration(w: Writer, loop: Op) -> bool:
    """Whether the compiler knows that a `for` has no iteration. Such a loop is not emitted."""
    start, stop, step = loop.operands[:3]
    pace = w.facts.of(step)
    if pace.high is not None and pace.high < 0:
        start, stop = stop, start
    elif pace.low is None or pace.low < 1:
        return False
    return start is stop or in_order(stop, start, w.facts)


def may_be_decided(w: Writer, op: Op) -> bool:
    """Whether ptxas may find that the wgmma products in a loop or branch never execute. For a loop, the answer depends
    on its bounds.

    The check works around a bug of ptxas 12.9 to 13.1. If several accumulators start with equal values and their
    products never execute, ptxas keeps only one accumulator. Vector stores then write the registers of the other
    accumulators, which no instruction has set. On an H100, 41,082 of 49,152 zeros were wrong. ptxas cannot evaluate a
    bound that depends on a run-time size or on loaded data, unless these cancel out. For example, ptxas finds that
    `block(0) * 2 // 2 - block(0)` is 0.
    """
    if not w.has_warpgroups or not any(each.spec.wgmma for region in op.regions for each in walk(region)):
        return False
    if not op.spec.control.counters:
        return True
    start, stop = op.operands[:2]
    if (first := w.facts.of(start).high) is not None and (last := w.facts.of(stop).low) is not None and first < last:
        return False  # the loop has at least one iteration
    (more, _), (less, _) = linear(stop), linear(start)
    apart = {value: more.get(value, 0) - less.get(value, 0) for value in {*more, *less}}
    counted = [(value, _roots(value)) for value, factor in apart.items() if factor]
    in_all = Counter(root for _, roots in counted for root in roots)
    return not any(_is_open(w, value) and any(in_all[root] == 1 for root in roots) for value, roots in counted)


MOST_ROOTS = 500  # maximum number of steps of the search: ptxas is assumed to know a longer bound


def _roots(value: Value) -> list[object]:
    """Lists the inputs of a number, such as parameters and loaded values, each as often as it occurs. If the search
    takes too many steps, the list is empty."""
    found: list[object] = []
    work = [value]
    for _ in range(MOST_ROOTS):
        if not work:
            return found
        each = work.pop()
        op, (terms, _) = each.op, linear(each)
        if terms != {each: 1}:
            work += terms
        elif op is None or op.spec.access.kind == "read":
            found.append(each)
        elif not op.operands:
            # two `block_id` operations for the same axis count as the same input
            found.append((op.name, *sorted(op.attrs.items(), key=str)))
        else:
            work += op.operands
    return []


OPEN = {"minimum", "maximum", "select", "floordiv", "mul", "cast"}
"""Operations whose results, like their operands, may be unknown until run time."""


def _is_open(w: Writer, value: Value) -> bool:
    """Whether the number is known only at run time, so that ptxas cannot evaluate a comparison with it."""
    op, (terms, _) = value.op, linear(value)
    if terms != {value: 1}:
        return any(_is_open(w, each) for each in terms)
    if op is None:
        return value in w.function.dims.values() or any(value is p.value for p in w.function.params)
    if op.spec.access.kind == "read" or op.name in ("block_id", "grid_size"):
        return True
    others = [v for v in op.operands if constant_of(v) is None and v.dtype is not I1]
    return op.name in OPEN and bool(others) and all(_is_open(w, v) for v in others)


def unknown(w: Writer, register: str, llvm: str, may_be: int = 1) -> str:
    """Returns a new register with the value of `register`, which ptxas cannot evaluate. The emitted code adds the
    highest bit of a shared memory address, which is 0. As far as ptxas knows, the result may also be greater by
    `may_be`, which is 1 or -1."""
    zero = w.head.once(f"{'lshr' if may_be == 1 else 'ashr'} i32 {shared_memory(w)}, 31")
    same = zero if llvm == "i32" else w.let(f"{'sext' if llvm == 'i64' else 'trunc'} i32 {zero} to {llvm}")
    return w.let(f"add {llvm} {register}, {same}")


def passes_the_last(w: Writer, loop: Op, down: bool) -> bool:
    """Whether the counter of a `for` may overflow when the step is added after the last iteration."""
    if loop.attrs.get("exact"):
        return False
    start, stop, step = loop.operands[:3]
    dtype, known = stop.dtype, [constant_of(v) for v in (start, stop, step)]
    least, most = int_range(dtype)
    if dtype.kind == "index" and w.function.index_bits == 64:
        least, most = int_range(S64)
    if None not in known:
        turns = range(*map(int, known))  # type: ignore[arg-type]
        return bool(turns) and not least <= turns[-1] + turns.step <= most
    end, size = w.facts.of(stop), w.facts.of(step)
    last, pace = (end.low, size.low) if down else (end.high, size.high)
    if dtype.kind == "index" and (last is None or pace is None):
        return not (counts_elements(stop) and counts_elements(step))
    if pace is None:
        return True
    if down:
        return (least if last is None else max(last, least)) + 1 + pace < least
    return (most if last is None else min(last, most)) - 1 + pace > most


def _rolled(w: Writer) -> int:
    """Returns metadata that keeps LLVM from unrolling a loop. A pass of this compiler unrolls the loops for which the
    schedule contains `unroll`."""
    inner = w.text.debug.add('!{!"llvm.loop.unroll.disable"}')
    number = w.text.debug.count
    return w.text.debug.add(f"distinct !{{!{number}, !{inner}}}")


@rule("while")
def _while(w: Writer, op: Op) -> None:
    test, body = op.regions
    entry, head, inside, done = w.text.label, *(w.fresh_label(s) for s in ("while", "body", "done"))
    starts = _carried(w, op.operands)
    w.do(f"br label %{head}")
    w.start(head)
    open_lines = _phis(w, test.args, entry, starts)
    emit_block(w, test)
    end = test.ops[-1]
    w.at(op)
    passed, conditions = _carried(w, end.operands[1:]), w.registers[end.operands[0]]
    w.do(f"br i1 {_joined(w, 'or', conditions)}, label %{inside}, label %{done}")
    w.start(inside)
    for arg, registers in zip(body.args, passed, strict=True):
        w.registers[arg] = registers
    w.loops += 1
    emit_block(w, body)
    w.loops -= 1
    w.at(op)
    following = _carried(w, body.ops[-1].operands)
    # An element whose condition is false keeps its values, so its condition stays false.
    if len(conditions) > 1:
        types, kept = [w.llvm(arg.dtype) for arg in test.args], _carried(w, test.args)
        following = [_chosen(w, conditions, *each) for each in zip(types, following, kept, strict=True)]
    _close(w, open_lines, following, w.text.label)
    w.do(f"br label %{head}, !llvm.loop !{_rolled(w)}")
    w.start(done)
    for result, registers in zip(op.results, passed, strict=True):
        w.registers[result] = registers
    if end.operands[0].tile.shape and w.loops:
        meet(w)


@rule("if")
def _if(w: Writer, op: Op) -> None:
    if len(w.registers[op.operands[0]]) > 1:
        _if_of_elements(w, op)
        return
    condition = w.registers[op.operands[0]][0]
    if may_be_decided(w, op):
        condition = unknown(w, condition, "i1")
    then, otherwise = op.regions
    labels = [w.fresh_label("then"), w.fresh_label("else")]
    done = w.fresh_label("endif")
    w.do(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
    ends: list[tuple[str, list[list[str]]]] = []
    packed: list[bool] | None = None
    for label, block in zip(labels, (then, otherwise), strict=True):
        w.start(label)
        emit_block(w, block)
        w.at(op)
        values = block.ops[-1].operands
        packed = [v in w.words.held for v in values] if packed is None else packed  # both sides must agree
        carried = _carried(w, values, packed)
        w.do(f"br label %{done}")
        ends.append((w.text.label, carried))
    w.start(done)
    (label_a, a), (label_b, b) = ends
    assert packed is not None
    for result, x, y, in_words in zip(op.results, a, b, packed, strict=True):
        llvm = "i32" if in_words else w.llvm(result.dtype)
        (w.words.held if in_words else w.registers)[result] = [
            p if p == q else w.text.phi(f"{llvm} [ {p}, %{label_a} ], [ {q}, %{label_b} ]")
            for p, q in zip(x, y, strict=True)
        ]
    if op.operands[0].tile.shape and w.loops:
        meet(w)


def meet(w: Writer) -> None:
    """Makes threads reconverge after a divergent branch or loop. Emits an empty convergent asm, which LLVM may not move
    into the branch. Without the asm, a thread may jump alone to the start of an enclosing loop and reach a barrier
    there."""
    w.do('call void asm sideeffect "", ""() #1')


def _if_of_elements(w: Writer, op: Op) -> None:
    """Emits a branch whose condition has several elements per thread. The branch has no effects. A thread executes a
    side of the branch for all of its elements if at least one element needs that side. A `select` then chooses the
    result of each element."""
    conditions = w.registers[op.operands[0]]
    some, every = (_joined(w, by, conditions) for by in ("or", "and"))
    sides = []
    for block, needed in ((op.regions[0], some), (op.regions[1], w.let(f"xor i1 {every}, true"))):
        if len(block.ops) == 1:
            sides.append(_carried(w, block.ops[-1].operands))
            continue
        entry, inside, done = w.text.label, w.fresh_label("some"), w.fresh_label("endsome")
        w.do(f"br i1 {needed}, label %{inside}, label %{done}")
        w.start(inside)
        emit_block(w, block)
        w.at(op)
        values, end = _carried(w, block.ops[-1].operands), w.text.label
        w.do(f"br label %{done}")
        w.start(done)
        types = [w.llvm(r.dtype) for r in op.results]
        sides.append(
            [
                [w.text.phi(f"{t} [ {v}, %{end} ], [ poison, %{entry} ]") for v in registers]
                for t, registers in zip(types, values, strict=True)
            ]
        )
    for result, x, y in zip(op.results, *sides, strict=True):
        w.registers[result] = _chosen(w, conditions, w.llvm(result.dtype), x, y)


def _joined(w: Writer, by: str, flags: list[str]) -> str:
    return reduce(lambda a, b: w.let(f"{by} i1 {a}, {b}"), flags)


def _chosen(w: Writer, conditions: list[str], llvm: str, then: list[str], otherwise: list[str]) -> list[str]:
    each = zip(conditions, then, otherwise, strict=True)
    return [w.let(f"select i1 {c}, {llvm} {p}, {llvm} {q}") for c, p, q in each]


@rule("join_parts")
def _join_parts(w: Writer, op: Op) -> None:
    """Emits nothing: without the pass `split`, a loop has no parts."""


@rule("assert")
def _assert(w: Writer, op: Op) -> None:
    """Emits an assert. The first thread whose condition is false claims the error record in global memory. That thread
    writes its source line, block and thread number there. All threads continue.

    To claim the record, a thread stores 1, or 2 + axis for an index out of range along that axis
    (`dsl/runtime/record.py`).
    """
    holds = _joined(w, "and", w.registers[op.operands[0]])
    fail, claim, done = (w.fresh_label(s) for s in ("fails", "record", "holds"))
    w.do(f"br i1 {holds}, label %{done}, label %{fail}")
    w.start(fail)
    flag = 2 + op.attrs["axis"] if "axis" in op.attrs else 1
    # Monotonic order is sufficient, because the host reads the record after the launch.
    taken = w.let(f"cmpxchg ptr addrspace(1) %record, i32 0, i32 {flag} monotonic monotonic")
    first = w.let(f"extractvalue {{i32, i1}} {taken}, 1")
    w.do(f"br i1 {first}, label %{claim}, label %{done}")
    w.start(claim)
    narrow = [w.head.narrow_special(f"ctaid.{axis}") for axis in "xyz"]
    for i, value in enumerate([str(op.attrs["line"]), *narrow, w.head.thread()], 1):
        place = w.let(f"getelementptr i32, ptr addrspace(1) %record, i32 {i}")
        w.do(f"store i32 {value}, ptr addrspace(1) {place}")
    w.do(f"br label %{done}")
    w.start(done)


_FORMATS = {"signed": "%d", "unsigned": "%u", "float": "%g", "bool": "%d", "index": "%lld"}


@rule("print")
def _print(w: Writer, op: Op) -> None:
    """Emits a print. Each thread prints its elements. If several threads hold the same element, one of them prints it.
    Thread 0 prints scalars."""
    # The arguments of `vprintf` are promoted as in C: f32 to f64, and small integers to 32 bits. Each argument is
    # aligned to its size.
    formats, promoted = [], []
    for o in op.operands:
        wide = F64 if o.dtype.is_float else o.dtype if o.dtype.bits == 64 else S64 if o.dtype.kind == "index" else None
        if wide is None:
            wide = S32 if o.dtype.is_signed or o.dtype is I1 else U32
        formats.append({"s64": "%lld", "u64": "%llu"}.get(wide.name, _FORMATS[o.dtype.kind]))
        promoted.append(wide)
    # a `%` in the user's text is printed as it is
    text = op.attrs["format"].replace("%", "%%")
    for f in formats:
        text = text.replace("{}", f, 1)
    raw = (text + "\n").encode()
    body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in raw)
    label = f"@dsl_text{len(w.globals)}"
    w.globals.append(f'{label} = internal addrspace(1) constant [{len(raw) + 1} x i8] c"{body}\\00"')
    w.calls.declare("vprintf", "i32", "ptr, ptr")
    layout = op.operands[0].tile.layout if op.operands else None
    count = count_of(op.operands[0]) if op.operands else 1
    offsets, total = [], 0
    for p in promoted:
        total = -(-total // p.bytes) * p.bytes
        offsets.append(total)
        total += p.bytes
    chosen = w.head.chosen(layout)
    speak, done = w.fresh_label("print"), w.fresh_label("printed")
    if chosen is not None:
        w.do(f"br i1 {chosen}, label %{speak}, label %{done}")
    else:
        w.do(f"br label %{speak}")
    w.start(speak)
    buffer = w.head.buffer(max(total, 8)) if op.operands else "null"
    pointer = w.let(f"addrspacecast ptr addrspace(1) {label} to ptr")
    for i in range(count):
        for o, p, at in zip(op.operands, promoted, offsets, strict=True):
            value = convert(w, w.registers[o][i], o.dtype, p)
            place = w.let(f"getelementptr i8, ptr {buffer}, i32 {at}")
            w.do(f"store {p.llvm} {value}, ptr {place}")
        w.let(f"call i32 @vprintf(ptr {pointer}, ptr {buffer})")
    w.do(f"br label %{done}")
    w.start(done)


@rule("yield", "condition")
def _end(w: Writer, op: Op) -> None:
    raise AssertionError("the operation around a region emits its end")
