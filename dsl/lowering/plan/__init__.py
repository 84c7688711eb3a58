"""Decisions ahead of the directives: which shared tiles may share bytes."""
