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
@click.argument("name", required=False)
@click.option("--from", "sample", metavar="SAMPLE", help="Copy a sample, with the samples that it imports.")
@click.option("--list", "listed", is_flag=True, help="List the samples, and write nothing.")
def command(name: str | None, sample: str | None, listed: bool) -> int:
    """Write NAME.tile, a small kernel with a schedule and an example, or a copy of a sample. Refuses to overwrite."""
    try:
        if listed:
            return list_samples()
        if name is None:
            raise TileError("option", None, "NAME is missing", "dsl new NAME, or dsl new --list, which names samples")
        path = Path(name if name.endswith(".tile") else f"{name}.tile")
        written = write_new({path: from_template(path)} if sample is None else from_sample(path, sample))
    except (TileError, OSError) as error:
        return show(error)
    click.echo(f"{', '.join(map(str, written))}: try 'dsl run {path}'")
    return 0


def list_samples() -> int:
    from dsl.command.samples import sample_names, summary
    from dsl.text.terminal import Terminal, table

    rows = [(name, summary(name)) for name in sample_names()]
    Terminal().show(table(("sample", "shows"), rows, left=2), indent=0)
    return 0


def from_template(path: Path) -> str:
    """The text of a kernel that is named as its file is. Raises TileError `option` if no kernel can have the name."""
    kernel = path.stem
    if not (kernel.isascii() and kernel.isidentifier()):
        hint = "letters, digits and underscores"
        raise TileError("option", None, f"'{kernel}' cannot name a kernel", hint)
    # The template works with every name that passes the checks below.
    if iskeyword(kernel):
        raise TileError("option", None, f"'{kernel}' is a word of the language")
    text = TEMPLATE.format(name=kernel, file=path)
    try:
        parse_program(text)
    except TileError as error:
        raise TileError("option", None, error.message) from None
    return text


def from_sample(path: Path, sample: str) -> dict[Path, str]:
    """The files of a copy of a sample. Only its file is named anew, so the name need not be one of the language."""
    from dsl.command.samples import copies

    if path.name.startswith(".") or not str(path).isprintable():
        raise TileError("option", None, f"{str(path)!r} cannot name the copy", "dsl new NAME.tile --from SAMPLE")
    return copies(sample, path)


def write_new(texts: dict[Path, str]) -> list[Path]:
    """Writes files that do not exist yet, and returns their paths."""
    for path, text in texts.items():
        try:
            # "x" fails if another process has made the file in the meantime. An existing file is never overwritten.
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise TileError("file", None, f"{path} exists", "choose another name") from None
    return list(texts)
