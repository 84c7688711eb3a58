"""Convolutions of eleven nets, their operands on a GPU, and the exact results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

RESNET50 = (
    (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1), (256, 56, 128, 1, 1),
    (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (512, 28, 128, 1, 1), (128, 28, 128, 3, 1),
    (512, 28, 256, 1, 1), (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2), (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1), (1024, 14, 2048, 1, 2),
    (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1),
)  # fmt: skip
"""(C, H, K, R, stride) for square images and filters. The padding is R // 2."""
NETS = {
    "ResNet-50": RESNET50,
    "ResNet-34": (
        (64, 56, 64, 3, 1), (64, 56, 128, 3, 2), (128, 28, 128, 3, 1), (128, 28, 256, 3, 2), (256, 14, 256, 3, 1),
        (256, 14, 512, 3, 2), (512, 7, 512, 3, 1),
    ),
    "VGG-16": (
        (64, 224, 64, 3, 1), (64, 112, 128, 3, 1), (128, 112, 128, 3, 1), (128, 56, 256, 3, 1), (256, 56, 256, 3, 1),
        (256, 28, 512, 3, 1), (512, 28, 512, 3, 1), (512, 14, 512, 3, 1),
    ),
    "Inception v3": (
        (192, 35, 64, 1, 1), (192, 35, 48, 1, 1), (64, 35, 96, 3, 1), (96, 35, 96, 3, 1),
        (288, 35, 64, 1, 1), (768, 17, 192, 1, 1), (768, 17, 128, 1, 1), (1280, 8, 320, 1, 1), (1280, 8, 384, 1, 1),
        (2048, 8, 192, 1, 1), (448, 8, 384, 3, 1),
    ),
    "MobileNet v1": (
        (32, 112, 64, 1, 1), (64, 56, 128, 1, 1), (128, 56, 128, 1, 1), (128, 28, 256, 1, 1), (256, 28, 256, 1, 1),
        (256, 14, 512, 1, 1), (512, 14, 512, 1, 1), (512, 7, 1024, 1, 1), (1024, 7, 1024, 1, 1),
    ),
    "MobileNet v2": (
        (32, 28, 192, 1, 1), (192, 14, 64, 1, 1), (64, 14, 384, 1, 1),
        (384, 14, 96, 1, 1), (96, 14, 576, 1, 1), (576, 7, 160, 1, 1), (160, 7, 960, 1, 1), (960, 7, 320, 1, 1),
        (320, 7, 1280, 1, 1),
    ),
    "EfficientNet-B0": (
        (96, 56, 32, 1, 1), (480, 14, 112, 1, 1),
        (672, 7, 192, 1, 1), (192, 7, 1152, 1, 1), (1152, 7, 320, 1, 1),
    ),
    "DenseNet-121": (
        (64, 56, 128, 1, 1), (128, 56, 32, 3, 1), (192, 56, 128, 1, 1), (256, 28, 128, 1, 1), (128, 28, 32, 3, 1),
        (512, 28, 256, 1, 1), (512, 14, 128, 1, 1), (128, 14, 32, 3, 1), (1024, 14, 512, 1, 1), (512, 7, 128, 1, 1),
        (1024, 7, 128, 1, 1),
    ),
    "YOLOv3": (
        (32, 208, 64, 3, 2), (64, 104, 128, 3, 2), (128, 104, 64, 1, 1), (64, 104, 128, 3, 1), (256, 52, 128, 1, 1),
        (128, 52, 256, 3, 1), (512, 26, 256, 1, 1), (256, 26, 512, 3, 1), (1024, 13, 512, 1, 1), (512, 13, 1024, 3, 1),
    ),
    "SqueezeNet": (
        (96, 55, 16, 1, 1), (256, 27, 32, 1, 1), (32, 27, 128, 3, 1),
        (512, 13, 64, 1, 1), (64, 13, 256, 3, 1),
    ),
    "ConvNeXt-T": (
        (96, 56, 384, 1, 1), (384, 56, 96, 1, 1), (192, 28, 768, 1, 1), (768, 28, 192, 1, 1), (384, 14, 1536, 1, 1),
        (1536, 14, 384, 1, 1), (768, 7, 3072, 1, 1), (3072, 7, 768, 1, 1),
    ),
}  # fmt: skip
"""The convolutions of each net whose channels are multiples of 32: no first layer, and nothing depthwise. The sizes are
those of the papers' images, 224, 299 (Inception) and 416 (YOLO) pixels wide."""
BLOCK = 32
"""Channels of a block of NC/32HW32."""


