"""Defines limits on the PTX that the emulator accepts. If a text exceeds a limit, the emulator raises an error with the
line number before its memory use grows.

Each limit is far above what compilers emit. The emulator accepts or refuses a text that reaches all limits within 5 s
and 1 GB.
"""

MOST_TEXT = 64 << 20  # bytes of a PTX text
MOST_REGISTERS = 100_000  # registers that one function declares
MOST_DEPTH = 100  # nested braces; nested signs and brackets in a constant, where the reader recurses
# Instructions of a kernel with its calls inlined. Nested calls may double the text at each level.
MOST_INSTRUCTIONS = 50_000
MOST_VARIABLE = 1 << 28  # bytes of all `.global` variables
MOST_ALIGNMENT = 1 << 16  # bytes
MOST_LOCAL = 1 << 27  # bytes of local memory of all threads that run together (at least one cluster)
MOST_SHARED = 227 << 10  # bytes of shared memory of a block (CUDA C++ guide, compute capability 9.0 and 10.0)
