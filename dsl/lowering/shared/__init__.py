"""Shared memory: where accesses of a shared tile go, swizzles, and how wide one access is."""
