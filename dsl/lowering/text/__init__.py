"""Prints and reads the tile IR as text that people can edit. The text contains all data that later passes and emission
need (docs/ir.md)."""
