"""Functions of floats: rounding to whole numbers, and the hardware's approximations."""

from __future__ import annotations

from lowering.ops.elementwise.declare import elementwise

elementwise("floor", 1, "a float", rounds="rm")
elementwise("ceil", 1, "a float", rounds="rp")
elementwise("round", 1, "a float", rounds="rn")  # to nearest, ties to even
elementwise("trunc", 1, "a float", rounds="rz")
for _name in ("ex2", "ex2.approx.ftz", "lg2", "sin", "cos", "tanh", "rcp", "rsqrt", "sqrt"):
    elementwise(_name if "." in _name else f"{_name}.approx", 1, "f32")
