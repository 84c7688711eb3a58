"""Handles calls with arrays. Finds dims and types, plans the launches that serve a call, and defines the Python API."""
