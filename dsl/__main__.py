"""`python -m dsl` is the `dsl` command."""

from dsl.command import main

main()
