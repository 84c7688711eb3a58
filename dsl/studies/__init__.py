"""Tools that examine a whole `.tile` file: its errors, the costs and results of its kernels, and the compiler's
choices."""
