"""The instructions that the ISA allows. Each instruction of a module is checked against the table of legal forms before
any code runs."""

from .check import all_forms, check_module, choices_of
from .forms import runs_on

__all__ = ["all_forms", "check_module", "choices_of", "runs_on"]
