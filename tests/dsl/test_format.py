"""`dsl format`: nothing but white space changes, a second pass changes nothing, and the files of the tree stay."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dsl.command import cli
from dsl.lowering.ir.location import TileError
from dsl.text import formatter
from dsl.text.formatter import Unfaithful, alike, comments, formatted
from dsl.text.syntax import parse, tokens
from tests.random_kernels.kernels import kernel_of
from tests.whole import some

ROOT = Path(__file__).parents[2]
FOLDERS = ("samples", "dsl/std", "dsl/library", "dsl/lab", "docs", "benchmarks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.tile"))
MISTAKEN = sorted((ROOT / "tests" / "errors").rglob("*.tile"))
EACH = 25


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["format", *words], input=given, standalone_mode=False)


def same(one: str, other: str) -> bool:
    return alike(parse(one).blocks, parse(other).blocks)


def spaced(text: str, draw: random.Random) -> str:
    """Other spaces between the tokens of each line, and other indentation. Comments stand where they stood."""
    out, end = "", 0
    for token in tokens(text):
        if token.type in ("_NL", "_INDENT", "_DEDENT", "$END"):
            continue
        gap = text[end : token.start_pos]
        if "\n" not in gap and end:
            # What the lexer would read as one token needs a space.
            joined = re.fullmatch(r"[\w.]+|[-+*/%@|^&<>=~!]+", out[-1] + str(token)[0]) or (gap and token == ".")
            out += " " * (draw.randrange(4) or bool(joined))
        else:
            out += gap
        out += str(token)
        end = token.end_pos or 0
    return out + text[end:] + " " * draw.randrange(3)


def widened(text: str, draw: random.Random) -> str:
    """Blocks indented by another width, and with tabs. Lines in brackets move with them, or do not."""
    width = draw.choice([1, 2, 3, 7, 8])
    made, depth = [], 0
    for line in text.split("\n"):
        code = re.sub(r'"[^"]*"|#.*', "", line)
        levels, rest = divmod(len(line) - len(line.lstrip()), 4)
        indent = " " * (levels * width) if not depth and not rest else line[: len(line) - len(line.lstrip())]
        made.append((indent.replace(" " * 8, "\t") if draw.random() < 0.5 else indent) + line.lstrip())
        depth += sum(map(code.count, "([")) - sum(map(code.count, ")]"))
    return "\n".join(made)


def commented(text: str, draw: random.Random) -> str:
    """More comments and blank lines anywhere, and line ends of Windows."""
    made = []
    for line in text.split("\n"):
        for _ in range(draw.randrange(4) if draw.random() < 0.2 else 0):
            made.append(draw.choice(["", "  ", "# above", " " * draw.randrange(12) + '#  "quoted', "\t# tab"]))
        if '"' not in line and "#" not in line and line.strip() and draw.random() < 0.3:
            line += " " * draw.randrange(9) + draw.choice(["# behind", "#behind  ", "#"])
        made.append(line)
    return draw.choice(["\n", "\r\n"]).join(made)


def check(text: str, seed: int) -> None:
    """The formatter's promises for a text, and for the text in other shapes."""
    draw = random.Random(seed)
    result = formatted(text)
    assert formatted(result) == result
    assert formatted(spaced(text, draw)) == result or "#" in text  # a longer line pushes its comment
    for shape in (spaced, widened, commented):
        other = shape(text, draw)
        assert same(other, text), f"{shape.__name__} of seed {seed} is no fair test"
        once = formatted(other)
        assert formatted(once) == once, shape.__name__
        assert same(once, text) and comments(once) == comments(other), shape.__name__
        assert not re.search(r"[ \t\r]$|\t|\n\n\n\n|\n\n\Z|\A\n", once, re.M if shape is spaced else 0)
        levels = re.findall(r"^( *)(?:if|for|while|grid)\b", once, re.M)
        assert all(len(each) % 4 == 0 for each in levels), shape.__name__


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_of_the_tree_are_formatted(path: Path) -> None:
    text = path.read_text()
    assert formatted(text, str(path)) == text, f"dsl format {path}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_other_shapes_of_a_file_keep_its_meaning(path: Path) -> None:
    check(path.read_text(), 1)


def test_other_shapes_of_mistaken_files_keep_their_meaning() -> None:
    parsed = 0
    for number, path in enumerate(some(MISTAKEN, 4)):
        text = path.read_text()
        try:
            formatted(text)
        except TileError:
            with pytest.raises(TileError):
                parse(text)
            continue
        check(text, number)
        parsed += 1
    assert parsed > 30


@pytest.mark.parametrize("start", some(range(0, 1000, EACH), 20))
def test_random_programs_keep_their_meaning(start: int) -> None:
    for seed in range(start, start + EACH):
        check(kernel_of(seed).text(), seed)


SHAPES = {
    "f( a,b = 1 )": "f(a, b=1)",
    "x [1:2,: , 3 :,None]": "x[1 : 2, :, 3:, None]",
    "x  [ - 1 ]+-y": "x[-1] + -y",
    "not ( a )or(b)": "not (a) or (b)",
    "a.to( f32 ) .T": "a.to(f32).T",
    "2 .to(f32)": "2 .to(f32)",
    "[1,2 ,]": "[1, 2,]",
    "f ( ... )": "f(...)",
    "a<b<=(c|d)": "a < b <= (c | d)",
}


