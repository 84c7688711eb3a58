"""Layouts: linear maps over F2 that state which lane and register contain each element."""
