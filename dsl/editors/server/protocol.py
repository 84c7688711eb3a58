"""The language server: answers an editor's requests by the Language Server Protocol, with pygls.

Each edit starts two passes. The first one parses the text and looks up names between blocks, at once and in this
process. The second one is all of `dsl check`, in a process of its own, and a newer edit supersedes it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lsprotocol import types as t
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from dsl.editors.server.completing import Proposal, proposals
from dsl.editors.server.describing import Explained, block_title, described, kernel_of
from dsl.editors.server.documents import OpenText, path_of
from dsl.editors.server.fixing import fix_of
from dsl.editors.server.messages import Job, KernelSeen, TextPlace, Told
from dsl.editors.server.positions import UTF16, TextPoint, TextPositions, TextSpan
from dsl.editors.server.scan import HEAD, NameUse, ScannedBlock
from dsl.editors.server.symbols import CannotRename
from dsl.editors.server.worker import Worker
from dsl.editors.words import words
from dsl.lowering.ir.location import Loc, TileError
from dsl.text.files import resolved
from dsl.text.formatter import formatted
from dsl.text.program import parse_program

QUICK_DELAY = 0.005
"""Seconds without an edit until the first pass: editors send several edits at once."""
CHECK_DELAY = 0.15
"""Seconds without an edit until the check."""
HOVER_PATIENCE = 1.5
"""Seconds that a hover waits for the variants of a kernel. If they take longer, the next hover has them."""
NAME = "dsl"
KINDS = {
    "function": t.CompletionItemKind.Function,
    "variable": t.CompletionItemKind.Variable,
    "constant": t.CompletionItemKind.Constant,
    "keyword": t.CompletionItemKind.Keyword,
    "property": t.CompletionItemKind.Property,
    "type": t.CompletionItemKind.TypeParameter,
    "file": t.CompletionItemKind.File,
    "module": t.CompletionItemKind.Module,
}
SYMBOLS = {
    "kernel": t.SymbolKind.Function,
    "def": t.SymbolKind.Function,
    "dispatch": t.SymbolKind.Method,
    "schedule": t.SymbolKind.Class,
    "example": t.SymbolKind.Event,
    "import": t.SymbolKind.Module,
}


class TileServer(LanguageServer):
    """A server for `.tile` texts. `known` is the table of `dsl explain`."""

    def __init__(self, known: Explained, version: str, worker: Worker | None = None):
        super().__init__(NAME, version, text_document_sync_kind=t.TextDocumentSyncKind.Full)
        self.known = known
        self.worker = worker or Worker(log=self.log)
        self.texts: dict[str, OpenText] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self.on_checked: Callable[[OpenText], None] = lambda text: None
        self._is_reporting = False

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Shows an error in the editor. pygls also calls this if a message cannot be sent, as when the editor is gone,
        and would send the next message about it without end."""
        if not self._is_reporting:
            self._is_reporting = True
            try:
                super().report_server_error(error, source)
            finally:
                self._is_reporting = False

    def log(self, text: str) -> None:
        with suppress(Exception):  # there may be no editor any more
            self.window_log_message(t.LogMessageParams(t.MessageType.Warning, text))

    @property
    def encoding(self) -> str:
        agreed = self.workspace.position_encoding
        return str(getattr(agreed, "value", agreed) or UTF16)

    # ---- edits ----

    def opened(self, document: t.TextDocumentItem) -> None:
        path = uris.to_fs_path(document.uri) if document.uri.startswith("file:") else None
        place = None if path is None else Path(path)
        text = OpenText(document.uri, place, document.text, document.version, self.encoding)
        self.texts[document.uri] = text
        self._edited(text)

    def changed(self, uri: str, text: str, version: int | None) -> None:
        self.texts[uri].set(text, version)
        self._edited(self.texts[uri])

    def closed(self, uri: str) -> None:
        self.texts.pop(uri, None)
        if (timer := self._timers.pop(uri, None)) is not None:
            timer.cancel()
        self.text_document_publish_diagnostics(t.PublishDiagnosticsParams(uri, []))

    def _edited(self, text: OpenText) -> None:
        self._later(QUICK_DELAY, text, self._examine)
        if text.path is not None:
            with suppress(TileError):
                path = resolved(text.path)
                for other in self.texts.values():
                    if other is not text and other.imports(path):
                        other.job = 0
                        self._later(QUICK_DELAY, other, self._examine)

    def _later(self, delay: float, text: OpenText, what: Callable[[OpenText], None]) -> None:
        if (timer := self._timers.pop(text.uri, None)) is not None:
            timer.cancel()
        self._timers[text.uri] = asyncio.get_running_loop().call_later(delay, what, text)

    def _other_texts(self, text: OpenText) -> dict[Path, str]:
        found = {}
        for other in self.texts.values():
            if other is not text and other.path is not None:
                with suppress(TileError):
                    path = resolved(other.path)
                    if text.imports(path) or text.program is None:
                        found[path] = other.text
        return found

    def _examine(self, text: OpenText) -> None:
        if self.texts.get(text.uri) is not text:
            return
        try:
            text.examine(self._other_texts(text))
        except Exception as error:  # a fault of the compiler must not end the server
            self.log(f"{text.name}: {type(error).__name__}: {error}")
        self._publish(text)
        self._later(CHECK_DELAY, text, self._start_check)

    def _start_check(self, text: OpenText) -> None:
        task = asyncio.get_running_loop().create_task(self._check(text))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, text: OpenText) -> None:
        """Checks a text, and publishes what is wrong. A check that another text has superseded begins again, once no
        other one runs."""
        content = text.text
        while self.texts.get(text.uri) is text and text.text == content:
            job = self._job(text)
            text.job = job.number
            answer = await self.worker.ask(job)
            if text.job != job.number:
                return
            if not answer.superseded:
                if answer.failure is None:
                    text.checked = content, answer
                self._publish(text)
                self._refresh_hints()
                self.on_checked(text)
                return
            async with self._turn:
                await self.worker.idle()

    def _job(self, text: OpenText, kernel: str | None = None) -> Job:
        path = None if text.path is None else str(text.path)
        texts = {str(each): content for each, content in self._other_texts(text).items()}
        return Job(self.worker.number(), text.text, path, text.encoding, kernel, texts)

    def _refresh_hints(self) -> None:
        hints = getattr(self.client_capabilities.workspace, "inlay_hint", None)
        if hints is not None and hints.refresh_support:
            self.workspace_inlay_hint_refresh(None, lambda result: None)

    async def seen(self, text: OpenText, kernel: str) -> tuple[KernelSeen, ...]:
        """Returns variants of a kernel, or nothing if they take too long."""
        if kernel not in text.seen:
            content = text.text

            async def look() -> None:
                answer = await self.worker.ask(self._job(text, kernel))
                if text.text == content and not answer.superseded:
                    text.seen[kernel] = answer.seen

            task = asyncio.get_running_loop().create_task(look())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), HOVER_PATIENCE)
        return text.seen.get(kernel, ())

    # ---- to the protocol's types ----

    def _publish(self, text: OpenText) -> None:
        found = [self.diagnostic(each, text) for each in text.told]
        self.text_document_publish_diagnostics(t.PublishDiagnosticsParams(text.uri, found, text.version))

    def diagnostic(self, told: Told, text: OpenText) -> t.Diagnostic:
        places = [each for each in (told.place, *told.callers) if each is not None]
        # A mistake in another file is shown at the call that led to it.
        own = next((each for each in places if each.file == text.name), None)
        others = [each for each in places if each is not own]
        related = [
            t.DiagnosticRelatedInformation(place, "here" if each is told.place else "called from here")
            for each in others
            if (place := location(each)) is not None
        ]
        return t.Diagnostic(
            t.Range(t.Position(0, 0), t.Position(0, 0)) if own is None else range_of(own.span),
            told.message + (f"\nhint: {told.hint}" if told.hint else ""),
            t.DiagnosticSeverity(told.severity),
            told.code,
            source=NAME,
            related_information=related or None,
        )


