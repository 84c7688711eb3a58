"""Tries a drawn kernel of Hopper: every pass verified, run on the strict emulator, compared with numpy; assembled."""

from __future__ import annotations

import traceback
from random import Random
from typing import Any

import numpy as np
from msgspec.structs import replace

import dsl
from dsl.calls.api import Module
from dsl.kernels.compile import compile_variant, lower
from dsl.kernels.variant import Request
from dsl.lowering.ir.choices import drawn as drawn_choices
from dsl.lowering.ir.location import TileError
from dsl.runtime import Kernel, LaunchError, assemble
from dsl.runtime.errors import DeviceError
from dsl.runtime.header import read
from tests.compile_and_run import few_blocks
from tests.random_directives.drawing import Drawn
from tests.random_directives.hopper_drawing import HopperKernels
from tests.random_directives.trying import Outcome

CLUSTERS = "a multiple of its clusters'"
"""What a launch refuses, beside empty tensors, which have no map: blocks that are no whole clusters, without boxes."""
FEW_ON_EMULATOR = ("registers on the emulator", "the kernel has more than 50000 instructions")
"""What the emulator refuses."""


def attempt_hopper(
    seed: int, choices: bool = False, assembled: bool = False, device: str = "emulator", kept: float = 1.0
) -> Outcome:
    """One random kernel for sm_90a. assembled: whether ptxas takes it, without a remark and without spills, too.
    device: that it runs on; "cuda" tries what the emulator says. kept: the share of the schedule's lines
    that stays; the compiler plans what the others said."""
    made, chance = HopperKernels(seed).drawn(), Random(seed + 4_000_037)
    made.lines = [line for line in made.lines if chance.random() < kept]
    named = tuple(dict.fromkeys(word_of(line) for line in made.lines))
    try:
        return Outcome(seed, *tried(made, seed, choices, assembled, device), made.whole, named)
    except TileError as error:
        told = all(each.loc is not None and each.hint for each in error.errors)
        return Outcome(seed, "refused" if told else "error", str(error), made.whole, named)
    except LaunchError as error:
        empty = any(not array.size for array in made.args.values())
        known = CLUSTERS in error.message or (empty and "a tensor map takes" in error.message)
        return Outcome(seed, "refused" if known else "error", str(error), made.whole, named)
    except DeviceError as error:
        known = any(each in error.message for each in FEW_ON_EMULATOR)
        return Outcome(seed, "refused" if known else "error", str(error), made.whole, named)
    except Exception:
        return Outcome(seed, "error", traceback.format_exc(), made.whole, named)


def word_of(line: str) -> str:
    """A directive as it is counted: `stage tma` of `stage a, b: tma`."""
    word, value = line.split()[0], line.split()[-1]
    return f"{word} {value}" if word in ("stage", "instruction") else word


def tried(made: Drawn, seed: int, choices: bool, assembled: bool, device: str) -> tuple[str, str]:
    module = dsl.parse(made.whole, device="emulator", arch=made.arch)
    request = request_of(module, made.args)
    forced = other_options(module, request, seed) if choices else {}
    request = replace(request, choices=forced)
    ptx = compile_variant(module.program, request, check=True).ptx
    Kernel(few_blocks(ptx, made.sms) if device == "emulator" else ptx, device=device)(*made.args.values())
    for name, wanted in made.wanted.items():
        wrong = np.argwhere(made.args[name].astype(np.float64) != wanted.astype(np.float64))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            told = f"{name}{list(at)} is {made.args[name][at]}, not {wanted[at]}; {len(wrong)} of {wanted.size}"
            return "wrong", f"{told} {forced or ''}"
    if any((each.astype(np.float64) != 77).any() for each in made.beside):
        return "wrong", f"what lies beside a view was changed {forced or ''}"
    few = any(line.startswith(("maxnreg", "blocks_per_sm")) for line in made.lines)
    return remarks(ptx, few, forced) if assembled else ("right", "")


def remarks(ptx: str, few: bool, forced: dict[str, str]) -> tuple[str, str]:
    """What ptxas says of a right kernel of warp groups. few: whether its schedule leaves it few registers."""
    code = assemble(ptx, read(ptx)["k"].arch)
    if few or "wgmma.mma_async" not in ptx:
        return "right", ""
    told = [line for line in code.log.splitlines() if "(C75" in line or "(C76" in line]
    if code.spill_stores:
        told.append(f"{code.spill_stores} bytes spill with {code.registers} registers")
    return ("remarked", f"{'; '.join(told)} {forced or ''}") if told else ("right", "")


def request_of(module: Module, args: dict[str, Any]) -> Request:
    """The variant that a call with these arrays takes."""
    function = module.k
    (step,) = function.plan(function.facts(args)).steps
    return step.request


def other_options(module: Module, request: Request, seed: int) -> dict[str, str]:
    variant = lower(module.program, request).variant
    made = drawn_choices(variant.function.choices.keyed(), Random(seed), 0.2)
    # Most lines of a schedule need the pass that reads them.
    return made if seed % 8 == 0 else {key: option for key, option in made.items() if not key.startswith("pass.")}
