"""Shared memory: addresses of accesses to shared tiles, swizzles, and access widths."""
