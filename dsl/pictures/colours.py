"""Chooses a pale colour for each lane. Neighbouring lanes have similar colours, so that lanes in order look like a
rainbow."""

from __future__ import annotations

from colorsys import hls_to_rgb
from functools import cache

from dsl.lowering.ir.targets import WARP


@cache
def colour(lane: int) -> str:
    """Returns the colour of a lane as #rrggbb."""
    # Uses 0.86 of the colour circle. At the end of the circle, the hues would return to the hues of the first lanes.
    red, green, blue = hls_to_rgb(lane % WARP / WARP * 0.86, 0.82, 0.75)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def background(lane: int) -> str:
    """Returns the colour of a lane as a style of the package `rich`."""
    return f"black on {colour(lane)}"
