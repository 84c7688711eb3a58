"""A schedule defines names by expressions (`definitions.py`), and sets properties (a table in `properties.py`).
Expressions are evaluated on demand."""

from dsl.schedules.cheapest import Points
from dsl.schedules.definitions import Definition
from dsl.schedules.resolve import (
    ResolvedSchedule,
    ScheduleRequest,
    costs_of_points,
    launch_facts,
    resolve_schedule,
    schedule_points,
    target_facts,
    tensor_names,
)

__all__ = [
    "Definition",
    "Points",
    "ResolvedSchedule",
    "ScheduleRequest",
    "costs_of_points",
    "launch_facts",
    "resolve_schedule",
    "schedule_points",
    "target_facts",
    "tensor_names",
]
