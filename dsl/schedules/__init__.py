"""Schedules: names with expressions, which are evaluated on demand (`definitions.py`), and properties, one row each
(`properties.py`)."""

from dsl.schedules.definitions import Definition
from dsl.schedules.resolve import ResolvedSchedule, resolve_schedule, target_facts, tensor_names

__all__ = ["Definition", "ResolvedSchedule", "resolve_schedule", "target_facts", "tensor_names"]
