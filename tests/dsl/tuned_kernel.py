"""A kernel with sets of constants and choices that is tuned in hundredths of a second."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from dsl.command import cli

PLUGINS = Path(__file__).parents[2] / "docs" / "examples" / "plugins"
SCALE = """\
kernel scale(y: f32[n], x: f32[n]; BLOCK, IDLE = 0):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = load(x[i : i + BLOCK])
    store(y[i : i + BLOCK], v + v)

schedule s of scale:
    tune warps in 1, 2, 4
    tune BLOCK in where(warps == 1, 32, 64), warps * 128
    tune IDLE in 0, 1
    tune choose vector.x.load in 1, 2

example:
    n = 512
    x = randn(f32[n])
    y = empty(f32[n])
    scale(y, x)
    expect y ~= x + x within 0
"""


class Here:
    """A pool of processes that is this process: one takes half a second to start, and milliseconds to compile."""

    def __init__(self, *_: object):
        pass

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, **_: bool) -> None:
        pass


@dataclass
class Timer:
    """mean: microseconds of a launch, from its constants; slowness: of the device; rounds: (launches, rounds)
    of each stage of the contests so far."""

    mean: Callable[[dict[str, Any]], float] = lambda constants: 10 + abs(constants["BLOCK"] - 128) / 64
    slowness: float = 1.0
    rounds: list[tuple[int, int]] = field(default_factory=list)


def dsl(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], standalone_mode=False)


def outcome(path: Path, *arguments: Any, devices: tuple[str, ...] = ("--emulator",)) -> Any:
    """The first outcome of `dsl tune --json`."""
    result = dsl("tune", path, *devices, "--json", *arguments)
    assert result.return_value == 0, result.output
    return json.loads(result.stdout)["outcomes"][0]


def constants(point: Any) -> tuple[Any, ...]:
    """Of a point of an outcome."""
    return tuple(sorted(point["steps"][0]["constants"].items()))


def best(found: Any) -> tuple[Any, ...]:
    """The constants of the winner of an outcome."""
    (point,) = [point for point in found["points"] if point.get("best")]
    return constants(point)


def ties(found: Any) -> set[tuple[Any, ...]]:
    return {constants(point) for point in found["points"] if point.get("ties")}


def plugin(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), PLUGINS / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
