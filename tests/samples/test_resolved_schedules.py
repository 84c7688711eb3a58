"""What all schedules of the samples come to, against a digest each: a schedule that is written anew says the same.

Dims of several kinds, the first and the last types, optional tensors there and absent, each value of each `tune` set by
itself. `--update-golden` writes `resolved_schedules.txt` anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dsl.lowering.ir.targets import target
from dsl.lowering.ir.types import DTYPES
from dsl.schedules import ScheduleRequest, resolve_schedule, target_facts, tensor_names
from dsl.text import tree as ast
from dsl.text.program import Program, dim_names, load

SAMPLES = Path(__file__).parents[2] / "samples"
GOLDEN = Path(__file__).with_name("resolved_schedules.txt")
SHAPES = [(512,), (1000,), (8192, 8192, 320), (3, 5000, 264)]


def requests(
    program: Program, kernel: ast.KernelDef
) -> Iterator[tuple[dict[str, int], dict[str, Any], dict[str, Any]]]:
    """(dims, types, facts)."""
    parameters = {c.name: c.types for c in kernel.constants if c.types}
    names, optional = dim_names(kernel), [p.name for p in kernel.params if p.is_optional]
    for i, shape in enumerate(SHAPES):
        dims = {name: shape[at % len(shape)] for at, name in enumerate(names)}
        types = {name: DTYPES[choices[-(i % 2)]] for name, choices in parameters.items()}
        for absent in ([], optional) if optional else ([],):
            facts = target_facts(target("sm_86" if i % 2 else "sm_90"))
            yield dims, types, {**facts, **tensor_names(kernel, absent, {})}


def resolved(program: Program, kernel: ast.KernelDef, schedule: str) -> Iterator[str]:
    """What it comes to at its points, a line each."""
    scalars = {p.name: 1 for p in kernel.params if isinstance(p.type, ast.ScalarType)}
    own = {c.name for c in kernel.constants}
    flags = [{}, *({name: True} for name in ("A_T", "B_T") if name in own)]
    for dims, types, facts in requests(program, kernel):
        for flag in flags:
            asked = ScheduleRequest(kernel, schedule, dims, types, facts, flag, scalars)
            said = resolve_schedule(program, asked)
            yield repr(sorted((name, values) for name, values in said.tune.items()))
            chosen = [{}, *({name: value} for name, values in said.tune.items() for value in values)]
            for each in chosen:
                at = resolve_schedule(program, replace(asked, overrides={**flag, **each}))
                constants = {n: getattr(v, "name", v) for n, v in at.constants.items() if n in own}
                pins = {name: pin.parts for name, pin in at.pins.items()}
                others = {n: getattr(v, "name", None) or getattr(v, "bits", None) for n, v in
                          (at.instructions | at.swizzles).items()}  # fmt: skip
                attrs = {n: sorted(v.items()) if n == "unroll" else sorted(v) if isinstance(v, dict) else v
                         for n, v in at.attrs.items()}  # fmt: skip
                special = [name for name, holds in at.specialize.items() if holds]
                parts = (constants, pins, others, attrs)
                yield repr((each, at.warps, *(sorted(part.items()) for part in parts), sorted(special)))


def test_schedules_come_to_what_they_came_to(update_golden: bool) -> None:
    lines = []
    for path in sorted(SAMPLES.rglob("*.tile")):
        program = load(path)
        for (kernel, name), schedule in program.schedules.items():
            if schedule.loc.source is program.source or schedule.loc.source.name.startswith("std/"):
                text = "\n".join(resolved(program, program.kernels[kernel], name))
                lines.append(f"{path.stem} {kernel} {name} {sha256(text.encode()).hexdigest()[:12]}")
    if update_golden:
        GOLDEN.write_text("\n".join(lines) + "\n")
    assert lines == GOLDEN.read_text().splitlines()
