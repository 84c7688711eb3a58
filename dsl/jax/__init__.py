"""Kernels as functions of JAX, for jit, grad and vmap. Importing this module imports jax.

import dsl, dsl.jax
m, m2 = dsl.load("samples/softmax.tile"), dsl.load("samples/softmax_backward.tile")
softmax = dsl.jax.op(m.softmax, backward=m2.softmax_backward)
dx = jax.jit(jax.grad(lambda x: softmax(x).max()))(x)
"""

from __future__ import annotations

from dsl.jax.functions import op as op