def range_of(span: TextSpan) -> t.Range:
    start, end = span.start, span.end
    return t.Range(t.Position(start.line, start.character), t.Position(end.line, end.character))


def location(place: TextPlace) -> t.Location | None:
    path = path_of(place.file)
    uri = None if path is None else uris.from_fs_path(str(path.absolute()))
    return None if uri is None else t.Location(uri, range_of(place.span))


def edits_of(text: OpenText, new: str) -> list[t.TextEdit]:
    """Returns one edit, of the lines that differ."""
    if text.text == new:
        return []
    lines, news = text.text.splitlines(keepends=True), new.splitlines(keepends=True)
    most = min(len(lines), len(news))
    first = next((at for at in range(most) if lines[at] != news[at]), most)
    last = next((at for at in range(most - first) if lines[-1 - at] != news[-1 - at]), most - first)
    start, end = len("".join(lines[:first])), len("".join(lines[: len(lines) - last]))
    changed = "".join(news[first : len(news) - last])
    return [t.TextEdit(range_of(text.positions.span(start, end)), changed)]


def make_server(known: Explained, version: str, worker: Worker | None = None) -> TileServer:
    """Returns a server with all its features."""
    server = TileServer(known, version, worker)
    _follow_texts(server)
    _answer_about_names(server)
    _help_to_write(server)
    _answer_about_texts(server)
    return server


