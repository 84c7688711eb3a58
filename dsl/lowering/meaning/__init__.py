"""Reference semantics of the tile IR in numpy: one function for each operation, by the families of `dsl/lowering/ops/`.

They are written from docs/language.md and docs/functions.md, independently of `dsl/lowering/emit`. `dsl verify` and the
tests check that the two agree.
"""

from dsl.lowering.meaning import control, elementwise, matrix, memory, pipelines, shapes, threads
from dsl.lowering.meaning.run import (
    MEANINGS,
    MeaningArguments,
    MeaningMemory,
    Outside,
    Run,
    Undecided,
    arguments_of,
    as_memory,
    blocks_of,
    carried_blocks,
    write_back,
)

FAMILIES = (elementwise, shapes, threads, matrix, memory, pipelines, control)

__all__ = [
    "FAMILIES",
    "MEANINGS",
    "MeaningArguments",
    "MeaningMemory",
    "Outside",
    "Run",
    "Undecided",
    "arguments_of",
    "as_memory",
    "blocks_of",
    "carried_blocks",
    "write_back",
]
