"""Puts other operands into legal instructions, one at a time, and asks ptxas and the emulator whether they take them.

    python tests/runtime/emulator/ptx_operands.py --target sm_90 --seed 0

goes through all forms of the table, each with modifiers at random, and tells what ptxas refuses and the emulator reads.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile

from ptx_mutations import EXCEPTIONS, generated, is_harmful, legal_lines, limited, split_operands

from dsl.runtime.emulator import PtxError
from dsl.runtime.emulator.legal import check_module
from dsl.runtime.emulator.reader import read_module
from dsl.runtime.tools import find

KINDS = ("h", "uh", "sh", "r", "u", "s", "f", "rd", "ud", "sd", "fd", "b", "ub", "p")
OTHERS = [*(f"%{kind}9" for kind in KINDS), "half9", "halves9", "5", "-1", "0", "1.5", "0f3f800000"]
OTHERS += ["0d3ff0000000000000", "_", "{%r8, %r9}", "[%rd9]", "buffer", "%tid.x", "%clock64"]
MORE = "\t.reg .f16 half9;\n\t.reg .f16x2 halves9;\n"
ERROR = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")


def changed(line: str, rng: random.Random) -> list[str]:
    """The instruction with each of its operands, or one register of a vector, replaced by each of the others."""
    name, _, rest = line.rstrip(";").partition(" ")
    operands = split_operands(rest)
    found = []
    for index, operand in enumerate(operands):
        for other in OTHERS:
            if other == "_" and index:  # a syntax error, at which ptxas stops
                continue
            new = other
            if operand[0] == "{" and other[0] not in "{[":
                items = operand[1:-1].split(", ")
                items[rng.randrange(len(items))] = other
                new = "{" + ", ".join(items) + "}"
            found.append(f"{name} {', '.join([*operands[:index], new, *operands[index + 1 :]])};")
    return [each for each in dict.fromkeys(found) if not is_harmful(each)]


def text_of(target: str, lines: list[str]) -> tuple[str, int]:
    """A kernel of these lines, and the number of the first."""
    text = generated(target, ["FIRST", *lines]).replace("\tTABLE:", MORE + "\tTABLE:")
    head, rest = text.split("\tFIRST\n")
    return head + rest, head.count("\n") + 1


def refused(target: str, lines: list[str]) -> dict[str, str]:
    """What ptxas refuses, with its message. It stops at some errors, so that the rest is asked again."""
    found: dict[str, str] = {}
    left = list(lines)
    while left:
        text, first = text_of(target, left)
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(text)
            file.flush()
            command = [str(find("ptxas")), "-O0", f"-arch={target}", file.name, "-o", "/dev/null"]
            done = subprocess.run(limited(command), capture_output=True, text=True)
        if done.returncode == 0:
            break
        errors = {int(number) - first: message for number, message in ERROR.findall(done.stderr)}
        new = {left[at]: message for at, message in errors.items() if 0 <= at < len(left)}
        if not new:  # an error without a line, or of ptxas itself: each line is asked alone
            if len(left) > 1:
                for line in left:
                    found |= refused(target, [line])
            break
        found |= new
        left = [line for line in left if line not in new]
    return found


def read(target: str, line: str) -> bool:
    """Does the emulator read it?"""
    try:
        check_module(read_module(text_of(target, [line])[0]))
    except PtxError:
        return False
    return True


def accepted(target: str, line: str, rng: random.Random) -> list[str]:
    """The changes of an instruction that ptxas refuses and the emulator reads."""
    return [
        f"{each}  {message}"
        for each, message in refused(target, changed(line, rng)).items()
        if read(target, each) and not any(re.search(known, message) for known in EXCEPTIONS)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    lines = legal_lines(options.target, rng, 1)
    wrong = [each for line in lines for each in accepted(options.target, line, rng)]
    print(*wrong, f"{len(lines)} instructions, {len(wrong)} changes wrongly read", sep="\n")


if __name__ == "__main__":
    main()
