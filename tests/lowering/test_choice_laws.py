"""The laws of choices (docs/choices.md): every option is right, keys are names, a log replays, what is logged can be
said, what is not logged does not exist, costs are the deciding code's own.

DSL_CHOICES=200 pastes that many overrides, draws that many assignments, and replays the logs of all sample variants.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace
from sample_variants import SAMPLES, Case, cases, program

from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import resolve
from dsl.examples.run import run_example
from dsl.kernels.compile import compile_variant, lower
from dsl.kernels.variant import Request
from dsl.lowering.emit import emit
from dsl.lowering.emit.codegen import llvm_level_for
from dsl.lowering.ir.choices import Asked, Choice, choose_line, drawn
from dsl.lowering.ir.location import TileError
from dsl.studies.schedule_text import schedule_text
from dsl.text.program import load, parse_program
from tests.whole import is_whole

MANY = int(os.environ.get("DSL_CHOICES", "0"))
SEED = random.getrandbits(32) if MANY else 7


def emitted(case: Case, request: Request, of: Path | None = None) -> tuple[str, dict[str, Choice]]:
    """The LLVM IR of a variant, with the level of its code generation, and its choices by key."""
    text = program(case.file) if of is None else load(of)
    variant = lower(text, request).variant
    function = variant.function
    llvm = emit(function, variant.target)[0] + f"level {llvm_level_for(function)}"
    function.choices.check_met()
    return llvm, function.choices.keyed()


@cache
def small() -> list[Case]:
    """One variant of each kernel and schedule, those that compile fast."""
    first: dict[tuple, Case] = {}
    for case in cases():
        first.setdefault((case.kernel, case.schedule), case)
    return [
        case
        for case in first.values()
        if case.kernel not in ("product", "matmul_ring")
        and "conv" not in case.kernel
        and case.schedule not in ("groups", "attend_groups")  # boxes are refused where a divisor is not relied on
    ]


LARGE = [
    next(case for case in cases() if (case.kernel, case.schedule) == wanted)
    for wanted in (("product", "mma_sync"), ("conv", "blocks"))
]


def forced(request: Request, choices: dict[str, str]) -> Request:
    return replace(request, constants={**request.constants, **choices})


# ---- 1: every option is right ----

EXAMPLES = [
    (file, example.name)
    for file in sorted(SAMPLES.glob("*.tile"))
    for example in load(file).examples[:1]
    if file.stem in ("softmax", "reduce", "transpose", "matmul", "int8_conv", "softmax_backward", "attention")
]


@pytest.mark.long
@pytest.mark.parametrize(("file", "name"), EXAMPLES, ids=[f"{file.stem}" for file, _ in EXAMPLES])
def test_random_options_give_the_same_results(file: Path, name: str | None) -> None:
    text = load(file)
    (example,) = [each for each in text.examples if each.name == name]
    source, iterations = random.Random(SEED), MANY // len(EXAMPLES) or 1
    for _ in range(iterations):
        probe = Asked({"level.llvm": "0"})
        overrides = resolve(text, example, [])
        run_example(text, example, "emulator", "", overrides, LaunchSettings(choose=probe))
        assert probe.made
        asked = Asked(drawn(probe.made, source, 0.25))
        report = run_example(text, example, "emulator", "", overrides, LaunchSettings(choose=asked))
        assert report.passed, (asked.options, report.checks)


def test_a_tune_set_never_has_an_option_that_may_be_wrong() -> None:
    text = """
kernel k(y: f32[256], x: f32[256]):
    grid 1
    shared s: f32[256]
    s[0 : 256] = load(x[0 : 256])
    store(y[0 : 256], s[255 - arange(256)])

schedule s of k:
    {line} choose barrier.s.load {sign} {options}
