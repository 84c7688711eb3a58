"""Layouts: which lane and register holds which element, as linear maps over F2."""
