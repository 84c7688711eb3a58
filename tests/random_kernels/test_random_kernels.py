"""Some random kernels of every kind, and the machinery that runs many: `python -m tests.random_kernels --help`.

DSL_RANDOM_KERNELS=2000 tries that many, others each time; DSL_RANDOM_SEED the first seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import dsl
from dsl import runtime
from dsl.calls.api import Module
from tests.random_kernels import trying
from tests.random_kernels.__main__ import main
from tests.random_kernels.drawing import Drawing, Memory
from tests.random_kernels.kernels import kernel_of
from tests.random_kernels.meaning import NUMPY, State, converted, literal, shifted
from tests.random_kernels.memory import Part, updating
from tests.random_kernels.processes import Outcome
from tests.random_kernels.tree import If, Parameter, Plain, Program, Statement
from tests.random_kernels.trying import attempt, shrunk, tried
from tests.whole import is_whole

ASKED = int(os.environ.get("DSL_RANDOM_KERNELS", "0"))
SEED = int(os.environ.get("DSL_RANDOM_SEED", random.getrandbits(32) if ASKED else 0))
EACH = 20


@pytest.mark.parametrize("start", range(SEED, SEED + (ASKED or (40 if is_whole() else 20)), EACH))
def test_random_kernels_mean_what_numpy_says(start: int) -> None:
    found = [attempt(seed, ptxas=seed % 10 == 0) for seed in range(start, start + EACH)]
    for result in found:
        assert result.kind in ("right", "refused"), (
            f"seed {result.seed}: {result.kind}\n{result.message}\n{result.smaller}\n{result.text}"
        )


def test_a_seed_is_one_program() -> None:
    for seed in range(20):
        assert kernel_of(seed).text() == kernel_of(seed).text()
        a, b = kernel_of(seed), kernel_of(seed)
        assert all(np.array_equal(x, b.arrays()[name]) for name, x in a.arrays().items())


def test_every_construct_is_drawn() -> None:
    seen: Counter[str] = Counter()
    for seed in range(400):
        seen.update(kernel_of(seed).features)
    wanted = """
        branch; branch in a branch; branch of threads; branch of threads in a branch; branch of threads in threads;
        loop; loop of u8; loop of s64; loop of u64; loop of index; loop at the type's limit; while; static loop; unroll;
        loop whose start is beyond its end; bound anew; atomic add; atomic cas; atomic exchange; atomic order=release;
        atomic order=acq_rel; atomic of all blocks; ticket; last block adds up; shared tile; ring; pipeline; swizzle;
        layout; layout of copies; product; main loop of products; instruction; contiguous [2, 1]; contiguous [1, 4];
        operand by ldmatrix; operand by load turned; reduction sum; reduction argmax; scan cumsum; scan with a function;
        reduce with a function; shuffle xor; vote ballot; mask; gather; flat; table; strided tensor; misaligned tensor;
        optional tensor; index of 64 bits; specialize; maxnreg; blocks_per_sm; cluster; cache or eviction; conversion;
        transpose; stack; broadcast; where; fma; sm_80; sm_86; sm_89; sm_90; sm_90a; sm_100; sm_100a;
        sides of a branch that may meet; lock; handed on from block to block; rows that start anywhere; dim;
        product of a product; result through shared memory; loop over a dim; tuple; def; asm; assert;
        argument overtaken by a store: argument; argument overtaken by a store: by name;
        argument overtaken by a store: its own place; argument overtaken by a store: tuple;
        argument overtaken by a store: where; argument overtaken by a store: minimum; load shared;
        store shared; peel; tiles of a dim; two names at once; require async; like; tune; contract;
        gather along an axis; product of a batch; boxes of a table; boxes of a table: ahead; products of boxes;
        products of gathered rows; products of boxes: shared; products of boxes: tma; an entry of an entry;
        split memory; split stream; split cluster; loop of sums that blocks divide;
        pages of a loop that blocks divide; joined maps; joined tops; joined products; joined places;
        rows of a cluster; number of a row: sum; number of a row: argmax
    """
    missing = [name for name in " ".join(wanted.split()).split("; ") if not seen[name]]
    assert not missing


def test_a_wrong_meaning_is_found_and_made_smaller() -> None:
    """A statement that says one thing and means another, in the middle of a program."""
    program = Program(0, warps=1)
    program.parameters = [Parameter(f"y{i}", "s32", ("32",), np.zeros(32, np.int32)) for i in range(4)]

    def storing(i: int, is_true: bool = True) -> Statement:
        def act(state: State) -> None:
            state.arrays[f"y{i}"][:] = i * is_true

        return Plain([f"store(y{i}[0 : 32], full(s32[32], {i}))"], act)

    lie = storing(3, is_true=False)
    always = literal(1, "s32")
    program.body = [storing(1), If([(Drawing(0).compared(always, always, "=="), [storing(2), lie])]), storing(0)]
    result = tried(program)
    assert result.kind == "mismatch" and "y3[0] is 3, not 0; 32 of 32 differ" in result.message
    smaller = shrunk(program, result, "emulator")
    assert [p.name for p in smaller.parameters] == ["y3"]
    assert smaller.text().count("store") == 1 and [s.bodies for s in smaller.body] == [([lie],)]


def test_a_smaller_program_keeps_the_pins_that_its_failure_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the value a pin's line leaves the schedule; where the value comes back, so does its line."""
    program = Program(0)
    program.body, program.schedule = [Plain(["t = x"], lambda s: None)], ["layout t: here"]

    def needs_both(program: Program, device: str, ptxas: bool) -> Outcome:
        fails = bool(program.body) and bool(program.schedule)
        if not program.body:
            program.schedule.clear()
        return Outcome(0, "mismatch" if fails else "right")

    monkeypatch.setattr(trying, "tried", needs_both)
    shrunk(program, Outcome(0, "mismatch"), "emulator")
    assert len(program.body) == 1 and program.schedule == ["layout t: here"]


