"""A cost model of one's own: bytes that global and shared memory move, a sector being 32 and a wavefront up to 128.

dsl tune samples/softmax.tile --all --budget 3 --plugin model_traffic.py --model traffic
"""

from dsl.lab.model import Model, model


@model("traffic")
class Traffic(Model):
    """Has nothing to fit. The emulator counts each point's first blocks before any is measured."""

    def predict(self, features):
        return 32 * features["sectors"] + 128 * features["wavefronts"]
