"""Compiles tile IR to PTX text: the IR and its operations, layouts, passes, and emission through LLVM."""
