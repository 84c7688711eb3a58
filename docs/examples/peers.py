"""Softmax in numpy, a peer for `dsl bench --vs softmax=docs/examples/peers.py::softmax`."""

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float32) - x.max(axis=1, keepdims=True).astype(np.float32))
    return (e / e.sum(axis=1, keepdims=True)).astype(x.dtype)
