"""Calls kernels with arrays. Finds dims and types, plans the launches of a call, and defines the Python API."""
