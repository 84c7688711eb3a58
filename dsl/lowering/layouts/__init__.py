"""Layouts: linear maps over F2 that state which lane and register hold each element."""
