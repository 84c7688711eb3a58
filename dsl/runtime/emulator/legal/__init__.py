"""Checks each instruction of a module against a table of the forms that the PTX ISA allows, before any code runs."""

from .check import all_forms, check_module, choices_of
from .forms import runs_on

__all__ = ["all_forms", "check_module", "choices_of", "runs_on"]
