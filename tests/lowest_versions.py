"""`python -m tests.lowest_versions`: a file of constraints for pip, the lowest versions that pyproject.toml allows.

`lark>=1.2,<2` gives `lark==1.2.*`. A requirement without a lowest version is an error: nobody could try it.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("test", "plot")


def lowest(requirement: Requirement) -> str:
    """The constraint; ValueError where there is no lowest version."""
    floors = [each.version for each in requirement.specifier if each.operator == ">="]
    if len(floors) != 1:
        raise ValueError(f"{requirement} has no lowest version (>=)")
    parts = floors[0].split(".")
    return f"{requirement.name}=={'.'.join([*parts, '0'][: max(2, len(parts))])}.*"


def constraints() -> list[str]:
    """Of all that the project and the extras of its tests require."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    rows = [*project["dependencies"], *(row for extra in EXTRAS for row in project["optional-dependencies"][extra])]
    return sorted({lowest(Requirement(row)) for row in rows})


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints()) + "\n")
