"""Schedules: names with expressions, evaluated when they are needed (`definitions.py`), and properties, each a row
(`properties.py`)."""

from dsl.schedules.definitions import Definition
from dsl.schedules.resolve import ResolvedSchedule, resolve_schedule, target_facts, tensor_names

__all__ = ["Definition", "ResolvedSchedule", "resolve_schedule", "target_facts", "tensor_names"]