@dataclass(frozen=True, slots=True)
class Shape:
    """n images of c channels and h x h pixels, and k filters of r x r taps."""

    n: int
    c: int
    h: int
    k: int
    r: int
    stride: int

    @property
    def pad(self) -> int:
        return self.r // 2

    @property
    def p(self) -> int:
        """The number of rows of the output, which equals the number of its columns."""
        return (self.h + 2 * self.pad - self.r) // self.stride + 1

    @property
    def operations(self) -> int:
        return 2 * self.n * self.p**2 * self.k * self.c * self.r**2

    @property
    def moves(self) -> int:
        """Bytes of input, filters, bias and output."""
        return self.n * (self.c * self.h**2 + self.k * self.p**2) + self.k * (self.c * self.r**2 + 4)

    @property
    def geometry(self) -> tuple[int, ...]:
        """The scalars of a call: strides, padding, dilation."""
        return self.stride, self.stride, self.pad, self.pad, 1, 1

    def __str__(self) -> str:
        return f"{self.n},{self.c},{self.h},{self.k},{self.r},{self.stride}"


class Operands:
    """Random operands of one shape. Scale, bias and their sums are exact in f32, so only one output is right."""

    beta, gamma, six = 1.0, 0.5, 96.0

    def __init__(self, shape: Shape, seed: int = 0):
        import torch

        self.shape, s = shape, shape
        random = torch.Generator("cuda").manual_seed(seed)

        def bytes_of(*extents: int) -> Any:
            return torch.randint(-128, 128, extents, dtype=torch.int8, device="cuda", generator=random)

        self.x, self.f = bytes_of(s.n, s.h, s.h, s.c), bytes_of(s.k, s.r, s.r, s.c)
        self.bias = bytes_of(s.k).float()

    @property
    def alpha(self) -> float:
        """A power of two that gives sums of random products a spread of about 40."""
        return 2.0 ** -round(math.log2(74**2 * math.sqrt(self.shape.c * self.shape.r**2) / 40))

    @property
    def pixels(self) -> int:
        return self.shape.n * self.shape.p**2

    @cached_property
    def sums(self) -> Any:
        """The exact sums, s32[pixels, k], by one matrix product for each tap."""
        import torch

        s = self.shape
        padded = torch.nn.functional.pad(self.x, (0, 0, s.pad, s.pad, s.pad, s.pad))
        total, reach = None, (s.p - 1) * s.stride + 1
        for i in range(s.r):
            for j in range(s.r):
                seen = padded[:, i : i + reach : s.stride, j : j + reach : s.stride, :].reshape(-1, s.c)
                rows = -(-max(seen.shape[0], 32) // 8) * 8  # an extent that _int_mm accepts
                more = torch.nn.functional.pad(seen, (0, 0, 0, rows - seen.shape[0]))
                part = torch._int_mm(more, self.f[:, i, j, :].t())[: seen.shape[0]]
                total = part if total is None else total + part
        return total

    def wanted(self, act: Callable[[Any], Any], z: Any = None) -> Any:
        """The exact result, s8[n, p, p, k]: act(alpha * sums + beta * bias + gamma * z) in float64, rounded to even,
        saturated."""
        import torch

        s = self.shape
        out = torch.empty(self.pixels, s.k, dtype=torch.int8, device="cuda")
        step = max(1, (1 << 27) // s.k)
        for first in range(0, self.pixels, step):
            v = self.sums[first : first + step].double() * self.alpha + self.beta * self.bias
            if z is not None:
                v += self.gamma * z.reshape(self.pixels, s.k)[first : first + step]
            out[first : first + step] = act(v).round().clamp(-128, 127)
        return out.view(s.n, s.p, s.p, s.k)


def blocked(x: Any) -> Any:
    """Reorders [N, H, W, C] to [N, C / 32, H, W, 32]."""
    n, h, w, c = x.shape
    return x.view(n, h, w, c // BLOCK, BLOCK).permute(0, 3, 1, 2, 4).contiguous()


def blocked_filters(f: Any) -> Any:
    """Reorders [K, R, S, C] to [C / 32, R, S, K, 32]."""
    k, r, s, c = f.shape
    return f.view(k, r, s, c // BLOCK, BLOCK).permute(3, 1, 2, 0, 4).contiguous()


def innermost(y: Any) -> Any:
    """Reorders [N, C / 32, H, W, 32] to [N, H, W, C]."""
    n, b, h, w, _ = y.shape
    return y.permute(0, 2, 3, 1, 4).reshape(n, h, w, b * BLOCK)
