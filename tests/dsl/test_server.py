"""The language server, driven as an editor drives it: over pipes, by the Language Server Protocol."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")
from editor_session import ROOT, EditorSession, checked, shown
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException

from dsl.editors.server import worker as workers
from dsl.editors.server.messages import Job
from dsl.editors.server.protocol import make_server
from dsl.editors.server.worker import COMMAND, Worker
from tests.whole import is_whole

SAMPLES = sorted((ROOT / "samples").glob("*.tile"))
EDITS = 1000 if is_whole() else 24
WHOLE_EVERY = 40 if is_whole() else 8
"""So many edits are between two whole checks that are compared. The first pass runs after each edit."""
SIGNS = "()[]:=,;.#\"' \n\t+-*&@?!é𝛼0x"
WORDS = (
    "kernel",
    "schedule",
    "with",
    "if a:",
    "    ",
    "range(0, n, 4)",
    "like",
    "expect",
    "import",
    "None",
    "f32",
    "]):",
)


@pytest.fixture(autouse=True)
def without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests compare with is checked anew. The server has a cache of its own."""
    monkeypatch.setenv("DSL_CACHE", "off")


def session(work: Callable[[EditorSession], Coroutine[Any, Any, None]], cache: Path) -> None:
    async def run() -> None:
        async with EditorSession(cache) as editor:
            await work(editor)
            assert editor.logged == []

    asyncio.run(run())


def document(uri: str) -> t.TextDocumentIdentifier:
    return t.TextDocumentIdentifier(uri)


