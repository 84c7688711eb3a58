"""Finds facts about integers at compile time: linear forms, divisibility, bounds, and lists of offsets."""
