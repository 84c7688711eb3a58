"""Kernels with declared extents and default types, for tests of what follows from them."""

RULES = """
kernel shorter(y: f32[n = m - 2], x: f32[m]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B]

kernel blocks(y: f32[b = cdiv(n, B * by)], x: f32[n], by: s32; B = 32):
    grid b
    y[block(0) : block(0) + 1] = x[block(0) : block(0) + 1]

kernel wider(y: O[n], x: T[n]; T in f16|f32|s8, O in f32|f16|s32 = where(size(T) == 1, s32, T), B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B].to(O)

kernel any_type(y: O[n], x: T[n]; T in f16|f32, O in f16|f32, B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B].to(O)

# Doubles x where it lies.
kernel twice(x: f32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    x[i : i + B] = x[i : i + B] * 2.0

dispatch single(y, x): any_type with O=f32

dispatch chosen(y, x, k):
    option FAST in false, true
    half = n // 2
    require n % 2 == 0 and k > 0
    require half > k
    any_type(y, x)
"""
