"""How much the emulator reads and lays out. Beyond these limits it refuses the text, with its line, and does not grow.

Each limit is far above what compilers emit, and low enough that a text at all of them is read or refused within 5 s and
1 GB.
"""

MOST_TEXT = 64 << 20  # bytes of a PTX text
MOST_REGISTERS = 100_000  # that one function declares
MOST_DEPTH = 100  # braces in braces; and signs and brackets in a constant, where the reader recurses
# Of a kernel, with its calls inlined: calls in calls may double the text at each level.
MOST_INSTRUCTIONS = 50_000
MOST_VARIABLE = 1 << 28  # bytes of all `.global` variables
MOST_ALIGNMENT = 1 << 16  # bytes
MOST_LOCAL = 1 << 27  # bytes of local memory of the threads that run together, at least those of a cluster
MOST_SHARED = 227 << 10  # bytes of shared memory of a block (CUDA C++ guide, compute capability 9.0 and 10.0)
