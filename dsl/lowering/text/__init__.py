"""The tile IR as text for people to read and edit. It holds everything that later passes and emission need
(docs/ir.md)."""
