"""Shared memory: addresses of accesses to shared tiles, swizzles, widths of accesses."""
