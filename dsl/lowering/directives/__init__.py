"""The directives of a schedule: each directive is one file, and one rewrite of the tile IR.

A file states the requirements of its directive, the result of the rewrite, and the default if the schedule has no line.
If a requirement is not met, an error at the schedule's line states what would fit. The result of a rewrite consists of
ordinary operations, as in a kernel written by hand. So no later pass knows about directives. The page
docs/directives.md describes the directives.
"""
