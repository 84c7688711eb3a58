"""What the assembler makes of each row of mma.sync: one tensor instruction, or several with conversions around them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from dsl.ptx_templates import Instruction, family
from dsl.runtime.tools import assemble, sass

DOCUMENT = Path(__file__).parents[2] / "docs" / "machine_code.md"
TARGETS = ("sm_80", "sm_89", "sm_90")
MADE = """\
# What mma.sync is in machine code

The tensor instructions that ptxas makes of each row of `dsl/ptx_templates/mma_sync.toml`, for sm_80, sm_89
and sm_90, or the targets named. One instruction: the row is native. Several: ptxas emulates it with conversions and
additions, and cannot reach the peak of its type. A target that is not named does not have the row. `x8` is s8 or u8,
`x4` s4 or u4, `fp8` e4m3 or e5m2, in all combinations, with and without `.satfinite`.

`pytest tests/ptx_templates/test_template_machine_code.py --update-golden` writes this page.

"""


def entry(name: str, row: Instruction) -> str:
    """A kernel that loads the row's inputs, executes it and stores its results."""
    lines = [f".visible .entry {name}(.param .u64 arguments)", "{", ".reg .b64 %p, %o; .reg .b32 %t;"]
    places = {}
    for operand in row.operands:
        names = [f"%{operand.name}{i}" for i in range(operand.registers)]
        lines.append(f".reg .{operand.type} {', '.join(names)};")
        places[operand.name] = "{" + ", ".join(names) + "}"
    lines += ["ld.param.u64 %p, [arguments]; mov.u32 %t, %tid.x;", "mad.wide.u32 %p, %t, 512, %p;"]
    for role, code in (("in", "ld.global.{0} {1}, [%p+{2}];"), ("out", "st.global.{0} [%p+{2}], {1};")):
        if role == "out":
            lines.append(row.asm.format(**places))
        used = [o for o in row.operands if o.role == role]
        names = [(o.type, f"%{o.name}{i}") for o in used for i in range(o.registers)]
        lines += [code.format(kind, name, 8 * i) for i, (kind, name) in enumerate(names)]
    return "\n".join([*lines, "ret;", "}"])


def machine_code(target: str) -> dict[str, Counter[str]]:
    """For each row that the target has, how many there are of each tensor instruction."""
    rows = [row for row in family("mma_sync").values() if row.available(target)]
    version = max(row.ptx for row in rows)
    text = f".version {max(version, (8, 0))[0]}.{version[1]}\n.target {target}\n.address_size 64\n"
    text += "\n".join(entry(f"k{i}", row) for i, row in enumerate(rows))
    found = {}
    for section in re.split(r"^\s*\.section\s+\.text\.", sass(assemble(text, target, "k0", None).cubin), flags=re.M)[
        1:
    ]:
        row = rows[int(re.match(r"k(\d+)", section)[1])]
        found[row.name] = Counter(re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@\S+\s+)?(\w*MMA\.\S+)", section, re.M))
    assert found.keys() == {row.name for row in rows}
    return found


def is_native(instructions: Counter[str]) -> bool:
    return sum(instructions.values()) == 1


def said(instructions: Counter[str]) -> str:
    """`IMMA.16832.S8.S8`, or `2 x HMMA.16816.F32`."""
    return ", ".join(one if number == 1 else f"{number} x {one}" for one, number in sorted(instructions.items()))


KINDS = [(r"\b[su]8\b", "x8"), (r"\b[su]4\b", "x4"), (r"\be[45]m[23]\b", "fp8"), (r"\.satfinite", ""), (r"\.SAT\b", "")]
KINDS += [(pattern.upper().replace(r"\B", r"\b"), kind.upper()) for pattern, kind in KINDS[:3]]


def of_kind(text: str) -> str:
    """A row's or an instruction's name for all types of its width."""
    for pattern, kind in KINDS:
        text = re.sub(pattern, kind, text)
    return text


def table(found: dict[str, dict[str, Counter[str]]]) -> str:
    """A row for each kind, with what all its rows are on each target; several lines where they differ."""
    lines: dict[tuple[str, str], None] = {}
    for name in family("mma_sync"):
        made: dict[str, list[str]] = {}
        for target in TARGETS:
            if name in found[target]:
                made.setdefault(of_kind(said(found[target][name])), []).append(target)
        parts = [code if on == [*TARGETS] else f"{', '.join(on)}: {code}" for code, on in made.items()]
        lines[of_kind(name.removeprefix("mma.sync.")), "; ".join(parts)] = None
    rows = [("row", "machine code"), ("---", "---"), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
