"""Compiles and runs one program, compares it with numpy, and makes a failing one smaller."""

from __future__ import annotations

import random
import re
import time
import traceback
from collections import Counter
from typing import Any

import numpy as np

from tests.random_kernels.kernels import kernel_of
from tests.random_kernels.processes import Outcome
from tests.random_kernels.tree import Program

BUDGET = 20_000_000
"""Thread instructions: more than six times what the largest of 20,000 programs takes (between 2 and 3 million: products
in fp8 on three blocks), so that one that never ends is found soon."""


def compiled(program: Program, device: str, arch: str, arrays: dict[str, np.ndarray]) -> Any:
    import dsl

    dims: dict[str, int] = {}
    align: dict[str, int] = {}
    for p in program.parameters:
        if p.kind == "tensor" and p.value is not None:
            dims |= {d: e for d, e in zip(p.dims, p.value.shape, strict=True) if not d.isdigit()}
            pointer = arrays[p.name].__array_interface__["data"][0]
            align[p.name] = min(16, pointer & -pointer)
    absent = frozenset(p.name for p in program.parameters if p.kind == "tensor" and p.value is None)
    module = dsl.parse(program.text(), device=device)
    return module.compile("k", "s", arch=arch, align=align, absent=absent, options={"check": True}, **dims)


def launched(program: Program, device: str, ptxas: bool = False) -> dict[str, np.ndarray]:
    """Compiles and runs on `device` ("emulator", "cuda"): what its arrays hold then. The only place that asks where."""
    from dsl import runtime

    arrays = program.arrays()
    arch = program.arch
    if device != "emulator":
        own = runtime.device_facts(device).arch.rstrip("a")
        if number(arch) > number(own) or (arch.endswith("a") and number(arch) != number(own)):
            arch = own
    kernel = compiled(program, device, arch, arrays)
    if ptxas:
        runtime.assemble(kernel.ptx, arch)
    values: list[Any] = [arrays.get(p.name) if p.kind == "tensor" else p.value for p in program.parameters]
    kernel.run(*values, **({"budget": BUDGET} if device == "emulator" else {}))
    return arrays


def with_narrow_copies(program: Program, device: str, ptxas: bool) -> dict[str, np.ndarray]:
    """Runs it; without `require async` where a copy is narrow."""
    from dsl.lowering.ir.location import TileError

    try:
        return launched(program, device, ptxas)
    except TileError as error:
        if error.code != "instruction" or "require async" not in program.schedule:
            raise
        program.schedule.remove("require async")
        return launched(program, device, ptxas)


def number(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("a"))


def differences(program: Program, found: dict[str, np.ndarray]) -> str:
    """The first array that is not what numpy says."""
    for name, wanted in program.expected().items():
        got = found[name]
        if wanted.dtype.kind not in "iub":
            got, wanted = got.astype(np.float64), wanted.astype(np.float64)
        differ = got != wanted
        if differ.any():
            at = tuple(int(i[0]) for i in np.nonzero(differ))
            return f"{name}{list(at)} is {got[at]}, not {wanted[at]}; {int(differ.sum())} of {differ.size} differ"
    return ""


def tried(program: Program, device: str = "emulator", ptxas: bool = False) -> Outcome:
    """What becomes of a program."""
    from dsl.lowering.ir.location import Errors, TileError
    from dsl.runtime.errors import DeviceAssertError, DeviceError, FindingError, LaunchError

    def outcome(kind: str, message: str = "", code: str = "") -> Outcome:
        return Outcome(program.seed, kind, code, message, features=program.features)

    try:
        program.expected()
    except Exception:
        return outcome("generator", traceback.format_exc()[-1500:])
    try:
        found = with_narrow_copies(program, device, ptxas)
    except (TileError, Errors) as error:
        first = error.errors[0] if isinstance(error, Errors) else error
        if first.loc is None:
            return outcome("traceback", f"no place: {error}")
        return outcome("refused", str(error), first.code)
    except (FindingError, DeviceAssertError) as error:
        return outcome("finding", str(error))
    except LaunchError as error:
        if "a multiple of its clusters'" in str(error):
            return outcome("refused", str(error), error.code)
        return outcome("ptxas" if error.code == "ptx" else "traceback", str(error))
    except DeviceError as error:
        return outcome("device", f"{error.code}: {error}", error.code)
    except Exception:
        return outcome("traceback", traceback.format_exc()[-3000:])
    wrong = differences(program, found)
    return outcome("mismatch", wrong) if wrong else outcome("right")


