"""The directives of a schedule: each directive is one file, and one rewrite of the tile IR.

Each file describes its directive: the requirements, the rewritten code, and the default for schedules without a line
for this directive. If a requirement is not met, the compiler reports an error at the schedule's line, with a hint. The
rewritten kernel contains only ordinary operations, so later passes need no code for directives. docs/directives.md
describes all directives.
"""
