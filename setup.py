"""Puts the samples into wheels, as `dsl/samples/`. pyproject.toml has all the rest.

The samples lie beside the package, where README and its readers look for them, and setuptools takes data only from
within a package. `package_dir` could make the folder a package `dsl.samples`, but `find` would not find that one, so
all packages would have to be listed."""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PATTERNS = ("*.tile", "*.tuned.json")


class BuildWithSamples(build_py):
    """Copies the samples beside the modules. An editable install needs no copy: `dsl new` finds the checkout's."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib, "dsl", "samples")
            self.mkpath(str(folder))
            for pattern in PATTERNS:
                for path in sorted(Path("samples").glob(pattern)):
                    self.copy_file(str(path), str(folder / path.name))


setup(cmdclass={"build_py": BuildWithSamples})
