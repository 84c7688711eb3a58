"""Builds and verifies the IR, computes linear forms of loop-carried values, and copies loop iterations."""