@pytest.mark.parametrize("written", SHAPES)
def test_spaces_in_expressions(written: str) -> None:
    assert formatted(f"def f(a):\n    return  {written}") == f"def f(a):\n    return {SHAPES[written]}\n"


LINES = {
    "contiguous[2,1]": "contiguous [2, 1]",
    "layout v , w.copy:vector[1,V],lanes [32/G,G]": "layout v, w.copy: vector [1, V], lanes [32 / G, G]",
    "loop v,1 : static(256)": "loop v, 1: static (256)",
    "V ,W=f( a [1] ) , 2": "V, W = f(a[1]), 2",
    "expect choice vector.x.load [1]==4 ": "expect choice vector.x.load[1] == 4",
    'expect spills==0,sectors( y )<=1.05 on"H200"': 'expect spills == 0, sectors(y) <= 1.05 on "H200"',
    "tune choose swizzle.s [ 0 ]in 1,2": "tune choose swizzle.s[0] in 1, 2",
}


@pytest.mark.parametrize("written", LINES)
def test_spaces_in_schedules(written: str) -> None:
    assert formatted(f"schedule s of k:\n  {written}\n") == f"schedule s of k:\n    {LINES[written]}\n"


BLOCKS = """\
import"a.tile"as  a
kernel k(y:T [n,m;strided] ,x : f32[ n=m-2 ],z : table s32 [3];
         T in f16 | bf16=f16 ,B=f( 3|1,a = 1 )):
  shared s , t :f32[ring 2,n]
dispatch d( x,y ) :k( x,a = 1 )with s,N = 3
example :
  k( x )with a.s
  expect y~=x within 1e-2 , 1
"""
WANTED_BLOCKS = """\
import "a.tile" as a
kernel k(y: T[n, m; strided], x: f32[n = m - 2], z: table s32[3];
         T in f16|bf16 = f16, B = f(3 | 1, a=1)):
    shared s, t: f32[ring 2, n]
dispatch d(x, y): k(x, a=1) with s, N=3
example:
    k(x) with a.s
    expect y ~= x within 1e-2, 1
"""


def test_spaces_of_blocks() -> None:
    assert formatted(BLOCKS) == WANTED_BLOCKS


def test_comments_keep_their_columns() -> None:
    written = """\
# at the start


def f(a): # near
  # in
  b  =  1          # far
  c = f(b,
        a)         # far
  if a:
      return b  # aligned
      c =  22   # aligned
                # and on
      # of the branch
    # of the branch, too
  # of f
# of nothing
  return c # near
  # last of f
# last
"""
    wanted = """\
# at the start


def f(a):  # near
    # in
    b = 1          # far
    c = f(b,
          a)       # far
    if a:
        return b  # aligned
        c = 22    # aligned
                  # and on
        # of the branch
    # of the branch, too
    # of f
    # of nothing
    return c  # near
    # last of f
# last
"""
    assert formatted(written) == wanted


def test_a_text_of_comments_alone_stays() -> None:
    assert formatted("") == formatted("\n \n") == ""
    assert formatted("\n # a\n\n\n\n\n#b") == "# a\n\n\n#b\n"


def test_the_formatter_refuses_to_change_the_meaning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "a.tile"
    path.write_text("def f(a):\n  return not a\n")
    monkeypatch.setattr(formatter, "spaces_between", lambda found, *_: [token == "a" for token in found])
    with pytest.raises((Unfaithful, TileError)):
        formatted(path.read_text())
    assert run(str(path)).return_value != 0 and path.read_text() == "def f(a):\n  return not a\n"
    monkeypatch.undo()
    lines = formatter._Layout.lines
    monkeypatch.setattr(formatter._Layout, "lines", lambda self: [each.replace("not ", "-") for each in lines(self)])
    with pytest.raises(Unfaithful):
        formatted(path.read_text())


def test_the_command_writes_checks_and_prints(tmp_path: Path) -> None:
    path, wrong = tmp_path / "a.tile", tmp_path / "b.tile"
    path.write_bytes(b"def f(a):\r\n  return a+1\r\n")
    wrong.write_text("def f(a:\n")
    wanted = "def f(a):\n    return a + 1\n"
    assert run("--check", str(path)).return_value == 1
    assert b"\r" in path.read_bytes()
    found = run("--diff", str(path))
    assert found.return_value == 1 and "+    return a + 1\n" in found.output
    found = run("-", given="def f(a):\n  return a+1")
    assert found.return_value == 0 and found.output == wanted
    found = run(str(wrong), str(path))
    assert found.return_value == 2 and "error[syntax]" in found.output
    assert path.read_bytes() == wanted.encode() and wrong.read_text() == "def f(a:\n"
    assert run("--check", str(path)).return_value == run(str(path)).return_value == 0
    assert run("-", given="def").return_value == 2
