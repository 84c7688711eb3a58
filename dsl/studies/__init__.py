"""What is told of a whole file: its errors, what its kernels cost and mean, and why they are as they are."""
