"""`python -m dsl` is the `dsl` command."""

from dsl.command import main

if __name__ == "__main__":  # compiling processes import this module too
    main()
