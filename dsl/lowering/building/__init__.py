"""Construction and verification of IR, closed forms of loops, and copies of iterations."""
