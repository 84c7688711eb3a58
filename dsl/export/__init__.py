"""Exporting kernels as C on the CUDA driver (docs/deployment.md)."""
