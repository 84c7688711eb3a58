"""The shared parts of the benchmarks: interleaved timing, intervals, tables, records, plots and the command line.

    SOFTMAX = Benchmark(SAMPLE, operations, {"torch": torch_launch}, types=("f16",), key="cols", …)
    run(SOFTMAX, parser(__doc__, SOFTMAX).parse_args())

A benchmark describes its problems (contest.py), how peers launch these problems, and the shapes (command.py).
"""

from .command import Benchmark, Shape, parser, run
from .contest import Peer, Yardstick
from .intervals import Interval
from .launches import Call
from .timing import LeftOut, interleaved

__all__ = ["Benchmark", "Call", "Interval", "LeftOut", "Peer", "Shape", "Yardstick", "interleaved", "parser", "run"]
