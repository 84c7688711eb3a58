"""Layouts as pictures: which lane and register holds which element, and which banks an access touches.

`names.py` finds words for a layout, `registers.py` and `shared.py` say what a picture shows, `text.py` and `svg.py`
draw it.
"""
