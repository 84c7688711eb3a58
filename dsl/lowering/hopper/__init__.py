"""Products of warp groups, and boxes of tensors that one instruction copies (TMA)."""
