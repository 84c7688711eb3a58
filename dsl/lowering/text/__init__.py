"""The tile IR as text that people can read and edit. The text contains all data that later passes and emission need
(docs/ir.md)."""
