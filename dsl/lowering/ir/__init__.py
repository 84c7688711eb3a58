"""The tile IR: operations and values (`function.py`), types, locations in the text, targets, choices, plug-ins."""
