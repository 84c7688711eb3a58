"""Runs the examples of `.tile` files as tests: `pytest kernels.tile` runs each example on each available device. The
contracts of the examples must hold.

A file is collected if the command line names it, or if it is below a folder of the option `tile_paths`. Until a file is
collected, no other module of the package is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class ExampleFailure(Exception):
    """Raised if an example cannot be run, or if its expectations do not hold. The message is the reason."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tile_paths", "folders below which each example of a .tile file is a test", "paths", [])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".tile" or not is_asked_for(file_path, parent):
        return None
    return TileFile.from_parent(parent, path=file_path)


def is_asked_for(path: Path, parent: pytest.Collector) -> bool:
    """Returns whether the command line names the file, or the file is below a folder of `tile_paths`."""
    if any(path.is_relative_to(folder) for folder in parent.config.getini("tile_paths")):
        return True
    given = [argument.partition("::")[0] for argument in parent.config.invocation_params.args if ".tile" in argument]
    return path in [Path(parent.config.invocation_params.dir, each).resolve() for each in given]


class TileFile(pytest.File):
    """A `.tile` file with its examples. They run on the emulator and, if there is one, on a GPU."""

    def collect(self) -> Iterator[pytest.Item]:
        from dsl.command.request import examples_of
        from dsl.lowering.ir.location import TileError
        from dsl.runtime import gpu_reason

        devices = ["emulator"] if gpu_reason() is not None else ["emulator", "cuda:0"]
        try:
            examples = examples_of(str(self.path))
        except TileError as error:
            raise self.CollectError(error.render()) from None
        for index, (example, line) in enumerate(examples):
            for device in devices:
                name = f"{example or f'example {index}'.removesuffix(' 0')}[{device.partition(':')[0]}]"
                yield TileItem.from_parent(self, name=name, index=index, device=device, line=line)


class TileItem(pytest.Item):
    """An example on one device. On a GPU, it runs in its own process, because a GPU fault ends the process."""

    def __init__(self, index: int, device: str, line: int, **rest: Any):
        super().__init__(**rest)
        self.index, self.device, self.line = index, device, line

    def runtest(self) -> None:
        from dsl.command.failures import render
        from dsl.command.options import TIME_LIMIT
        from dsl.command.request import CommandRequest
        from dsl.command.run import run_request

        request = CommandRequest(str(self.path), self.device, "pytest", index=self.index, time_limit=TIME_LIMIT)
        try:
            report = run_request(request, False, TIME_LIMIT)
        except Exception as error:
            raise ExampleFailure(render(error, str(self.path))[0]) from error
        wrong = [
            f"{self.path}:{check.line}: {check.text}: {described(check)}" for check in report.checks if not check.passed
        ]
        wrong += [verdict.rendered for verdict in report.failed]
        for verdict in report.contracts:
            if verdict.held is None:
                self.add_report_section("call", "contracts that are not judged", f"{verdict.text}: {verdict.reason}\n")
        if wrong:
            raise ExampleFailure("\n".join(wrong))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Returns the error as `dsl run` prints it, without a traceback."""
        if isinstance(excinfo.value, ExampleFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name


def described(check: Any) -> str:
    """Describes the difference between a wrong result and the wanted result."""
    if check.first is None:
        return "false"
    where = f"{check.wrong} of {check.size} elements differ: {check.pattern}"
    return f"{where}; first at {check.first}: {check.actual}, wanted {check.wanted}"
