"""Launches on NVIDIA GPUs through the CUDA driver API. Nothing here is imported before the first launch."""
