"""The tile IR as text that people read and edit, with all that code needs of it (docs/ir.md)."""
