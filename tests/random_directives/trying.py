"""Tries a drawn kernel: compiles it with every pass verified, runs it on the strict emulator, compares with numpy."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from random import Random

import numpy as np

from dsl.kernels.compile import lower
from dsl.kernels.variant import Request
from dsl.lowering.ir.choices import drawn as drawn_choices
from dsl.lowering.ir.location import TileError
from dsl.runtime.emulator.findings import PtxError
from dsl.text.program import parse_program
from tests.compile_and_run import compile_kernel, launch
from tests.random_directives.drawing import Drawing, Drawn

KNOWN = (
    "cannot be staged", "cannot be pipelined", "has no copies at the head", "bytes of shared memory",
    "is pipelined", "no loop of kernel", "to stage", "persistent", "is no 16-bit float", "cannot be split",
    "stays in registers", "blocks cannot share",
    "cannot be done in parts", "which is no multiple of", "cannot go step by step", "is no pipeline", "is smaller than",
    "cannot be stored by TMA", "cannot be aligned", "outside of the loops whose loads", "by TMA may be in flight",
    "is no piece of shared memory", "cannot be loaded ahead", "registers of a thread; there are 255",
)  # fmt: skip


@dataclass
class Outcome:
    """kind: right, refused, wrong, error. directives: the properties that the schedule named."""

    seed: int
    kind: str
    message: str
    text: str
    directives: tuple[str, ...] = ()


def attempt(seed: int, choices: bool = False) -> Outcome:
    """One random kernel. With `choices`, other options of some of the compiler's choices, too."""
    made = Drawing(seed).drawn()
    named = tuple(line.split()[0] for line in made.lines)
    try:
        return Outcome(seed, *_tried(made, seed, choices), made.whole, named)
    except TileError as error:
        known = error.code == "shared" or any(each in error.message for each in KNOWN)
        return Outcome(seed, "refused" if known and error.loc is not None else "error", str(error), made.whole, named)
    except PtxError as error:
        known = "registers on the emulator" in str(error)
        return Outcome(seed, "refused" if known else "error", str(error), made.whole, named)
    except Exception:
        return Outcome(seed, "error", traceback.format_exc(), made.whole, named)


def _tried(made: Drawn, seed: int, choices: bool) -> tuple[str, str]:
    forced = _other_options(made, seed) if choices else {}
    kernel = compile_kernel(made.whole, made.args, choices=forced)
    launch(kernel, made.args)
    for name, wanted in made.wanted.items():
        got = made.args[name]
        wrong = np.argwhere(got.astype(np.int64) != wanted)
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            return (
                "wrong",
                f"{name}{list(at)} is {got[at]}, not {wanted[at]}; {len(wrong)} of {got.size} {forced or ''}",
            )
    return "right", ""


def _other_options(made: Drawn, seed: int) -> dict[str, str]:
    program = parse_program(made.whole)
    dims = {}
    for p in program.kernels["k"].params:
        named = getattr(p.type, "dims", ())
        shape = made.args[p.name].shape
        dims |= {d.id: e for d, e in zip(named, shape, strict=False) if hasattr(d, "id")}
    variant = lower(program, Request("k", "s", dims)).variant
    return drawn_choices(variant.function.choices.keyed(), Random(seed), 0.2)
