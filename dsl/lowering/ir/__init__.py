"""The tile IR: operations and values (`function.py`), types, places in the text, targets, choices, plug-ins."""