"""
    risky = parse_program(text.format(line="tune", sign="in", options="block, none"))
    for option in ("block", "none"):
        request = Request("k", "s", constants={"barrier.s.load": option})
        if option == "block":
            assert "bar.sync" in compile_variant(risky, request).ptx
        else:
            with pytest.raises(TileError, match=r"'none' of 'barrier\.s\.load' is right only if you know that it is"):
                compile_variant(risky, request)
    known = parse_program(text.format(line="", sign=":", options="none").replace("     choose", "    choose"))
    assert "bar.sync" not in compile_variant(known, Request("k", "s")).ptx


# ---- 2: keys are names ----


def test_keys_outlive_edits(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES, tmp_path / "samples")
    file = tmp_path / "samples" / "softmax.tile"
    case = next(each for each in small() if each.file == "softmax.tile" and of_the_file(each))
    request = case.build().request
    before = emitted(case, request, file)[1]
    file.write_text("# a line more\n" + file.read_text().replace("kernel ", "# another\n\nkernel "))
    after = emitted(case, request, file)[1]
    assert [*before] == [*after]
    assert not any(re.search(r"\d{2,}", key.partition(".")[0]) for key in before)


# ---- 3: a log replays ----


@pytest.mark.long
@pytest.mark.parametrize("case", list(dict.fromkeys(cases())) if MANY else small()[::4], ids=str)
def test_a_log_replays(case: Case) -> None:
    request = case.build().request
    llvm, made = emitted(case, request)
    again, replayed = emitted(case, forced(request, {key: choice.taken for key, choice in made.items()}))
    assert again == llvm
    assert {key: c.taken for key, c in replayed.items()} == {key: c.taken for key, c in made.items()}


def test_a_key_that_is_never_met_is_an_error() -> None:
    case = small()[0]
    request = case.build().request
    with pytest.raises(TileError, match=r"no choice has the key 'level\.llvn'") as error:
        emitted(case, forced(request, {"level.llvn": "1"}))
    assert error.value.hint == "did you mean 'level.llvm'?"
    with pytest.raises(TileError, match=r"'level\.llvm' has no option '7'"):
        emitted(case, forced(request, {"level.llvm": "7"}))


# ---- 4: what is logged can be said ----


def test_overrides_do_what_they_say(tmp_path: Path) -> None:
    """Lines of the log, pasted into the schedule, take the option, and give the code of the option forced."""
    source = random.Random(SEED)
    shutil.copytree(SAMPLES, tmp_path / "samples")
    pool = [case for case in small() if of_the_file(case)]
    for number in range(MANY or (24 if is_whole() else 12)):
        case = source.choice(pool)
        request = case.build().request
        _, made = emitted(case, request)
        free = {key: c for key, c in made.items() if len(c.options) > 1}
        key = source.choice([*free])
        option = source.choice([each for each in made[key].options if each != made[key].taken])
        copy = tmp_path / "samples" / f"pasted{number}.tile"
        lines = (SAMPLES / case.file).read_text().splitlines()
        assert request.schedule is not None
        at = program(case.file).schedule(request.kernel, request.schedule).loc
        line = made[key].override(option, key)
        lines.insert(at.line, "    " + line)
        copy.write_text("\n".join(lines) + "\n")
        try:
            wanted, _ = emitted(case, forced(request, {key: option}))
        except TileError as error:  # another line of the schedule contradicts the option
            with pytest.raises(TileError) as told:
                emitted(case, request, copy)
            assert told.value.code == error.code, line
            continue
        said, choices = emitted(case, request, copy)
        if line == choose_line(key, option):
            assert choices[key].taken == option, line
        assert without_places(said) == without_places(wanted), line


@pytest.mark.long
@pytest.mark.parametrize("case", [*small()[:: 1 if MANY else 6], *LARGE], ids=str)
def test_the_printed_schedule_gives_the_same_code(case: Case, tmp_path: Path) -> None:
    """What `dsl schedule` prints, put into the file, is the schedule that it says all of."""
    request = case.build().request
    compiled = lower(program(case.file), request).variant
    llvm = emit(compiled.function, compiled.target)[0] + f"level {llvm_level_for(compiled.function)}"
    printed = schedule_text(program(case.file), compiled, "everything", [])
    shutil.copytree(SAMPLES, tmp_path / "samples")
    file = tmp_path / "samples" / case.file
    file.write_text(f"{file.read_text()}\n{printed}\n")
    again, made = emitted(case, replace(request, schedule="everything", constants={}), file)
    assert without_places(again) == without_places(llvm)
    assert {key: choice.taken for key, choice in made.items()} == {
        key: choice.taken for key, choice in compiled.function.choices.keyed().items()
    }


def of_the_file(case: Case) -> bool:
    """Whether a variant's schedule stands in its own file, and not in one that it imports."""
    request, text = case.build().request, program(case.file)
    return request.schedule is not None and text.schedule(request.kernel, request.schedule).loc.source is text.source


def without_places(llvm: str) -> str:
    """Without debug metadata, and without the numbers of all other metadata, which depend on it."""
    return re.sub(r"^!\d+ = (distinct )?!DI.*\n|(?<=!)\d+", "", llvm, flags=re.MULTILINE)
