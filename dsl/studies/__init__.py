"""Tools that examine a whole `.tile` file. They show errors, the costs and correctness of kernels, and the reasons for
the code."""
