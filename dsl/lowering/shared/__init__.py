"""Computes addresses in shared tiles, swizzles, bank conflicts, and the widths of memory accesses."""
