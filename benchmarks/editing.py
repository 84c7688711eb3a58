"""The time from an edit in an editor to its diagnostics: of the first pass, and of the whole check.

    python3 benchmarks/editing.py
    python3 benchmarks/editing.py --samples softmax,matmul --edits 50

A language server runs in a process of its own, with an empty compile cache, and gets one edit after another. A
"comment" is written between blocks, a "statement" into the first kernel, and "random" edits insert, delete and move
text, so most of them break a block. Times are in milliseconds, from sending the edit to the arrival of its
diagnostics: the median, and the most. They contain the delays of the server: 5 ms ahead of the first pass, 150 ms ahead
of the check. It needs no GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "dsl")]

from editor_session import EditorSession  # noqa: E402
from test_server import edited  # noqa: E402


def commented(text: str, number: int) -> str:
    return f"# comment {number}\n{text}"


def in_kernel(text: str, number: int) -> str:
    return re.sub(r"(^    grid .*\n)", rf"\1    one_more = {number} + 1\n", text, count=1, flags=re.M)


async def measure(path: Path, edits: int) -> list[str]:
    text, uri, draw = path.read_text(), path.as_uri(), random.Random(path.stem)
    row = [path.stem]
    with tempfile.TemporaryDirectory() as cache:
        async with EditorSession(cache) as editor:
            editor.open(uri, text)
            await editor.whole(uri)
            for edit, count in ((commented, edits), (in_kernel, max(edits // 4, 3))):
                quick, whole = [], []
                for number in range(count):
                    sent = editor.edit(uri, edit(text, number))
                    quick.append(1e3 * ((await editor.quick(uri))[0] - sent))
                    whole.append(1e3 * ((await editor.whole(uri))[0] - sent))
                row += [f"{median(quick):.0f}, {max(quick):.0f}", f"{median(whole):.0f}, {max(whole):.0f}"]
            quick = []
            for _ in range(4 * edits):
                sent = editor.edit(uri, edited(text, draw))
                quick.append(1e3 * ((await editor.quick(uri))[0] - sent))
            row.append(f"{median(quick):.0f}, {max(quick):.0f}")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", default="", help="names of samples, with commas between them")
    parser.add_argument("--edits", type=int, default=20, help="edits of each kind")
    options = parser.parse_args()
    wanted = options.samples.split(",") if options.samples else None
    print("| sample | comment: first pass | check | statement: first pass | check | random: first pass |")
    print("|---|---|---|---|---|---|")
    for path in sorted((ROOT / "samples").glob("*.tile")):
        if wanted is None or path.stem in wanted:
            row = asyncio.run(measure(path, options.edits))
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
