"""Building and verifying IR; loops in closed form; copies of iterations."""
