"""The header: round trips, and every way in which it can be malformed names the field."""

from __future__ import annotations

import json
from typing import Any

import hand_written
import pytest

from dsl.runtime import LaunchError
from dsl.runtime.header import PREFIX, Header, parse, read, to_json, write
from dsl.runtime.signature import entries


def malformed(path: str, value: Any) -> str:
    """The `scale` PTX with one field of its header replaced; `path` is like `params.0.dtype`. DELETE removes it."""
    record = json.loads(json.dumps(to_json(hand_written.header())))
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place: Any = record
    for key in parents:
        place = place[key]
    if value is DELETE:
        del place[last]
    else:
        place[last] = value
    body = hand_written.scale().partition("\n")[2]
    return f"{PREFIX}{json.dumps(record)}\n{body}"


DELETE = object()
DEEP: Any = 1
for _ in range(100):
    DEEP = ["+", DEEP, 1]


@pytest.mark.parametrize("text", [hand_written.scale(), hand_written.copy(), hand_written.strided()])
def test_written_headers_read_back_equal(text: str) -> None:
    (header,) = read(text).values()
    assert parse(json.loads(write(header).removeprefix(PREFIX))) == header
    assert write(header).isascii() and write(header).count("\n") == 1


def test_text_without_header_has_none() -> None:
    assert read(hand_written.scale().partition("\n")[2]) == {}


def test_non_ascii_names_are_escaped() -> None:
    header = hand_written.header(kernel="größe")
    assert write(header).isascii()
    assert read(hand_written.scale(kernel="größe"))["scale"].kernel == "größe"


def test_a_body_edited_by_hand_stays_legal() -> None:
    edited = hand_written.scale().replace("mul.rn.f32", "add.rn.f32") + "// a remark: .entry other(.param .u64 z)\n"
    assert list(read(edited)) == ["scale"]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("schema", 2, "schema"),
        ("schema", DELETE, "schema"),
        ("entry", "other", "entry"),
        ("entry", "a b", "entry"),
        ("surprise", 1, "surprise"),
        ("arch", "sm_9000", "arch"),
        ("threads", 0, "threads"),
        ("threads", 1025, "threads"),
        ("threads", "128", "threads"),
        ("threads", True, "threads"),
        ("cluster", 17, "cluster"),
        ("shared_bytes", -1, "shared_bytes"),
        ("maxnreg", 256, "maxnreg"),
        ("maxnreg", DELETE, "maxnreg"),
        ("index_bits", 16, "index_bits"),
        ("index_bits", 64, "arguments[2]"),
        ("source", "scale.tile", "source"),
        ("source.sha256", 5, "source.sha256"),
        ("constants", [1], "constants"),
        ("constants.BLOCK", None, "constants"),
        ("dims", ["n", "n"], "dims"),
        ("dims", ["n", "m"], "dims"),
        ("dims", [], "params"),
        ("params.0.dtype", "f33", "params[0].dtype"),
        ("params.0.access", "x", "params[0].access"),
        ("params.0.align", 3, "params[0].align"),
        ("params.0.dims", [-1], "params[0].dims"),
        ("params.0.present", False, "params[0].present"),
        ("params.0.extra", 1, "params[0].extra"),
        ("params.1.name", "y", "params"),
        ("params.2.kind", "number", "params[2].kind"),
        ("params.2.dtype", "s32", "arguments[3]"),
        ("params.2.dtype", "f64", "arguments[3]"),
        ("arguments.0.of", "z", "arguments[0]"),
        ("arguments.0.kind", "scalar", "arguments[0]"),
        ("arguments.0", {"kind": "stride", "of": "x", "axis": 0}, "arguments[0]"),
        ("arguments.2.name", "m", "arguments[2]"),
        ("arguments.3", DELETE, "arguments"),
        ("grid", [1, 1], "grid"),
        ("grid.0", ["cdiv", "n"], "grid[0]"),
        ("grid.0", ["cdiv", "n", "T"], "grid[0]"),
        ("grid.0", "T", "grid[0]"),
        ("grid.0", ["system", 1, 2], "grid[0]"),
        ("grid.0", DEEP, "grid[0]"),
        ("workspaces", 1, "workspaces"),
        ("workspaces", [{"name": "w", "dtype": "f32", "each": 0, "zero": True}], "workspaces[0].each"),
        ("workspaces", [{"name": "w", "dtype": "f33", "each": 1, "zero": True}], "workspaces[0].dtype"),
        ("workspaces", [{"name": "w", "dtype": "f32", "each": 1, "zero": 1}], "workspaces[0].zero"),
        ("workspaces", [{"name": "w", "dtype": "f32", "each": 1, "zero": True}] * 2, "workspaces"),
        ("arguments.0", {"kind": "workspace", "name": "w"}, "arguments[0]"),
        ("pipelines", [{"at": 0, "stages": 0, "of": ["x"]}], "pipelines[0].stages"),
        ("pipelines", [{"at": 0, "stages": 2, "of": ["z"]}], "pipelines[0].of"),
        ("pipelines", [{"at": 0, "stages": 2, "of": ["x"], "n": 1}], "pipelines[0].n"),
        ("overlaps", 1, "overlaps"),
        ("overlaps", True, "overlaps"),  # sm_80 has no such launches
        ("requires.0.expr", {"n": 1}, "requires[0].expr"),
        ("requires.0.line", -1, "requires[0].line"),
        ("requires.0.hint", 7, "requires[0].hint"),
        ("moves", ["*", 8, "m"], "moves"),
    ],
)
def test_a_malformed_header_names_the_field(path: str, value: Any, field: str) -> None:
    with pytest.raises(LaunchError) as caught:
        read(malformed(path, value))
    assert caught.value.code == "ptx"
    assert f"header field {field}" in caught.value.message


@pytest.mark.parametrize(
    "line",
    ["{", '{"schema": NaN}', '{"schema": 1, "schema": 1}', "[" * 100_000, "é", "1" * 5000, " " * (1 << 21), "[1]"],
    ids=["cut", "nan", "twice", "deep", "letter", "digits", "long", "list"],
)
def test_what_is_no_header_at_all_is_refused(line: str) -> None:
    with pytest.raises(LaunchError):
        read(PREFIX + line + "\n" + hand_written.scale().partition("\n")[2])


def test_two_headers_of_one_entry_are_refused() -> None:
    with pytest.raises(LaunchError, match="second header"):
        read(write(hand_written.header()) + hand_written.scale())


def test_entry_signatures_as_compilers_write_them() -> None:
    text = """
    .visible .entry a(.param .u64 .ptr .global .align 16 a_0, .param .align 8 .b8 a_1[24], .param .b16 a_2) .maxntid 1
    { ret; }  // .entry b(.param .u32 b_0)
    .entry c { ret; } /* .entry d() */
    .file 1 "not // a comment"
    .entry $e(
    ) { ret; }
    """
    found = entries(text)
    assert list(found) == ["a", "c", "$e"]
    assert [(p.type, p.bytes, p.is_array) for p in found["a"]] == [
        ("u64", 8, False),
        ("b8", 24, True),
        ("b16", 2, False),
    ]


def test_label_names_the_schedule() -> None:
    header: Header = hand_written.header(schedule="lanes")
    assert header.label == "scale with lanes"
