"""What a call with arrays comes to: its dims and types, the launches that serve it, the Python face."""
