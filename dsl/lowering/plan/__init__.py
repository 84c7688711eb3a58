"""What is decided ahead of the directives: which shared tiles may lie in the same bytes."""
