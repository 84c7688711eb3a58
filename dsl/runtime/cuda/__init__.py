"""Launches on NVIDIA GPUs through the CUDA driver API. This package is not imported before the first launch."""
