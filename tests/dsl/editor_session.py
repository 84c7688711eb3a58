"""A session of an editor with `dsl server`, over the pipes of a process: what the tests and the benchmark drive."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types as t
from pygls.lsp.client import LanguageClient

from dsl.studies.check import check_text

ROOT = Path(__file__).parents[2]


class EditorSession:
    """Sends edits, and keeps the diagnostics and the logged messages that the server sends."""

    def __init__(self, cache: Path | str = "off") -> None:
        self.environment = {**os.environ, "DSL_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
        self.client = LanguageClient("test", "1")
        self.published: list[tuple[float, t.PublishDiagnosticsParams]] = []
        self.logged: list[str] = []
        self.versions: dict[str, int] = {}
        self.refreshed = 0
        self._arrived = asyncio.Event()

        @self.client.feature(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: t.PublishDiagnosticsParams) -> None:
            self.published.append((time.perf_counter(), params))
            self._arrived.set()

        @self.client.feature(t.WINDOW_LOG_MESSAGE)
        def logged(params: t.LogMessageParams) -> None:
            self.logged.append(params.message)

        @self.client.feature(t.WINDOW_SHOW_MESSAGE)
        def told(params: t.ShowMessageParams) -> None:
            self.logged.append(params.message)

        @self.client.feature(t.WORKSPACE_INLAY_HINT_REFRESH)
        def refreshed(params: Any) -> None:
            # The server sends this behind the diagnostics of a whole check.
            self.refreshed += 1
            self._arrived.set()

    async def __aenter__(self) -> EditorSession:
        await self.client.start_io(sys.executable, "-m", "dsl", "server", env=self.environment)
        hints = t.InlayHintWorkspaceClientCapabilities(refresh_support=True)
        abilities = t.ClientCapabilities(workspace=t.WorkspaceClientCapabilities(inlay_hint=hints))
        self.capabilities = (await self.client.initialize_async(t.InitializeParams(abilities))).capabilities
        self.client.initialized(t.InitializedParams())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        async with asyncio.timeout(60):  # a server that does not end is an error, not a test without end
            await self.client.stop()

    def open(self, uri: str, text: str) -> None:
        self.versions[uri] = 1
        self.client.text_document_did_open(t.DidOpenTextDocumentParams(t.TextDocumentItem(uri, "tile", 1, text)))

    def edit(self, uri: str, text: str) -> float:
        self.versions[uri] += 1
        document = t.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        whole = t.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(t.DidChangeTextDocumentParams(document, [whole]))
        return time.perf_counter()

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(uri)))

    def of_version(self, uri: str) -> list[tuple[float, list[t.Diagnostic]]]:
        """The diagnostics that came for the last version, with the times."""
        version = self.versions[uri]
        return [(at, p.diagnostics) for at, p in self.published if p.uri == uri and p.version == version]

    async def wait(self, is_done: Callable[[], bool], seconds: float = 120.0) -> None:
        async with asyncio.timeout(seconds):
            while not is_done():
                self._arrived.clear()
                await self._arrived.wait()

    async def quick(self, uri: str) -> tuple[float, list[t.Diagnostic]]:
        """The first diagnostics of the last version."""
        await self.wait(lambda: len(self.of_version(uri)) > 0)
        return self.of_version(uri)[0]

    async def whole(self, uri: str) -> tuple[float, list[t.Diagnostic]]:
        """The diagnostics of the whole check of the last version: the second ones."""
        await self.wait(lambda: len(self.of_version(uri)) > 1)
        return self.of_version(uri)[1]


def checked(text: str, path: Path | None) -> list[tuple[Any, ...]]:
    """What `dsl check` says of a text: code, message with hint, severity, line and column, all from 0. The column is in
    UTF-16."""
    found = check_text(text, path)
    said = []
    for severity, errors in ((1, found.sorted()), (3, found.notes)):
        for each in errors:
            loc = each.loc
            own = [place for place in ([loc, *loc.callers] if loc else []) if place.source.text == text]
            line, column = own[0].source.position(own[0].start) if own else (1, 1)
            before = own[0].source.line(line)[: column - 1] if own else ""
            units = len(before.encode("utf-16-le")) // 2
            hint = f"\nhint: {each.hint}" if each.hint else ""
            said.append((each.code, each.message + hint, severity, line - 1, units))
    return sorted(said, key=str)


def shown(found: list[t.Diagnostic]) -> list[tuple[Any, ...]]:
    """The same of diagnostics."""
    said = [
        (each.code, each.message, int(each.severity or 0), each.range.start.line, each.range.start.character)
        for each in found
    ]
    return sorted(said, key=str)
