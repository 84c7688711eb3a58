"""Evaluates expressions of the language. One class walks the syntax tree, and a subclass handles each kind of value."""