def _follow_texts(server: TileServer) -> None:
    @server.feature(t.INITIALIZED)
    def initialized(params: t.InitializedParams) -> None:
        words()  # these take 0.4 s, which the first edit would wait for
        parse_program("def f(x):\n    return x\n")
        gc.collect()
        gc.freeze()

    @server.feature(t.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: t.DidOpenTextDocumentParams) -> None:
        server.opened(params.text_document)

    @server.feature(t.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: t.DidChangeTextDocumentParams) -> None:
        document = server.workspace.get_text_document(params.text_document.uri)
        server.changed(params.text_document.uri, document.source, params.text_document.version)

    @server.feature(t.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: t.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(t.SHUTDOWN)
    async def shutdown(params: None) -> None:
        await server.worker.stop()


def at(server: TileServer, params: Any) -> tuple[OpenText, int]:
    """Returns the text that a request is about, and the offset of its position."""
    text = server.texts[params.text_document.uri]
    return text, text.positions.offset(TextPoint(params.position.line, params.position.character))


def ranges(text: OpenText, uses: list[NameUse]) -> list[t.Range]:
    return [range_of(text.positions.span(use.start, use.end)) for use in uses]


def _answer_about_names(server: TileServer) -> None:
    @server.feature(t.TEXT_DOCUMENT_HOVER)
    async def hover(params: t.HoverParams) -> t.Hover | None:
        text, offset = at(server, params)
        kernel = kernel_of(text.symbols, offset)
        seen = () if kernel is None else await server.seen(text, kernel)
        said = described(text.symbols, offset, server.known, seen)
        return None if said is None else t.Hover(t.MarkupContent(t.MarkupKind.Markdown, said))

    @server.feature(t.TEXT_DOCUMENT_DEFINITION)
    def definition(params: t.DefinitionParams) -> t.Location | None:
        text, offset = at(server, params)
        meaning = text.symbols.meaning(offset)
        found = None if meaning is None else text.symbols.definition(meaning)
        if isinstance(found, Loc):
            span = TextPositions(found.source.text, text.encoding).span(found.start, found.end)
            return location(TextPlace(found.source.name, span))
        return None if found is None else t.Location(text.uri, ranges(text, [found])[0])

    @server.feature(t.TEXT_DOCUMENT_REFERENCES)
    def references(params: t.ReferenceParams) -> list[t.Location]:
        text, offset = at(server, params)
        meaning = text.symbols.meaning(offset)
        uses = [] if meaning is None or meaning.kind == "other" else text.symbols.places(meaning)
        wanted = [use for use in uses if params.context.include_declaration or not use.binds]
        return [t.Location(text.uri, each) for each in ranges(text, wanted)]

    @server.feature(t.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlight(params: t.DocumentHighlightParams) -> list[t.DocumentHighlight]:
        text, offset = at(server, params)
        meaning = text.symbols.meaning(offset)
        uses = [] if meaning is None or meaning.kind == "other" else text.symbols.places(meaning)
        return [t.DocumentHighlight(each) for each in ranges(text, uses)]


def _help_to_write(server: TileServer) -> None:
    @server.feature(t.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare(params: t.PrepareRenameParams) -> t.Range | None:
        text, offset = at(server, params)
        found, meaning = text.symbols.use_at(offset), text.symbols.meaning(offset)
        if found is None or meaning is None or meaning.kind == "other":
            return None
        return ranges(text, [found[1]])[0]

    @server.feature(t.TEXT_DOCUMENT_RENAME, t.RenameOptions(prepare_provider=True))
    def rename(params: t.RenameParams) -> t.WorkspaceEdit:
        text, offset = at(server, params)
        try:
            uses = text.symbols.renamed(offset, params.new_name)
        except CannotRename as why:
            raise JsonRpcInvalidParams(str(why)) from None
        edits = [t.TextEdit(each, params.new_name) for each in ranges(text, uses)]
        return t.WorkspaceEdit(changes={text.uri: edits})

    @server.feature(t.TEXT_DOCUMENT_COMPLETION, t.CompletionOptions(trigger_characters=[".", '"']))
    def complete(params: t.CompletionParams) -> list[t.CompletionItem]:
        text, offset = at(server, params)
        return [_item(each) for each in proposals(text.symbols, offset, server.known, text.path)]


def _item(each: Proposal) -> t.CompletionItem:
    return t.CompletionItem(each.label, kind=KINDS[each.kind], detail=each.detail or None)


def _answer_about_texts(server: TileServer) -> None:
    @server.feature(t.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outline(params: t.DocumentSymbolParams) -> list[t.DocumentSymbol]:
        text = server.texts[params.text_document.uri]
        return [_outlined(text, each) for each in text.symbols.blocks]

    @server.feature(t.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: t.InlayHintParams) -> list[t.InlayHint]:
        text = server.texts[params.text_document.uri]
        wanted = range(params.range.start.line, params.range.end.line + 1)
        return [
            t.InlayHint(range_of(each.place.span).end, each.label, tooltip=each.tooltip, padding_left=True)
            for each in text.shown
            if each.place.span.end.line in wanted
        ]

    @server.feature(t.TEXT_DOCUMENT_CODE_ACTION, t.CodeActionOptions([t.CodeActionKind.QuickFix]))
    def actions(params: t.CodeActionParams) -> list[t.CodeAction]:
        text = server.texts[params.text_document.uri]
        found = []
        for told in text.told:
            if told.place is None or told.place.file != text.name:
                continue
            lines = range(told.place.span.start.line, told.place.span.end.line + 1)
            fix = fix_of(told, text.text, text.positions)
            if fix is None or params.range.end.line < lines.start or params.range.start.line >= lines.stop:
                continue
            edit = t.TextEdit(range_of(text.positions.span(fix.start, fix.end)), fix.new)
            found.append(
                t.CodeAction(
                    fix.title,
                    t.CodeActionKind.QuickFix,
                    diagnostics=[server.diagnostic(told, text)],
                    is_preferred=True,
                    edit=t.WorkspaceEdit(changes={text.uri: [edit]}),
                )
            )
        return found

    @server.feature(t.TEXT_DOCUMENT_FORMATTING)
    def format_text(params: t.DocumentFormattingParams) -> list[t.TextEdit] | None:
        text = server.texts[params.text_document.uri]
        try:
            return edits_of(text, formatted(text.text, text.name))
        except TileError:
            return None  # the diagnostics say why it does not parse


def _outlined(text: OpenText, block: ScannedBlock) -> t.DocumentSymbol:
    end = block.start + len(text.text[block.start : block.end].rstrip())
    named = next((use for use in block.uses if use.of == HEAD), None)
    first = (named.start, named.end) if named is not None else (block.start, block.start + len(block.kind))
    return t.DocumentSymbol(
        block_title(block),
        SYMBOLS[block.kind],
        range_of(text.positions.span(block.start, end)),
        range_of(text.positions.span(*first)),
        detail=block.kind,
    )


def serve(known: Mapping[str, Mapping[str, str]], version: str) -> None:
    """Answers an editor on standard input and output, until it ends the session."""
    gc.set_threshold(100_000)
    make_server(known, version).start_io()
