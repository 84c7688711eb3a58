"""`dsl new`: writes a small kernel to start from."""

from __future__ import annotations

from keyword import iskeyword
from pathlib import Path

import click

from dsl.command.failures import show
from dsl.lowering.ir.location import TileError
from dsl.text.program import parse_program

TEMPLATE = """\
# y = a * x + y, element by element. Run it with: dsl run {file}

kernel {name}(y: T[n], x: T[n], a: f32; T in f32|f16, BLOCK):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = load(x[i : i + BLOCK]).to(f32)                  # past the end of x: zeros
    store(y[i : i + BLOCK], (a * v + load(y[i : i + BLOCK]).to(f32)).to(T))

schedule wide of {name}:
    V = minimum(16 / size(T), pow2_divisor(n))          # elements of one access
    tune warps in 4, 8                                  # the first is the default
    BLOCK = warps * 32 * V
    layout v: vector [V], lanes [32], warps [warps]

example:
    n = 100000
    x = randn(T[n])
    y = randn(T[n])
    expected = 2.0 * x + y
    {name}(y, x, 2.0)
    expect y ~= expected within 1e-2
    moves 3 * bytes(x)
"""


@click.command()
@click.argument("name")
def command(name: str) -> int:
    """Write NAME.tile, a small kernel with a schedule and an example. Refuses to overwrite."""
    path = Path(name if name.endswith(".tile") else f"{name}.tile")
    kernel = path.stem
    if not (kernel.isascii() and kernel.isidentifier()):
        hint = "letters, digits and underscores"
        return show(TileError("option", None, f"'{kernel}' cannot name a kernel", hint))
    text = TEMPLATE.format(name=kernel, file=path)
    # The template works with every name that passes the checks below.
    if iskeyword(kernel):
        return show(TileError("option", None, f"'{kernel}' is a word of the language"))
    try:
        parse_program(text)
    except TileError as error:
        return show(TileError("option", None, error.message))
    try:
        # "x" fails if another process has made the file in the meantime. An existing file is never overwritten.
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        return show(TileError("file", None, f"{path} exists", "choose another name"))
    except OSError as error:
        return show(error)
    click.echo(f"{path}: try 'dsl run {path}'")
    return 0
