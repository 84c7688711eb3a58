"""Lazy imports of numpy and of modules that need it, so that `dsl check` works without numpy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class Later:
    """A proxy for a module. The module is imported when one of its attributes is first used."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        # Later uses find the stored attribute, so Python does not call `__getattr__` for them.
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    import numpy as np

    from dsl.values import element_types, on_arrays, reference
else:
    np = Later("numpy")
    element_types = Later("dsl.values.element_types")
    on_arrays = Later("dsl.values.on_arrays")
    reference = Later("dsl.values.reference")
