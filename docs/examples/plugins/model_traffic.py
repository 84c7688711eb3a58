"""A cost model: the bytes that global and shared memory move. A sector has 32 bytes, a wavefront up to 128.

dsl tune samples/softmax.tile --all --budget 3 --plugin model_traffic.py --model traffic
"""

from dsl.lab.model import Model, model


@model("traffic")
class Traffic(Model):
    """Needs no fit. The emulator counts the first blocks of all points before any point is measured."""

    def predict(self, features):
        return 32 * features["sectors"] + 128 * features["wavefronts"]
