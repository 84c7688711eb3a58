"""Kernels as operators of torch, for autograd, torch.compile, torch.export and vmap. Importing this module imports
torch.

    import dsl, dsl.torch
    m, m2 = dsl.load("samples/softmax.tile"), dsl.load("samples/softmax_backward.tile")
    softmax = dsl.torch.op(m.softmax, "mylib::softmax", backward=m2.softmax_backward)
    y = torch.compile(lambda x: softmax(x).sum())(x)
"""

from __future__ import annotations

from dsl.torch.operators import op as op
