"""Checks the examples of a file by shapes alone, runs them, compares their results, and makes reports."""
