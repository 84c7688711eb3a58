"""What machines have: tensor core instructions, formats of numbers, faults of ptxas that are written around."""
