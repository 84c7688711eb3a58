"""Reference semantics of the tile IR in numpy. Each operation has one function. The files follow the families of
`dsl/lowering/ops/`.

The functions are written from docs/language.md and docs/functions.md, independently of `dsl/lowering/emit`. `dsl
verify` and the tests check that emission agrees with them.
"""

from dsl.lowering.meaning import control, elementwise, matrix, memory, pipelines, shapes, threads
from dsl.lowering.meaning.run import MEANINGS, Outside, blocks_of, carried_blocks

FAMILIES = (elementwise, shapes, threads, matrix, memory, pipelines, control)

__all__ = ["FAMILIES", "MEANINGS", "Outside", "blocks_of", "carried_blocks"]
