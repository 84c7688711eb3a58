"""One variant of a kernel. `build.py` builds tile IR from statements, for given types and dims (`variant.py`).
`compile.py` runs the passes and generates PTX with its header."""
