"""An option of a choice that somebody forces. A first call from the compile cache imports this, but no choices."""

from __future__ import annotations

from msgspec import Struct

from dsl.lowering.ir.location import Loc


class Forced(Struct):
    """A forced option.

    `by`: the origin of the forced option, for messages.
    `must`: if True, it is an error that no choice takes the option. If False, the code that forces the option reads
        `met` instead, which is True if some choice took it.
    `because`: the reason for messages. It replaces the reason of the rule.
    """

    option: str
    by: str
    loc: Loc | None = None
    must: bool = True
    met: bool = False
    because: str = ""
