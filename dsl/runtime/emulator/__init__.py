"""A strict emulator of PTX: runs a kernel in numpy, reports its faults, and counts its instructions and memory traffic.

```text
reader.py      PTX text to instructions            memory.py     allocations and address windows
code.py        operands to frame entries           spaces.py     bounds, alignment, traffic
program.py     segments, order, register slots     shadow.py     races, uninitialised reads
instructions/  one closure for each instruction    ordering.py   happens-before
launch.py      arguments, waves, results           copies.py     asynchronous operations
wave.py        scheduling of threads               rendezvous.py warp and block barriers
group.py       threads that run together           mbarriers.py  mbarrier objects
counters.py, traffic.py  counters, sectors         landings.py   copies that mbarriers complete
products.py    wgmma in flight, proxy fences       descriptors.py  layout of wgmma operands
sums_in_flight.py  registers of products in flight   alike.py  stores of equal bytes
tensor_maps.py, tensor_copies.py  TMA copies        register_counts.py  setmaxnreg
undefined.py, undefined_bits.py  unwritten registers
guesses.py     guesses for atom.cas                findings.py    kinds of faults
relaxed.py     relaxed arrivals and waits          scratch.py    workspaces of a call
provenance.py  arrays that stores may reach        printf.py     vprintf
inlining.py    inlined calls                       order.py      order of basic blocks
legal/         legal forms of instructions         limits.py     limits of the accepted PTX
liveness.py    registers live at a block's start
arguments.py   bytes and arrays of the parameters  allocation.py  reuse of freed memory
origins.py     threads and lines of stamps         spinning.py   launches that do not end
numerics.py, integers.py, matrix.py  arithmetic
overlap.py     launches that overlap earlier launches
reductions.py, reductions_in_flight.py  reductions in memory  deliveries.py  copies within a cluster
map_proxy.py   tensor maps that kernels write
```
"""

from .counters import Counters, LaunchCounters
from .findings import EmulatorError, Finding, Kind, LaunchRefusedError, Location, PtxError
from .launch import Result, emulate
from .memory import DevicePointer, Memory
from .overlap import Touched
from .tensor_maps import TensorMapArgument

__all__ = [
    "Counters",
    "DevicePointer",
    "EmulatorError",
    "Finding",
    "Kind",
    "LaunchCounters",
    "LaunchRefusedError",
    "Location",
    "Memory",
    "PtxError",
    "Result",
    "TensorMapArgument",
    "Touched",
    "emulate",
]
