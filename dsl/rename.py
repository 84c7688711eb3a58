"""`python -m dsl.rename FILE …`: rewrites `.tile` files in the words of version 0.2.

The module will be removed in the next version.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dsl.text.renamed import rewritten


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dsl.rename", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for path in parser.parse_args().files:
        try:
            old = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            parser.error(f"{path}: {error}")
        new = rewritten(old)
        if new != old:
            path.write_text(new, encoding="utf-8")
        print(f"{path}: {'rewritten' if new != old else 'as it was'}")


if __name__ == "__main__":
    main()