def position(text: str, offset: int) -> t.Position:
    start = text.rfind("\n", 0, offset) + 1
    return t.Position(text.count("\n", 0, offset), len(text[start:offset].encode("utf-16-le")) // 2)


def applied(text: str, edits: list[t.TextEdit]) -> str:
    """The text after edits of an answer."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(at: t.Position) -> int:
        line = lines[at.line] if at.line < len(lines) else ""
        units = line.encode("utf-16-le")[: 2 * at.character].decode("utf-16-le")
        return min(starts[at.line] + len(units), len(text))

    for edit in sorted(edits, key=lambda each: (each.range.start.line, each.range.start.character), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def test_a_server_whose_editor_is_gone_reports_an_error_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reported that it cannot report, without end, and did not exit."""
    server, shown = make_server({}, "1"), list[Any]()

    def fails(params: Any) -> None:
        shown.append(params)
        server.report_server_error(ValueError("closed"), JsonRpcException)

    monkeypatch.setattr(server, "window_show_message", fails)
    for count in (1, 2):
        server.report_server_error(ValueError("first"), JsonRpcException)
        assert len(shown) == count


# ---- diagnostics ----


def edited(text: str, draw: random.Random) -> str:
    """One edit, as of somebody who types, deletes, or moves lines."""
    at = draw.randrange(len(text) + 1)
    lines = text.split("\n")
    line = draw.randrange(len(lines))
    match draw.randrange(7):
        case 0:
            return text[:at] + draw.choice(SIGNS) + text[at:]
        case 1:
            return text[:at] + text[at + 1 :]
        case 2:
            return text[:at] + draw.choice(WORDS) + text[at:]
        case 3:
            return text[:at] + text[at + draw.randrange(80) :]
        case 4:
            return "\n".join([*lines[:line], *lines[line + 1 :]])
        case 5:
            return "\n".join([*lines[:line], lines[draw.randrange(len(lines))], *lines[line:]])
        case _:
            names = [word for word in text.split() if word.isidentifier()]
            return text.replace(draw.choice(names), draw.choice(names), 1) if names else text


async def ask_all(editor: EditorSession, uri: str, text: str, draw: random.Random) -> None:
    """Every request of an editor at a random place. None may fail, whatever the text is."""
    client, doc = editor.client, document(uri)
    at = position(text, draw.randrange(len(text) + 1))
    whole = t.Range(t.Position(0, 0), t.Position(text.count("\n") + 1, 0))
    await client.text_document_completion_async(t.CompletionParams(doc, at))
    await client.text_document_definition_async(t.DefinitionParams(doc, at))
    await client.text_document_references_async(t.ReferenceParams(t.ReferenceContext(True), doc, at))
    await client.text_document_document_highlight_async(t.DocumentHighlightParams(doc, at))
    await client.text_document_prepare_rename_async(t.PrepareRenameParams(doc, at))
    await client.text_document_document_symbol_async(t.DocumentSymbolParams(doc))
    await client.text_document_inlay_hint_async(t.InlayHintParams(doc, whole))
    await client.text_document_code_action_async(t.CodeActionParams(doc, whole, t.CodeActionContext([])))
    await client.text_document_formatting_async(t.DocumentFormattingParams(doc, t.FormattingOptions(4, True)))
    if draw.random() < 0.2:
        await client.text_document_hover_async(t.HoverParams(doc, at))


@pytest.mark.long
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_after_random_edits_the_diagnostics_are_those_of_check(path: Path, tmp_path: Path) -> None:
    original, uri = path.read_text(), path.as_uri()
    draw = random.Random(path.stem)

    async def work(editor: EditorSession) -> None:
        editor.open(uri, original)
        text = original
        for number in range(1, EDITS + 1):
            text = edited(original if draw.random() < 0.4 else text, draw)
            editor.edit(uri, text)
            if number % 4 == 0:
                await ask_all(editor, uri, text, draw)
            if number % WHOLE_EVERY == 0 or number == EDITS:
                _, found = await editor.whole(uri)
                assert shown(found) == checked(text, path), f"edit {number}"
            else:
                await editor.quick(uri)
        assert len(editor.published) > EDITS

    session(work, tmp_path)


def test_diagnostics_follow_edits_between_blocks_and_within(tmp_path: Path) -> None:
    path = ROOT / "samples" / "softmax.tile"
    text, uri = path.read_text(), path.as_uri()
    wrong = text.replace("    r = block(0)", "    r = nobody + block(0)", 1)

    async def work(editor: EditorSession) -> None:
        editor.open(uri, wrong)
        _, found = await editor.whole(uri)
        (error,) = [each for each in found if each.severity == 1]
        assert "unknown name 'nobody'" in error.message and error.range.start.line == text[
            : text.index("    r =")
        ].count("\n")
        # An edit above moves it at once, before the check says so again.
        editor.edit(uri, "# one more line\n" + wrong)
        _, quick = await editor.quick(uri)
        assert [each.range.start.line for each in quick if each.severity == 1] == [error.range.start.line + 1]
        # A broken block hides none of the others.
        broken = wrong + "\nschedule of of:\n    x y z\n"
        editor.edit(uri, broken)
        _, quick = await editor.quick(uri)
        assert "syntax" in [each.code for each in quick]
        _, found = await editor.whole(uri)
        assert shown(found) == checked(broken, path) and any("nobody" in each.message for each in found)
        editor.edit(uri, text)
        _, found = await editor.whole(uri)
        assert shown(found) == checked(text, path) and not [each for each in found if each.severity == 1]
        editor.close(uri)
        await editor.wait(lambda: editor.published[-1][1].version is None and not editor.published[-1][1].diagnostics)

    session(work, tmp_path)


def test_a_newer_edit_supersedes_a_check(tmp_path: Path) -> None:
    path = ROOT / "samples" / "matmul.tile"
    text, uri = path.read_text(), path.as_uri()

    async def work(editor: EditorSession) -> None:
        editor.open(uri, text)
        last = text
        for number in range(6):
            await asyncio.sleep(0.4)  # the check has begun
            last = text.replace("TN = 64", "TN = 64").replace("acc = zeros", f"one = {number}\n    acc = zeros", 1)
            editor.edit(uri, last)
        _, found = await editor.whole(uri)
        assert shown(found) == checked(last, path)
        # Of the older versions, only the first pass was published.
        versions = [each.version for _, each in editor.published]
        assert all(versions.count(version) == 1 for version in range(1, 7)) and versions.count(7) == 2

    session(work, tmp_path)


def test_two_texts_and_one_that_has_no_file(tmp_path: Path) -> None:
    part, path = tmp_path / "part.tile", tmp_path / "main.tile"
    part.write_text("def twice(x):\n    return x * 2\n")
    text = 'import "part.tile"\n\nkernel k(y: f32[n], x: f32[n]):\n    grid cdiv(n, 256)\n    i = block(0) * 256\n'
    text += "    y[i : i + 256] = twice(x[i : i + 256])\n"
    path.write_text(text)
    loose = "untitled:Untitled-1"

    async def work(editor: EditorSession) -> None:
        for uri, each in ((path.as_uri(), text), (part.as_uri(), part.read_text()), (loose, text)):
            editor.open(uri, each)
        for uri, each, place in ((path.as_uri(), text, path), (part.as_uri(), part.read_text(), part)):
            _, found = await editor.whole(uri)
            assert shown(found) == checked(each, place) == []
        _, found = await editor.whole(loose)
        assert shown(found) == checked(text, None)
        assert "a text without a file imports nothing" in found[0].message
        # What is not saved yet is what others import.
        editor.edit(part.as_uri(), "def twice(x):\n    return x * nobody\n")

        def is_told() -> bool:
            last = [each for _, each in editor.published if each.uri == path.as_uri()][-1]
            return any("nobody" in each.message for each in last.diagnostics)

        await editor.wait(is_told)
        last = [each for _, each in editor.published if each.uri == path.as_uri()][-1]
        (error,) = last.diagnostics
        assert error.range.start.line == 5  # the call
        assert error.related_information and error.related_information[0].location.uri == part.as_uri()
        assert error.related_information[0].location.range.start.line == 1

    session(work, tmp_path / "cache")


# ---- names ----

TEXT = """\
import "std/rows.tile"

# Twice 𝛼.
def twice(v):
    return 2.0 * v  # 𝛼 v

kernel scale(y: T[n], x: T[n], a: f32; T in f16|f32, BLOCK, F = twice):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = load(x[i : i + BLOCK]).to(f32)
    store(y[i : i + BLOCK], F(v * a).to(T))

schedule wide of scale:
    tune warps in 4, 8
    BLOCK = warps * 32 * 4
    layout v: vector [4], lanes [32], warps [warps]

dispatch scaled(y, x, a):
    scale(y, x, a) with wide

example:
    n = 5000
    x = randn(f32[n])
    y = empty(f32[n])
    scaled(y, x, 2.0)
    expect y ~= 4.0 * x within 1e-6
    expect sectors(y) <= 2.0
"""


async def opened(editor: EditorSession, folder: Path, text: str = TEXT) -> str:
    path = folder / "scale.tile"
    path.write_text(text)
    editor.open(path.as_uri(), text)
    _, found = await editor.whole(path.as_uri())
    assert [each for each in found if each.severity == 1] == []
    return path.as_uri()


def test_hover_shows_types_layouts_and_costs(tmp_path: Path) -> None:
    wanted = {
        "v = load": ("v = load(", "f32[512]", "vector [4], lanes [32], warps [4]", "4 registers a thread", "n=5000"),
        "x[i": ("x: T[n]  # of kernel scale",),
        "BLOCK = warps": ("BLOCK = 512", "warps * 32 * 4"),
        "wide of": ("schedule wide of scale:", "4 warps", "layout v: vector [4], lanes [32], warps [4]"),
        "scale(y, x, a) with": ("kernel scale(y: T[n]", "0 bytes of shared memory"),
        "twice(v)": ("def twice(v):", "Twice 𝛼."),
        "load(": ("**load**", "load(part", "*stands in*: kernels"),
        "to(f32)": (".to(", "kernels"),
        "tune": ("tune",),
        "sectors": ("sectors",),
        "layout": ("layout",),
    }

    async def work(editor: EditorSession) -> None:
        uri = await opened(editor, tmp_path)
        for word, parts in wanted.items():
            place = position(TEXT, TEXT.index(word))
            found = await editor.client.text_document_hover_async(t.HoverParams(document(uri), place))
            assert found is not None, word
            for part in parts:
                assert part in found.contents.value, (word, found.contents.value)  # type: ignore[union-attr]
        nothing = t.HoverParams(document(uri), position(TEXT, TEXT.index("# Twice") + 3))
        assert await editor.client.text_document_hover_async(nothing) is None

    session(work, tmp_path / "cache")


def test_definitions_references_and_the_outline(tmp_path: Path) -> None:
    async def work(editor: EditorSession) -> None:
        uri = await opened(editor, tmp_path)

        async def line(word: str, behind: int = 0) -> tuple[str, int]:
            place = position(TEXT, TEXT.index(word) + behind)
            found = await editor.client.text_document_definition_async(t.DefinitionParams(document(uri), place))
            assert isinstance(found, t.Location) and found.uri == uri
            number = found.range.start.line
            return TEXT.split("\n")[number].split()[0], number

        assert await line("twice):") == ("def", 3)
        assert await line("with wide", 5) == ("schedule", 12)
        assert await line("warps [warps]", 8) == ("tune", 13)
        assert await line("y) <= 2.0") == ("kernel", 6)  # the tensor of the kernel, not the array of the example
        assert await line("y ~= 4.0") == ("y", 23)
        place = position(TEXT, TEXT.index("BLOCK = warps"))
        context = t.ReferenceContext(include_declaration=True)
        found = await editor.client.text_document_references_async(t.ReferenceParams(context, document(uri), place))
        assert found is not None
        assert [each.range.start.line for each in found] == [6, 7, 8, 9, 10, 14]
        outline = await editor.client.text_document_document_symbol_async(t.DocumentSymbolParams(document(uri)))
        assert outline is not None
        names = ["import", "twice", "scale", "wide of scale", "scaled", "example"]
        assert [each.name for each in outline] == names

    session(work, tmp_path / "cache")


def test_a_definition_in_another_file(tmp_path: Path) -> None:
    text = 'import "std/rows.tile"\n\nkernel k(y: f32[rows, cols], x: f32[rows, cols]; ROWS, COLS):\n    grid rows\n'
    text += "    y[0:1, 0:4] = x[0:1, 0:4]\n\nschedule s of k:\n    like row_block\n"

    async def work(editor: EditorSession) -> None:
        path = tmp_path / "k.tile"
        editor.open(path.as_uri(), text)
        await editor.quick(path.as_uri())
        place = position(text, text.index("row_block"))
        found = await editor.client.text_document_definition_async(t.DefinitionParams(document(path.as_uri()), place))
        assert isinstance(found, t.Location) and found.uri == (ROOT / "dsl" / "std" / "rows.tile").as_uri()
        line = (ROOT / "dsl" / "std" / "rows.tile").read_text().split("\n")[found.range.start.line]
        assert line.startswith("schedule row_block")

    session(work, tmp_path / "cache")


def test_renaming_and_its_refusals(tmp_path: Path) -> None:
    async def work(editor: EditorSession) -> None:
        uri = await opened(editor, tmp_path)

        async def renamed(word: str, new: str) -> str:
            place = position(TEXT, TEXT.index(word))
            found = await editor.client.text_document_rename_async(t.RenameParams(document(uri), place, new))
            assert found is not None and found.changes is not None
            return applied(TEXT, [*found.changes[uri]])

        assert await renamed("v = load", "part") == TEXT.replace("v = load", "part = load").replace(
            "F(v *", "F(part *"
        ).replace("layout v:", "layout part:")
        assert await renamed("v)", "number") == TEXT.replace("twice(v)", "twice(number)").replace(
            "2.0 * v ", "2.0 * number "
        )
        assert await renamed("wide of", "broad") == TEXT.replace("wide", "broad")
        assert await renamed("BLOCK, F", "SIZE") == TEXT.replace("BLOCK", "SIZE")
        for word, new, why in (
            ("v = load", "x", "a name of this file already"),
            ("v = load", "load", "cannot be a name"),
            ("v = load", "a b", "cannot be a name"),
            ("v = load", "grid", "cannot be a name"),
            ("load(x", "read", "only names that this file defines"),
        ):
            with pytest.raises(JsonRpcException, match=why):
                await renamed(word, new)

    session(work, tmp_path / "cache")


def test_completion_knows_the_place(tmp_path: Path) -> None:
    async def work(editor: EditorSession) -> None:
        uri = await opened(editor, tmp_path)

        async def labels(text: str, offset: int) -> set[str]:
            editor.edit(uri, text)
            found = await editor.client.text_document_completion_async(
                t.CompletionParams(document(uri), position(text, offset))
            )
            assert isinstance(found, list)
            return {each.label for each in found}

        def typed(behind: str, new: str) -> tuple[str, int]:
            at = TEXT.index(behind) + len(behind)
            return TEXT[:at] + new + TEXT[at:], at + len(new)

        assert {"kernel", "schedule", "example"} == await labels(TEXT + "\n", len(TEXT)) - {"def", "dispatch", "import"}
        found = await labels(*typed("grid cdiv(n, BLOCK)\n", "    lo"))
        assert {"load", "BLOCK", "x", "n", "twice", "f32", "for", "not"} <= found and "maxnreg" not in found
        found = await labels(*typed("in 4, 8\n", "    "))
        assert {"maxnreg", "layout", "stage", "BLOCK", "v", "minimum"} <= found and "elif" not in found
        assert {"wide", "BLOCK", "row_block"} <= await labels(*typed("scale(y, x, a) with ", "w"))
        assert {"to", "T"} <= await labels(*typed("v = load(x[i : i + BLOCK]).", ""))
        assert {"std/rows.tile", "std/copies.tile"} <= await labels(*typed('import "', ""))
        assert await labels(*typed("# Twice ", "")) == set()

    session(work, tmp_path / "cache")


# ---- edits and hints ----

MISTAKES = {
    "v * a": ("v * aa", None),
    "load(x": ("laod(x", "load(x"),
    "with wide": ("with wid", "with wide"),
    "warps * 32": ("wraps * 32", "warps * 32"),
    "layout v": ("layuot v", "layout v"),
    "schedule wide": ("shedule wide", "schedule wide"),
    "within 1e-6": ("whithin 1e-6", None),
    "grid cdiv(n, BLOCK)": ("grid cdiv(n, BLOCK) × 1", "grid cdiv(n, BLOCK) * 1"),
    "randn(": ("rndn(", "randn("),
    "<= 2.0": ("≤ 2.0", "<= 2.0"),
}


@pytest.mark.parametrize("right", MISTAKES)
def test_a_hint_is_an_edit(right: str, tmp_path: Path) -> None:
    wrong, mended = MISTAKES[right]
    text = TEXT.replace(right, wrong, 1)

    async def work(editor: EditorSession) -> None:
        path = tmp_path / "scale.tile"
        editor.open(path.as_uri(), text)
        _, found = await editor.whole(path.as_uri())
        assert any(each.severity == 1 for each in found)
        line = text[: text.index(wrong)].count("\n")
        where = t.Range(t.Position(line, 0), t.Position(line, 1))
        params = t.CodeActionParams(document(path.as_uri()), where, t.CodeActionContext(found))
        actions = await editor.client.text_document_code_action_async(params)
        if mended is None:
            assert not actions
            return
        assert actions and isinstance(actions[0], t.CodeAction) and actions[0].edit and actions[0].edit.changes
        assert applied(text, [*actions[0].edit.changes[path.as_uri()]]) == TEXT.replace(right, mended, 1)

    session(work, tmp_path / "cache")


def test_inlay_hints_show_what_was_chosen(tmp_path: Path) -> None:
    async def work(editor: EditorSession) -> None:
        uri = await opened(editor, tmp_path)
        whole = t.Range(t.Position(0, 0), t.Position(100, 0))

        async def labels() -> dict[int, Any]:
            found = await editor.client.text_document_inlay_hint_async(t.InlayHintParams(document(uri), whole))
            assert found is not None
            return {each.position.line: each.label for each in found}

        wanted = {
            13: "warps = 4",
            14: "BLOCK = 512",
            24: "→ scale with wide: BLOCK = 512, F = twice, warps = 4",
        }
        assert await labels() == wanted
        assert editor.refreshed == 1
        # They move with their lines until the next check, and go with them.
        longer = TEXT.replace("# Twice", "# one\n# Twice")
        editor.edit(uri, longer)
        assert await labels() == {line + 1: label for line, label in wanted.items()}
        await editor.whole(uri)
        editor.edit(uri, longer.replace("BLOCK = warps", "BLOCK =  warps"))
        assert await labels() == {14: "warps = 4", 25: wanted[24]}
        await editor.whole(uri)
        assert await labels() == {line + 1: label for line, label in wanted.items()}

    session(work, tmp_path / "cache")


def test_formatting_is_that_of_the_command(tmp_path: Path) -> None:
    from dsl.text.formatter import formatted

    texts = [TEXT.replace("    ", "  "), TEXT.replace(" * ", "*"), TEXT + "\n\n", TEXT.rstrip("\n"), "\n\n" + TEXT]

    async def work(editor: EditorSession) -> None:
        uri = await opened(editor, tmp_path)
        options = t.DocumentFormattingParams(document(uri), t.FormattingOptions(4, True))
        for text in texts:
            editor.edit(uri, text)
            edits = await editor.client.text_document_formatting_async(options)
            assert edits and applied(text, [*edits]) == formatted(text)
        editor.edit(uri, TEXT)
        assert not await editor.client.text_document_formatting_async(options)
        editor.edit(uri, TEXT + "def (\n")
        assert await editor.client.text_document_formatting_async(options) is None  # it does not parse

    session(work, tmp_path / "cache")


def test_without_pygls_the_command_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from dsl.command import cli

    for name in [name for name in sys.modules if name.startswith(("dsl.editors.server.protocol", "pygls"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls", None)
    result = CliRunner().invoke(cli, ["server"], standalone_mode=False)
    assert result.return_value == 2 and "pip install 'dsl[server]'" in result.output


# ---- the process that checks ----

HANGS = "import sys, time\nfor line in sys.stdin:\n    time.sleep(60)\n"
DIES = "import sys\nsys.stdin.readline()\n"


def test_a_process_that_hangs_or_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []

    async def run() -> None:
        worker = Worker((sys.executable, "-c", HANGS), logged.append)
        jobs = [Job(worker.number(), "", None, "utf-16") for _ in range(2)]
        answers = await asyncio.wait_for(asyncio.gather(*map(worker.ask, jobs)), 20)
        assert [each.superseded for each in answers] == [True, True]
        assert len(logged) == 1 and "did not end" in logged[0]
        worker.command = (sys.executable, "-c", DIES)
        assert (await asyncio.wait_for(worker.ask(Job(worker.number(), "", None, "utf-16")), 20)).superseded
        worker.command = COMMAND
        answer = await asyncio.wait_for(worker.ask(Job(worker.number(), TEXT, None, "utf-16")), 60)
        assert not answer.superseded and answer.failure is None and answer.variants == 2
        await asyncio.wait_for(worker.idle(), 1)
        await worker.stop()

    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    asyncio.run(run())


def test_a_path_that_cannot_be_is_an_error_and_the_process_lives() -> None:
    async def run() -> None:
        worker = Worker()
        answer = await asyncio.wait_for(worker.ask(Job(1, TEXT, "\0", "utf-16")), 60)
        assert [each.code for each in answer.told] == ["file"] and answer.failure is None
        answer = await asyncio.wait_for(worker.ask(Job(2, TEXT, None, "utf-16", "scale")), 60)
        assert answer.seen and answer.seen[0].facts[0] == "4 warps"
        await worker.stop()

    asyncio.run(run())


def test_a_hover_does_not_wait_for_the_check(tmp_path: Path) -> None:
    path = ROOT / "samples" / "matmul.tile"
    text, uri = path.read_text(), path.as_uri()

    async def work(editor: EditorSession) -> None:
        editor.open(uri, text)
        await editor.quick(uri)
        await asyncio.sleep(0.6)  # the check has begun, and takes seconds
        place = position(text, text.index("acc = zeros"))
        for _ in range(20):  # on a busy machine, the first ones are answered without the variants
            found = await editor.client.text_document_hover_async(t.HoverParams(document(uri), place))
            if found is not None and "registers a thread" in found.contents.value:  # type: ignore[union-attr]
                break
        else:
            raise AssertionError("no variants")
        assert len(editor.of_version(uri)) == 1
        await editor.whole(uri)

    session(work, tmp_path)
