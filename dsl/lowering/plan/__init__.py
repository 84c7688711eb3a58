"""Decisions before the directives: which products are wgmma, and which shared tiles may share bytes."""
