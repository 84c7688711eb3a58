"""What each directive buys on a product of eight lines, beside one written by hand.

    python3 benchmarks/directives.py --n 4096,8192 --json directives.json

`registers` stages nothing, `one_slot` … `four_slots` are the slots of the ring, `in_order` takes tiles in the order of
the grid, `narrow` stores 4 bytes a thread at a time, `rolled` does one round after another, `by_rule` says nothing. A
result is compared with torch's before it is timed. One interleaved run a shape, the L2 overwritten in between, with
rests that keep the device below its power limit.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from harness.timing import LeftOut, interleaved

import dsl

HERE = Path(__file__).resolve().parent
ROUNDS, REST = 15, 1.5


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", default="1024,4096,8192", help="extents of square products")
    parser.add_argument("--m", default="16,64", help="rows of skinny products, by 4096 x 4096")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    plain = dsl.load(HERE / "peers" / "directives.tile")
    hand = dsl.load(HERE / "peers" / "by_hand" / "matmul.tile")
    shapes = [(int(n),) * 3 for n in given.n.split(",") if n] + [(int(m), 4096, 4096) for m in given.m.split(",") if m]
    rows = []
    for m, n, k in shapes:
        a, b = (torch.randn(extent, k, device="cuda", dtype=torch.float16) for extent in (m, n))
        wanted = a.float() @ b.float().T
        launches: dict[str, Any] = {}
        for name in ("by hand", *plain.program.schedules_of("product"), "torch"):
            c = torch.zeros(m, n, device="cuda", dtype=torch.float16)
            launches[name] = launch_of(plain, hand, name, c, a, b)
            launches[name]()
            error = (c.float() - wanted).abs().max().item()
            if error > 2e-3 * wanted.abs().max().item():
                raise LeftOut(f"{name} at {m} x {n} x {k}: {error} away")
        times = {name: median(each) for name, each in interleaved(launches, ROUNDS, rest=REST).items()}
        rows.append({"m": m, "n": n, "k": k, "microseconds": times})
        rates = {name: 2 * m * n * k / time / 1e6 for name, time in times.items()}
        print(f"{m} x {n} x {k}: " + ", ".join(f"{name} {times[name]:.1f} us ({rates[name]:.0f})" for name in times))
    if given.json:
        given.json.write_text(json.dumps({"device": torch.cuda.get_device_name(0), "rows": rows}, indent=1))


def launch_of(plain: dsl.Module, hand: dsl.Module, name: str, c: Any, a: Any, b: Any) -> Any:
    import torch

    if name == "torch":
        return lambda: torch.mm(a, b.T, out=c)
    if name == "by hand":
        return lambda: hand.matmul(c, a, b, B_T=True)
    return lambda: plain.product(c, a, b, schedule=name)


if __name__ == "__main__":
    main()
