"""Tools on a whole file, which show its errors, the cost and correctness of its kernels, and the reasons for their
code."""