def same_kind(a: Outcome, b: Outcome) -> bool:
    if a.kind != b.kind or a.code != b.code:
        return False
    if a.kind == "traceback":
        return a.message.strip().splitlines()[-1][:40] == b.message.strip().splitlines()[-1][:40]
    return a.kind != "finding" or a.message.split()[:3] == b.message.split()[:3]


def shrunk(program: Program, failure: Outcome, device: str, ptxas: bool = False, seconds: float = 15) -> Program:
    """Without the statements and schedule lines that the failure does not need; the program is changed in place."""
    again, end = True, time.monotonic() + seconds
    while again and time.monotonic() < end:
        again = False
        for body in [*program.bodies(), program.schedule]:
            for i in range(len(body) - 1, -1, -1):
                if time.monotonic() > end or i >= len(body):
                    continue
                taken, before = body.pop(i), [*program.schedule]
                if same_kind(failure, tried(program, device, ptxas)):
                    again = True
                else:
                    program.schedule[:] = before  # trying took out pins of what was left out, which comes back
                    body.insert(i, taken)  # type: ignore[arg-type]
    text = program.text()
    program.functions = [f for f in program.functions if text.count(f.split("(")[0].split()[1]) > 1]
    words = Counter(re.findall(r"\w+", program.text()))
    named = {d for p in program.parameters for d in p.dims if not d.isdigit() and words[d] > 1}
    program.parameters = [p for p in program.parameters if words[p.name] > 1 or named & {*p.dims}]
    return program


def choose(program: Program, share: float = 0.25) -> list[str]:
    """Adds lines that force other options of a share of the choices; one that another one leaves nothing to choose is
    taken out again. What they are."""
    from dsl.lowering.ir.choices import choose_line, drawn
    from dsl.lowering.ir.location import Errors, TileError

    try:
        made = compiled(program, "emulator", program.arch, program.arrays()).compiled.variant.function.choices.keyed()
    except (TileError, Errors):
        return []
    lines = [choose_line(*pair) for pair in drawn(made, random.Random(program.seed), share).items()]
    program.schedule += lines
    while lines:
        try:
            compiled(program, "emulator", program.arch, program.arrays())
            return lines
        except (TileError, Errors) as error:
            if not isinstance(error, TileError) or error.code != "choice" or error.loc is None:
                return lines
            # Without a pass, a line that the program itself has may name no choice any more.
            gone = error.loc.source.line(error.loc.line).strip()
            lines = [line for line in lines if line != gone]
            program.schedule.remove(gone)
    return lines


def attempt(
    seed: int, device: str = "emulator", ptxas: bool = False, shrink: bool = True, choices: bool = False
) -> Outcome:
    """Draws the program of a seed and tries it; a failing one comes with its text and a smaller one. `choices`: with
    other options of a quarter of its choices, which must not be refused."""
    try:
        program = kernel_of(seed)
    except Exception:
        return Outcome(seed, "generator", message=traceback.format_exc()[-2000:])
    forced = choose(program) if choices else []
    result = tried(program, device, ptxas)
    if forced and result.kind == "refused":
        result.kind = "refused choice"
    for line in forced:
        result.features[line.partition(".")[0]] += 1
    if result.kind != "right":
        result.text = f"# {program.arch}\n" + program.text()
        if shrink and result.kind not in ("refused", "device"):
            result.smaller = shrunk(program, result, device, ptxas).text()
    return result
