"""What a schedule does to a kernel: each directive is one file, and one rewrite of the tile IR.

A file states what its directive needs of the kernel (a located error says what would fit), what it makes of it, and the
default without a line. The result is ordinary operations, as in a kernel written by hand: no later pass knows a
directive. docs/directives.md is their page.
"""
