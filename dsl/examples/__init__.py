"""Checks the examples of a file by shapes alone, runs the examples, compares their results, and makes reports."""
