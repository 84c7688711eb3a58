"""The tile IR as text that people read and edit, with all that code needs of it (docs/ir.md).

MLIR's generic form (`dsl.lowering.ir.function.to_mlir`) is for MLIR's tools; it leaves out what they have no use for.
"""
