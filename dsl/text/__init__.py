"""Reads `.tile` files: the syntax tree (`syntax.py`, `tree.py`), and the named blocks of a file and of its imports
(`program.py`). Nothing in this package evaluates expressions."""
