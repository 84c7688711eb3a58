"""Launches kernels on NVIDIA GPUs through the CUDA driver API. `import dsl.runtime` does not import this package."""
