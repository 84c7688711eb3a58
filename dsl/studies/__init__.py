"""Tools on a whole file: its errors, the cost and the correctness of its kernels, and the reasons for their code."""
