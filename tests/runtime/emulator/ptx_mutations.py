"""Changes PTX at the grain of instructions and asks ptxas and the emulator whether they take it.

    python tests/runtime/emulator/ptx_mutations.py --count 5000 --seed 0

tells what ptxas refuses and the emulator reads, what ends in a traceback and what takes longer than 5 s; the rest is
counted.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from dsl.runtime.emulator import EmulatorError, Memory, PtxError, emulate, extension
from dsl.runtime.emulator.findings import LaunchRefusedError
from dsl.runtime.emulator.launch import program_of
from dsl.runtime.emulator.legal import all_forms, choices_of, runs_on
from dsl.runtime.emulator.legal.check import table
from dsl.runtime.emulator.legal.forms import LegalForm, OperandSlot, vector_size
from dsl.runtime.tools import find

HERE = Path(__file__).parent
LONGEST = 5.0  # seconds of one run
BUDGET = 40_000  # thread instructions

STATEMENT = re.compile(r"(?m)^[ \t]*(?P<guard>@!?[%$\w]+[ \t]+)?(?P<name>[a-z]\w*(?:\.[\w:]+)*)(?P<rest>[^;:\n]*);")
WAITS = re.compile(r"mbarrier\.(?:test|try)_wait|(?:ld|atom)\.\S*(?:volatile|relaxed|acquire|acq_rel)|atom\.")
DIRECTIVE = re.compile(
    r"(?m)^[ \t]*(?:\.(?:reg|shared|local|const|global|extern|visible|param|version|target|address_size|"
    r"maxntid|reqntid|minnctapersm|maxnreg|pragma|weak|func)\b[^\n]*|\$?[\w$]+:)$"
)
CONSTANTS = ["0", "1", "-1", "3", "17", "32", "255", "256", "4096", "65536", "0x80000000", "0xffffffff", "4294967296"]
CONSTANTS += ["0f00000000", "0f3f800000", "0d3ff0000000000000", "1.5", "0x7fffffffffffffff"]
TYPES = [
    "pred",
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "u8",
    "u16",
    "u32",
    "u64",
    "s8",
    "s16",
    "s32",
    "s64",
    "f16",
    "bf16",
    "f16x2",
    "bf16x2",
    "f32",
    "f64",
    "u16x2",
    "s16x2",
    "tf32",
]
TARGETS = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]

# What ptxas refuses and the emulator reads, by a text in ptxas' message, and why that is right.
EXCEPTIONS: dict[str, str] = {
    r"Unresolved label .* function_name": "debug information names places that nothing depends on",
    r"Duplicate definition of label '\$L__info": "labels of debug sections are not read",
    r"Barrier number .* out of range": "found when a thread comes there, as a barrier that a register names is",
    r"threads participating in barrier must be": "found when a thread comes there, as a count in a register is",
}


@cache
def words() -> list[str]:
    """Every modifier that a form has."""
    found: set[str] = set()
    for forms in table().forms.values():
        for form in forms:
            found |= set(re.findall(r"[\w:]+", form.pattern))
    return sorted(found)


def split_operands(text: str) -> list[str]:
    """Operands at the commas outside of brackets."""
    found, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and not depth:
            found.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*found, last] if last or found else []


class Mutator:
    """Makes one change of a text."""

    def __init__(self, text: str, rng: random.Random):
        self.text, self.rng = text, rng
        self.statements = [match for match in STATEMENT.finditer(text) if match["name"] not in {"version", "target"}]
        self.directives = list(DIRECTIVE.finditer(text))
        self.operands = sorted({each for match in self.statements for each in split_operands(match["rest"])})
        self.registers = re.findall(r"\.reg\s*\.\w+\s+(%\w+)<", text)
        self.questions = [*self.branches_behind_waits()]

    def replaced(self, start: int, end: int, by: str) -> str:
        return self.text[:start] + by + self.text[end:]

    def branches_behind_waits(self) -> Iterator[re.Match[str]]:
        """Those that ask what a wait or a strong read says, mostly."""
        for at, match in enumerate(self.statements):
            if WAITS.match(match["name"]):
                for behind in self.statements[at + 1 : at + 8]:
                    if behind["name"].split(".")[0] == "bra":
                        yield behind
                        break

    def change_question(self, match: re.Match[str]) -> str:
        """The branch is taken away, turned around or taken by all: who has waited no longer depends on the answer."""
        guard = match["guard"] or ""
        turned = guard.replace("@!", "@") if "!" in guard else guard.replace("@", "@!")
        new = self.rng.choice(["", f"{turned}{match['name']}{match['rest']};", f"{match['name']}{match['rest']};"])
        return self.replaced(match.start(), match.end(), f"\t{new}")

    def changed(self) -> str:
        if self.questions and self.rng.random() < 0.2:
            return self.change_question(self.rng.choice(self.questions))
        if self.directives and self.rng.random() < 0.15:
            return self.change_directive(self.rng.choice(self.directives))
        return self.change_statement(self.rng.choice(self.statements))

    def change_statement(self, match: re.Match[str]) -> str:
        rng = self.rng
        guard, name, rest = match["guard"] or "", match["name"], match["rest"]
        parts, operands = name.split("."), split_operands(rest)
        kind = rng.randrange(20)
        if kind == 0:
            return self.replaced(match.start(), match.end(), "")
        if kind == 1:
            return self.replaced(match.end(), match.end(), "\n" + match.group())
        if kind == 2:
            parts[0] = rng.choice(sorted(table().forms))
        elif kind == 3:
            guard = rng.choice(["", "@%p1 ", "@!%p1 ", "@%r1 ", "@%p999 "])
        elif kind <= 10:
            self.change_words(parts, kind)
        else:
            self.change_operands(operands, kind)
        made = f"\t{guard}{'.'.join(parts)} {', '.join(operands)};"
        return self.replaced(match.start(), match.end(), made)

    def change_words(self, parts: list[str], kind: int) -> None:
        rng = self.rng
        at = rng.randrange(1, len(parts)) if len(parts) > 1 else 0
        if kind == 4 and at:
            del parts[at]
        elif kind == 5 and at:
            parts.insert(at, parts[at])
        elif kind == 6 and len(parts) > 2:
            other = rng.randrange(1, len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif kind == 7:
            parts.insert(rng.randrange(1, len(parts) + 1), rng.choice(words()))
        elif kind == 8 and at:
            parts[at] = rng.choice(words())
        elif at:
            parts[-1 if rng.random() < 0.7 else at] = rng.choice(TYPES)

    def change_operands(self, operands: list[str], kind: int) -> None:
        rng = self.rng
        if not operands:
            operands.append(rng.choice(self.operands))
            return
        at = rng.randrange(len(operands))
        if kind == 11:
            del operands[at]
        elif kind == 12:
            operands.insert(at, operands[at])
        elif kind == 13:
            other = rng.randrange(len(operands))
            operands[at], operands[other] = operands[other], operands[at]
        elif kind == 14:
            operands[at] = rng.choice(self.operands)
        elif kind == 15:
            operands[at] = rng.choice(CONSTANTS)
        elif kind == 16 and self.registers:
            operands[at] = re.sub(r"%\w+", rng.choice(self.registers) + "1", operands[at], count=1)
        elif kind == 17:
            operands[at] = rng.choice(["!{}", "-{}", "[{}]", "{{{}}}", "_", "{}|%p1", "{}+4", "[{}+3]"]).format(
                operands[at]
            )
        elif kind == 18 and "[" in operands[at]:
            operands[at] = operands[at].replace("]", rng.choice(["+4]", "+1]", "+-4]", "+4096]", "-4]", "]]", ""]))
        else:
            operands[at] = re.sub(r"\d+", lambda found: rng.choice([found[0], *CONSTANTS[:13]]), operands[at], count=1)

    def change_directive(self, match: re.Match[str]) -> str:
        rng = self.rng
        line = match.group()
        kind = rng.randrange(7)
        if kind == 0:
            line = ""
        elif kind == 1:
            line = f"{line}\n{line}"
        elif kind == 2:
            line = re.sub(r"\.[bsuf]\d+\b|\.pred\b", lambda found: "." + rng.choice(TYPES), line, count=1)
        elif kind == 3:
            line = re.sub(r"\d+(?=[\]>,;]|$)", lambda found: rng.choice(CONSTANTS), line, count=1)
        elif kind == 4:
            line = re.sub(r"\.align \d+", lambda found: ".align " + rng.choice(["0", "1", "3", "4", "16", "256"]), line)
        elif kind == 5:
            line = re.sub(r"sm_\w+", lambda found: rng.choice(TARGETS), line)
            line = re.sub(
                r"version \S+", lambda found: "version " + rng.choice(["5.0", "6.5", "7.0", "8.0", "9.0"]), line
            )
        else:
            line = re.sub(
                r"\.(shared|local|global|const|param|reg)\b",
                lambda found: "." + rng.choice(["shared", "local", "global", "const", "param", "reg"]),
                line,
                count=1,
            )
        return self.replaced(match.start(), match.end(), line)


REGISTERS = {
    **{"pred": "%p", "b16": "%h", "f16": "%h", "bf16": "%h", "u16": "%uh", "s16": "%sh", "b32": "%r", "u32": "%u"},
    **{"s32": "%s", "f16x2": "%r", "bf16x2": "%r", "u16x2": "%r", "s16x2": "%r", "f32": "%f", "b64": "%rd"},
    **{"u64": "%ud", "s64": "%sd", "f64": "%fd", "b8": "%b", "u8": "%ub", "s8": "%sb"},
    **{"i32": "%r", "i64": "%rd", "tf32": "%r", "e4m3x2": "%h", "e5m2x2": "%h"},
}
SPECIAL_SLOTS = {"!": "!%p3", "_": "_", "label": "END", "table": "TABLE", "size": "%u3", "byte": "5"}
SPECIAL_SLOTS |= {"special": "%tid", "barrier": "1", "threads": "64", "arrivals": "64"}
SPECIAL_SLOTS |= {"parity": "1", "fraction": "0f3f000000", "count": "%u3", "bulk": "%u3", "mask": "%uh5"}


def written_slot(slot: OperandSlot, words: dict[str, str], number: int, space: str) -> str:
    """A legal operand."""
    kind = words.get(slot.type, slot.type) if slot.type.isupper() else slot.type
    if kind == "@tensor":
        return f"[%rd30, {{{', '.join(['%r1', '%s2', '%u3', '5', '%r4'][: int(words[slot.count][0])])}}}]"
    if kind == "offsets":
        return "{" + ", ".join(["%h1", "%uh2", "5"][: int(words[slot.count][0]) - 2]) + "}"
    if kind[0] == "@":
        return "[%r30]" if (kind[1:] or space) == "shared" else "[%rd30]"
    if kind in SPECIAL_SLOTS:
        return SPECIAL_SLOTS[kind]
    if kind[0] == "#":
        return kind[1:].split("..")[0] if ".." in kind else kind[1:].split(",")[-1] or "16"
    if "<" in slot.mark:
        part = {"b16": "%b", "b32": "%h", "b64": "%r"}[kind]
        return f"{{{part}1, {part}2}}"
    count = words.get(slot.count) if slot.count.isupper() else slot.count
    if slot.count and count:
        return "{" + ", ".join(f"{REGISTERS[kind]}{index}" for index in range(vector_size(count, kind))) + "}"
    if slot.is_target and "^" in slot.mark:
        return f"{REGISTERS[kind]}{number + 1}.h1"
    return f"{REGISTERS[kind]}{number + 1}" + ("|%p4" if slot.second else "")


FENCE = "wgmma.fence.sync.aligned;\n\t"
WAITED = "\n\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;"


def written(form: LegalForm, name: str, words: dict[str, str]) -> str:
    """One legal instruction of a form."""
    slots = [slot for slot in form.slots if not slot.when or words.get(slot.when)]
    parts = name.split(".")
    space = next((word.split("::")[0] for word in parts if word.split("::")[0] in {"shared", "global"}), "")
    line = f"{name} {', '.join(written_slot(slot, words, index, space) for index, slot in enumerate(slots))};"
    return f"{FENCE}{line}{WAITED}" if parts[0] == "wgmma" and "mma_async" in parts else line


def is_small(word: str) -> bool:
    """Whether a part of an opcode asks for few registers, as all lines of a function together must."""
    shape = re.search(r"m64n(\d+)", word)
    return shape is None or int(shape[1]) <= 64


def legal_lines(target: str, rng: random.Random, most: int) -> list[str]:
    """So many random instructions of each form that a target has. No assembler knows those that plug-ins have added in
    this process, as in an earlier test."""
    found: dict[str, None] = {}
    added = [form for _, form in extension._told.values()]
    for form in [form for form in all_forms() if form not in added]:
        for _ in range(most if runs_on(form.target, target) else 0):
            name = "".join(rng.choice([*filter(is_small, each)]) for each in choices_of(form.pattern))
            match = form.regex.fullmatch(name)
            assert match is not None, name
            words = {key: value or "" for key, value in match.groupdict().items()}
            wide = words.get("V") == "v4" and words["T"][1:] == "64" and form.target != "sm_100"
            newer = target == "sm_80" and ("cluster" in name or re.search(r"mbarrier.*relaxed", name))
            if not wide and not newer and "param" not in name:
                found[written(form, name, words)] = None
    return list(found)


GENERATED = """.version 9.0
.target {target}
.address_size 64
.visible .entry kernel(.param .u64 x, .param .u64 y)
{{
\t.reg .pred %p<16>;
\t.reg .b16 %h<16>;
\t.reg .b32 %r<80>;
\t.reg .b64 %rd<32>;
\t.reg .f32 %f<144>;
\t.reg .f64 %fd<16>;
{registers}
\t.shared .align 16 .b8 buffer[1024];
\tTABLE: .branchtargets END;
\tld.param.u64 %rd30, [x];
\tmov.u32 %r30, buffer;
{body}
END:
\tret;
}}
"""


def generated(target: str, lines: list[str]) -> str:
    """A kernel of these lines."""
    registers = "\n".join(f"\t.reg .{kind} {REGISTERS[kind]}<{144 if kind == 's32' else 16}>;" for kind in
                          ("b8", "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"))  # fmt: skip
    return GENERATED.format(target=target, registers=registers, body="\n".join(f"\t{line}" for line in lines))


@cache
def corpus() -> dict[str, str]:
    """What nvcc made of CUDA kernels, and kernels of one instruction of each form of the table."""
    found = {path.stem: path.read_text() for path in sorted((HERE / "foreign").glob("*.ptx"))}
    rng = random.Random(1)
    for target in ("sm_80", "sm_90"):
        lines = legal_lines(target, rng, 1)
        rng.shuffle(lines)
        for start in range(0, len(lines), 25):
            found[f"forms {target} {start // 25}"] = generated(target, lines[start : start + 25])
    return found


def samples() -> dict[str, str]:
    """Our own samples, compiled."""
    found = {}
    for path in sorted((HERE.parents[2] / "samples").glob("*.tile")):
        for arch in ("sm_80", "sm_90"):
            command = [sys.executable, "-m", "dsl", "compile", str(path), "--arch", arch]
            text = subprocess.run(command, capture_output=True, text=True).stdout
            for number, module in enumerate(re.split(r"(?m)^(?=\.version)", text)[1:]):
                found[f"{path.stem} {arch} {number}"] = module
    return found


@dataclass
class Verdict:
    """What came of one text: "runs", "refused", "traceback" or "slow" with a message."""

    outcome: str
    message: str = ""
    seconds: float = 0.0


def target_of(text: str) -> str:
    found = re.search(r"(?m)^\s*\.target\s+(sm_\w+)", text)
    return found[1] if found else "sm_90"


MOST_MEMORY = 1 << 29
HARMFUL = re.compile(r"\bcp\.(?:reduce\.)?async\.bulk\.tensor\b[^;]*%p\d")


def is_harmful(text: str) -> bool:
    """Whether ptxas is not asked: where a copy of a part of a tensor has a predicate in the place of an address, ptxas
    13.0 takes the memory of the whole machine, or ends with a signal."""
    return HARMFUL.search(text) is not None


def limited(command: list[str]) -> list[str]:
    """A shell limits the memory of a program: what Python runs in a child before the program makes it copy its tables
    of pages, for which a large process takes longer (0.04 s) than ptxas for the text."""
    return ["sh", "-c", f'ulimit -v {MOST_MEMORY >> 10} && exec "$@"', "sh", *command]


def assembled(text: str, arch: str | None = None) -> tuple[bool, str]:
    """Does ptxas take it?  With what it says."""
    if is_harmful(text):
        return True, "ptxas is not asked, so that anything is right"
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        arch = arch or target_of(text)
        arch = "sm_75" if arch in {"sm_50", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72"} else arch
        command = [str(find("ptxas")), "-O0", f"-arch={arch}", file.name, "-o", "/dev/null"]
        try:
            done = subprocess.run(limited(command), capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:  # it has no verdict, so that anything is right
            return True, "ptxas takes longer than 20 s"
        if done.returncode < 0:
            return True, "ptxas itself fails, so that anything is right"
        return done.returncode == 0, (done.stderr + done.stdout).replace(file.name, "text")


def emulated(text: str) -> Verdict:
    """Reads every entry, and runs it on one block with zeros."""
    start = time.monotonic()
    refused = ""
    try:
        entries = re.findall(r"\.entry\s+([\w$]+)", text)
        for entry in entries:
            try:
                run_entry(text, entry)
            except EmulatorError:
                pass
            except PtxError as error:
                refused = refused or str(error)
        if not entries:
            refused = "no entry"
    except Exception:  # the point of this check
        return Verdict("traceback", traceback.format_exc(limit=-4), time.monotonic() - start)
    seconds = time.monotonic() - start
    if seconds > LONGEST:
        return Verdict("slow", refused, seconds)
    return Verdict("refused" if refused else "runs", refused, seconds)


def run_entry(text: str, entry: str) -> None:
    """One block of as many threads as the entry asks for; pointers lead to 16 KiB."""
    program = program_of(text, entry)
    memory = Memory()
    arguments: list[object] = []
    for param in program.function.params:
        if param.type in {"b64", "u64", "s64"} and param.size == 8:
            arguments.append(memory.allocate(np.zeros(4096, np.uint32)))
        elif param.size > 1 << 16:
            raise PtxError("a parameter of this size is not run here")
        else:
            arguments.append(bytes([1] + [0] * (param.size - 1)) if param.size else b"")
    block = program.function.required_block or program.function.most_threads or 64
    arch = program.module.target or "sm_90"
    with suppress(LaunchRefusedError):  # the launch does not fit its kernel: more threads than a block has, say
        emulate(
            text, entry, program.function.required_cluster or 1, block, arguments,
            shared_bytes=4096, arch=arch, on_finding="collect", budget=BUDGET,
        )  # fmt: skip


def compare(text: str) -> tuple[str, str]:
    """("", …) where all is well, or what is wrong with the message; the first says how it went otherwise."""
    legal, log = assembled(text)
    verdict = emulated(text)
    if verdict.outcome in {"traceback", "slow"}:
        return verdict.outcome, f"{verdict.seconds:.1f} s {verdict.message}"
    if not legal and verdict.outcome == "runs" and not any(re.search(known, log) for known in EXCEPTIONS):
        return "accepted", log
    if legal and verdict.outcome == "refused":
        return "not supported", verdict.message
    return "agree, legal" if legal else "agree, illegal", ""


WRONG = {"traceback", "accepted"}
"""What a test refuses; that a text is slow is told to whoever runs this by hand."""


def mutated(number: int, seed: int, texts: dict[str, str]) -> tuple[str, str]:
    """(name, text) of one changed text; the same for the same number and seed."""
    rng = random.Random(seed * 1_000_003 + number)
    names = sorted(texts)
    weights = [1 / (2000 + len(texts[name])) for name in names]
    name = rng.choices(names, weights)[0]
    text = texts[name]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        text = Mutator(text, rng).changed()
    return name, text


def changed_lines(before: str, after: str) -> str:
    old = set(before.splitlines())
    return " / ".join(line.strip() for line in after.splitlines() if line not in old)[:300]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unsupported", action="store_true", help="tell what ptxas takes and the emulator does not")
    parser.add_argument("--samples", action="store_true", help="change our own compiled samples, too")
    options = parser.parse_args()
    texts = dict(corpus())
    if options.samples:
        texts |= samples()
    counts: Counter[str] = Counter()
    for number in range(options.start, options.start + options.count):
        name, text = mutated(number, options.seed, texts)
        outcome, message = compare(text)
        counts[outcome] += 1
        if outcome in WRONG | {"slow"} or (options.unsupported and outcome == "not supported"):
            print(f"{number} {name} {outcome}: {changed_lines(texts[name], text)}\n    {message.strip()[:600]}")
    print(dict(counts))
    if any(counts[outcome] for outcome in WRONG):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
