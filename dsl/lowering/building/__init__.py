"""Construction and verification of IR, linear forms of loop-carried values, and copies of iterations."""
