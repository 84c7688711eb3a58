"""A `.tile` file as text: its syntax tree (`syntax.py`, `tree.py`) and, by name, what stands in it and in the files
that it imports (`program.py`). Nothing here evaluates anything."""
