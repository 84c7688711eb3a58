"""One pale colour for each lane: neighbours have similar colours, so that order shows as a rainbow."""

from __future__ import annotations

from colorsys import hls_to_rgb
from functools import cache

from dsl.lowering.ir.targets import WARP


@cache
def colour(lane: int) -> str:
    """The colour of a lane as #rrggbb."""
    # 0.86 of the circle: at its end the hues would return to those of the first lanes.
    red, green, blue = hls_to_rgb(lane % WARP / WARP * 0.86, 0.82, 0.75)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def background(lane: int) -> str:
    """The colour of a lane as a style of rich."""
    return f"black on {colour(lane)}"
