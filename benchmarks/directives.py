"""The gain of each schedule line: every sample is timed with the line, and with another line in its place.

    python3 benchmarks/directives.py --cases "attention 128,product 4096" --json directives.json

A case is a call of a sample at one shape. For each case, LINES lists changed lines. A line is either replaced or added.
The sample's schedule gets another name. A new schedule with the old name includes the renamed schedule with `like`, and
adds the changed line. So the benchmark measures text that an author would write. The compiler chooses some directives
by a rule, without a line in the sample. For such a directive, the line that turns it off is added.

Every result is compared with torch's result before it is timed. All variants of a case are timed in one interleaved
run. The L2 is overwritten between launches, and rests keep the device below its power limit.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from harness.timing import LeftOut, interleaved

import dsl

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
ROUNDS, REST = 15, 1.5
UNTOUCHED = "as it is"


@dataclass(frozen=True, slots=True)
class Case:
    """A call of a dispatch.

    `make` returns the call's arguments, and a dict from the index of an output argument to torch's result. `bound`
    limits errors, as a share of a result's greatest element.
    """

    file: str
    dispatch: str
    make: Callable[[], tuple[list[Any], dict[int, Any]]]
    constants: dict[str, Any] = field(default_factory=dict)
    bound: float = 2e-3


@dataclass(frozen=True, slots=True)
class Line:
    """A line in the schedule of a case.

    `instead` replaces the line to turn it off. The replacement may hold several lines, separated by semicolons. If
    `instead` is None, the line is added to the sample.
    """

    case: str
    schedule: str
    line: str
    instead: str | None = None

    @property
    def changed(self) -> str:
        """The line that makes the variant."""
        return self.line if self.instead is None else self.instead


def randn(*extents: int, dtype: str = "float16") -> Any:
    import torch

    if dtype == "int8":
        return torch.randint(-128, 128, extents, device="cuda", dtype=torch.int8)
    return torch.randn(*extents, device="cuda").to(getattr(torch, dtype))


def product(m: int, n: int, k: int, dtype: str = "float16", along_k: bool = True) -> Callable[[], Any]:
    """The arguments c, a, b of a product. The elements of b are contiguous along k or along n."""

    def make() -> tuple[list[Any], dict[int, Any]]:
        import torch

        a, b = randn(m, k, dtype=dtype), randn(n, k, dtype=dtype).T if along_k else randn(k, n, dtype=dtype)
        c = torch.zeros(m, n, device="cuda", dtype=torch.int32 if dtype == "int8" else a.dtype)
        return [c, a, b], {0: a.double() @ b.double()}

    return make


def attention(d: int, causal: bool, backward: bool = False) -> Callable[[], Any]:
    """The arguments o, q, k, v, scale, lse, or the arguments of the gradients. There are 4 batches of 16 heads with
    4096 keys."""

    def make() -> tuple[list[Any], dict[int, Any]]:
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        q, k, v, g = (randn(4, 16, 4096, d).requires_grad_(backward) for _ in range(4))
        o, scale = scaled_dot_product_attention(q, k, v, is_causal=causal), d**-0.5
        if not backward:
            return [torch.empty_like(o), q, k, v, scale, None], {0: o}
        wanted = torch.autograd.grad(o, (q, k, v), g)
        q, k, v, g, o = (x.detach() for x in (q, k, v, g, o))
        lse = torch.empty(4, 16, 4096, device="cuda")
        dsl.load(SAMPLES / "attention.tile").attention(torch.empty_like(o), q, k, v, scale, lse, CAUSAL=causal)
        made = [torch.empty_like(q) for _ in range(3)]
        return [*made, q, k, v, o, g, lse, scale], dict(enumerate(wanted))

    return make


def layer_norm(rows: int, cols: int) -> Callable[[], Any]:
    def make() -> tuple[list[Any], dict[int, Any]]:
        import torch

        x, weight, bias = randn(rows, cols), randn(cols), randn(cols)
        wanted = torch.nn.functional.layer_norm(x.float(), (cols,), weight.float(), bias.float(), 1e-5)
        return [torch.empty_like(x), x, 1e-5, weight, bias, None, None], {0: wanted}

    return make


CASES = {
    "product 4096": Case("matmul.tile", "matmul", product(4096, 4096, 4096)),
    "product 4096, a @ b": Case("matmul.tile", "matmul", product(4096, 4096, 4096, along_k=False)),
    "product 4096, s8": Case("matmul.tile", "matmul", product(4096, 4096, 4096, "int8")),
    "product 8192": Case("matmul.tile", "matmul", product(8192, 8192, 8192)),
    "product 16 x 4096 x 4096": Case("matmul.tile", "matmul", product(16, 4096, 4096)),
    "attention 64": Case("attention.tile", "attention", attention(64, False)),
    "attention 128": Case("attention.tile", "attention", attention(128, False)),
    "attention 64, causal": Case("attention.tile", "attention", attention(64, True), {"CAUSAL": True}),
    "attention 128, causal": Case("attention.tile", "attention", attention(128, True), {"CAUSAL": True}),
    "gradients 64, causal": Case(
        "attention_backward.tile", "attention_backward", attention(64, True, True), {"CAUSAL": True}, 1e-2
    ),
    "layer_norm 1000": Case("layer_norm.tile", "layer_norm", layer_norm(16384, 1000)),
    "layer_norm 8192": Case("layer_norm.tile", "layer_norm", layer_norm(8192, 8192)),
}
LINES = (
    Line("product 4096", "mma_sync", "stage a, b: shared", "stage a, b: registers; pipeline p: 1"),
    Line("product 4096", "mma_sync", "pipeline p: 3", "pipeline p: 1"),
    Line("product 4096", "mma_sync", "pipeline p: 3", "pipeline p: 2"),
    Line("product 4096", "mma_sync", "subtile acc", "subtile acc: 128, 256"),
    Line("product 4096", "mma_sync", "prefetch_fragments p: early", "prefetch_fragments p: whole"),
    Line("product 4096", "mma_sync", "prefetch_fragments p: early", "prefetch_fragments p: late"),
    Line("product 4096", "mma_sync", "unroll p: 2", "unroll p: 1"),
    Line("product 4096", "mma_sync", "l2_group 8", "l2_group 1"),
    Line("product 4096", "mma_sync", "persistent 1"),
    Line("product 4096", "mma_sync", "split p: stream"),
    Line("product 4096", "mma_sync", "TM, TN, warps = 128, 128, 4"),
    Line("product 4096, a @ b", "mma_sync", "stage c: shared", "stage c: registers"),
    Line("product 4096, a @ b", "mma_sync", "prefetch_fragments p: early", "prefetch_fragments p: whole"),
    Line("product 4096, s8", "mma_sync", "prefetch_fragments p: early", "prefetch_fragments p: whole"),
    Line("product 4096, s8", "mma_sync", "persistent 1"),
    Line("product 8192", "stream_k", "prefetch_fragments p: late", "prefetch_fragments p: early"),
    Line("product 8192", "stream_k", "prefetch_fragments p: late", "prefetch_fragments p: whole"),
    Line("product 8192", "stream_k", "subtile acc: 128, 64", "subtile acc: 64, 64"),
    Line("product 8192", "stream_k", "TN = 192", "TN = 256; subtile acc: 128, 128"),
    Line("product 8192", "stream_k", "l2_group 8", "l2_group 1"),
    Line("product 8192", "stream_k", "persistent 1"),
    Line("product 16 x 4096 x 4096", "mma_sync", "split p: PARTS", "split p: 1"),
    Line("product 16 x 4096 x 4096", "mma_sync", "split p: PARTS", "split p: stream"),
    Line("product 16 x 4096 x 4096", "mma_sync", "pipeline p: 6", "pipeline p: 2"),
    *(Line(name, "attend_tile", "peel j: seen", "peel j: false") for name in CASES if name.startswith("attention")),
    *(Line("attention 64", "attend_tile", "pipeline j: 3", f"pipeline j: {n}") for n in (1, 2)),
    *(Line("attention 128", "attend_tile", "pipeline j: 2", f"pipeline j: {n}") for n in (1, 3)),
    *(
        Line(name, "attend_tile", "choose tile_order.grid: descending", "choose tile_order.grid: ascending")
        for name in CASES
        if name.endswith("causal") and name.startswith("attention")
    ),
    *(
        Line(f"attention {d}", "attend_tile", "stage k, v: shared", "stage k, v: registers; pipeline j: 1")
        for d in (64, 128)
    ),
    *(Line(f"attention {d}", "attend_tile", "stage o: shared", "stage o: registers") for d in (64, 128)),
    Line("attention 64", "attend_tile", "stage q: shared"),
    Line("attention 128", "attend_tile", "stage q: shared", "stage q: registers"),
    Line("attention 128", "attend_tile", "choose place.shared: closer", "choose place.shared: joined"),
    Line("gradients 64, causal", "rows", "peel j: seen", "peel j: false"),
    Line("gradients 64, causal", "columns", "peel i: seen", "peel i: false"),
    Line("gradients 64, causal", "columns", "stage lse, sums: shared", "stage lse, sums: registers"),
    Line("gradients 64, causal", "columns", "pipeline i: 3", "pipeline i: 1"),
    Line("layer_norm 1000", "row_lanes", "layout v", "warps = 8"),
    Line("layer_norm 8192", "row_block", "warps = 8", "warps = 4"),
)


def variant(folder: Path, file: str, line: Line | None) -> Path:
    """Writes the sample with a line changed, into a folder that has all samples."""
    text = (SAMPLES / file).read_text()
    if line is not None:
        head = re.search(rf"^schedule {line.schedule} of ([^:\n]*):", text, re.MULTILINE)
        launch = re.search(rf"(\w+)(?:\([^)\n]*\))? with [^\n]*\b{line.schedule}\b", text)
        base, name = f"{line.schedule}_as_it_is", line.schedule
        if head is not None:
            kernel, text = head[1], text[: head.start()] + f"schedule {base} of {head[1]}:" + text[head.end() :]
        elif launch is not None:  # the schedule is a part of `dsl/std`
            kernel, base, name = launch[1], line.schedule, f"{line.schedule}_changed"
            text = re.sub(rf"( with [^\n]*)\b{base}\b", rf"\1{name}", text)
        else:
            raise LeftOut(f"{file} has no schedule {line.schedule}")
        text += f"\nschedule {name} of {kernel}:\n    like {base}\n"
        text += "".join(f"    {each.strip()}\n" for each in line.changed.split(";"))
    path = folder / file
    path.write_text(text)
    return path


def launch_of(case: Case, line: Line | None, arguments: list[Any]) -> Callable[[], object]:
    """A call of the dispatch with a line changed."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for each in SAMPLES.glob("*.tile"):
            shutil.copy(each, folder)
        module = dsl.load(variant(folder, case.file, line))
    function = getattr(module, case.dispatch)
    return lambda: function(*arguments, **case.constants)


