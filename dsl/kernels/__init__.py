"""One variant of a kernel: statements → tile IR (`build.py`), for given types and dims (`variant.py`), through the
passes to PTX with its header (`compile.py`)."""
