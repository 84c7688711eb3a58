"""Draws layouts as pictures: which lane and register holds which element, and which banks an access touches.

`names.py` describes a layout in words. `registers.py` and `shared.py` compute a picture. `text.py` and `svg.py` draw
it."""
