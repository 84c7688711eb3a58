"""The hardware and its assembler: tensor core instructions, number formats, workarounds for faults of ptxas."""
