"""Evaluates expressions of the language. One class walks the syntax tree. Each subclass computes one kind of value,
such as Python numbers, numpy arrays or IR values."""
