"""What every operation of the tile IR means, in numpy: by family, as the rows of `dsl/lowering/ops/` are.

Written from docs/language.md and docs/functions.md, apart from `dsl/lowering/emit`: that the two agree is what
`dsl verify` and the tests look at.
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
