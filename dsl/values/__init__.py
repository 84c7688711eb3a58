"""What expressions of the language come to: one walk over the syntax tree, and a domain for each kind of values."""
