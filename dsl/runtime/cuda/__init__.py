"""Launches on NVIDIA GPUs through the CUDA driver API. Nothing here is loaded before it is needed."""
