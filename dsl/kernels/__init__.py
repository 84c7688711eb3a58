"""Compiles one variant of a kernel: the kernel for given types, constants and sizes. `build.py` builds its tile IR, and
`variant.py` resolves names and constants. `compile.py` runs the passes and generates PTX with its header."""