def measure(name: str, case: Case, lines: list[Line], rounds: int) -> dict[str, float]:
    """Maps each changed line to the median time in microseconds. Variants that the compiler refuses are printed."""
    arguments, wanted = case.make()
    launches: dict[str, Any] = {}
    for line in (None, *lines):
        changed = UNTOUCHED if line is None else line.changed
        try:
            launch = launch_of(case, line, arguments)
            for i in wanted:
                arguments[i].fill_(-77)
            launch()
        except dsl.TileError as error:
            print(f"{name}: {changed}: {str(error).splitlines()[0]}")
            continue
        for i, want in wanted.items():
            error = (arguments[i].double() - want.double()).abs().max() / want.double().abs().max()
            if not error <= case.bound:
                raise LeftOut(f"{name}: {changed}: {error.item():.1e} away")
        launches[changed] = launch
    return {made: median(times) for made, times in interleaved(launches, rounds, rest=REST).items()}


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", help="of: " + "; ".join(CASES) + "; separated by semicolons")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    chosen = [each.strip() for each in given.cases.split(";")] if given.cases else list(CASES)
    rows = []
    print("| case | line | with | without | buys |\n|---|---|---|---|---|")
    for name in chosen:
        lines = [line for line in LINES if line.case == name]
        times = measure(name, CASES[name], lines, given.rounds)
        torch.cuda.empty_cache()
        base = times[UNTOUCHED]
        for line in lines:
            if line.changed not in times:
                continue
            on, off = (times[line.changed], base) if line.instead is None else (base, times[line.changed])
            said = f"`{line.line}`" + (f", not `{line.instead}`" if line.instead else ", added")
            print(f"| {name} | {said} | {on:.1f} | {off:.1f} | {off / on:.2f} |", flush=True)
            rows.append({"case": name, "line": line.line, "instead": line.instead, "with": on, "without": off})
        if given.json:
            given.json.write_text(json.dumps({"device": torch.cuda.get_device_name(0), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
