"""Known facts of integers: linear forms, divisibility, bounds, and offsets as lists."""
