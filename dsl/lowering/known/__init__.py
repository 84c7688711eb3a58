"""What is known of integers: linear forms, divisibility, bounds, offsets that are listed."""