def test_the_command_sums_up(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    main(["--programs", "2", "--processes", "1", "--output", str(out)])
    assert "2 programs, " in capsys.readouterr().out and '"features"' in out.read_text()


def test_the_meaning_of_shifts_conversions_and_masked_atomics() -> None:
    """By hand, so that the generator's own arithmetic is held to something."""
    assert shifted(np.int8(-128), np.int8(7), "s8", left=False) == -1
    assert shifted(np.uint8(255), np.uint8(9), "u8", left=True) == 0
    assert converted(np.float32(-3.7), "f32", "u8") == 0 and converted(np.float32(300), "f32", "s8") == 127
    assert converted(np.int32(-1), "s32", "u16") == 65535 and converted(np.int32(-1), "s32", "u16", True) == 0
    memory = Memory("m", "s32", (4,))
    part = Part("", (4,), lambda s: ((np.arange(4),), np.True_))
    state = State({"m": np.arange(4, dtype=NUMPY["s32"])})
    updating(memory, part, literal(5, "s32"), None, lambda s: np.arange(4) < 2, "exchange", "old")(state)
    assert list(state.arrays["m"]) == [5, 5, 2, 3] and list(state.names["old"]) == [0, 1, 0, 0]


def test_the_path_to_a_gpu_differs_in_the_device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the emulator in place of the device: targets that it does not load become its own, results are compared."""
    facts = runtime.device_facts("emulator", "sm_90")
    asked, parse, compile = [], dsl.parse, Module.compile

    def compiled(module: Module, *arguments: Any, **named: Any) -> Any:
        asked.append(named["arch"])
        return compile(module, *arguments, **named)

    monkeypatch.setattr(runtime, "device_facts", lambda device: facts)
    monkeypatch.setattr(dsl, "parse", lambda text, device: parse(text, device="emulator"))
    monkeypatch.setattr(Module, "compile", compiled)
    for arch, own in (("sm_80", "sm_80"), ("sm_90a", "sm_90a"), ("sm_100a", "sm_90"), ("sm_89", "sm_89")):
        program = Program(0, arch=arch, warps=1)
        array = np.zeros(32, np.int32)
        program.parameters.append(Parameter("y", "s32", ("32",), array))

        def act(state: State) -> None:
            state.arrays["y"][:] = np.arange(32)

        program.body.append(Plain(["store(y[0 : 32], arange(32))"], act))
        assert tried(program, "cuda").kind == "right" and asked.pop() == own


@pytest.mark.parametrize("seed", [99841001, 601343])
def test_programs_that_failed_once(seed: int) -> None:
    """99841001: the barriers inside a loop were all superfluous, and a barrier before it was to replace them. 601343:
    blocks of a cluster were to join rows by a function that has the numbers of all rows."""
    assert attempt(seed).kind == "right"
