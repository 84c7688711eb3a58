"""Decisions before the directives: which shared tiles may share bytes."""
