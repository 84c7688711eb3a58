"""Schedules: names → expressions, evaluated when something asks (`definitions.py`), and properties, each a row
(`properties.py`)."""

from dsl.schedules.definitions import Definition
from dsl.schedules.resolve import ResolvedSchedule, given_names, resolve_schedule, target_facts

__all__ = ["Definition", "ResolvedSchedule", "given_names", "resolve_schedule", "target_facts"]
