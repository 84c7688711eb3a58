"""Why a pass has put an operation where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowering.ir import Op


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a barrier stands before an access, or does not any more: which accesses need one in between.

    earlier, later: the accesses. round_before: the earlier one is of a round before of a loop around both.
    scope: "warp" or "block": how far apart the threads are that meet. doubt: why it is not known that they do; "" if
    they do. order: "acquire" or "release", if they meet not in memory, but because of what other blocks see.
    superfluous: it is gone, as others order the two. by: those that stand between them.
    once: it stands before a loop, for accesses in it.
    """

    earlier: Op
    later: Op
    scope: str
    doubt: str = ""
    round_before: bool = False
    order: str = ""
    once: bool = False
    superfluous: bool = False
    by: tuple[Op, ...] = ()

    def __str__(self) -> str:
        before = f"{access_text(self.earlier)}{' of a round before' if self.round_before else ''}"
        where = "within a warp" if self.scope == "warp" else "across warps"
        said = f"{before} and {access_text(self.later)} {'may meet' if self.doubt else 'meet'} {where}"
        if self.order:
            what = "is released" if self.order == "release" else "is acquired"
            said = f"{before} and {access_text(self.later)}: what {what} for other blocks is so for all threads"
        if self.doubt:
            said += f": {self.doubt}"
        if self.once:
            said += "; once before the loop"
        if not self.superfluous:
            return said
        lines = list(dict.fromkeys(str(op.loc.line) for op in self.by if op.loc is not None))
        others = f" before line{'s' * (len(lines) > 1)} {', '.join(lines)}" if lines else "s between"
        return f"superfluous with the barrier{others}: {said}"


def access_text(op: Op) -> str:
    """`s.load in line 12`."""
    return f"{op.operands[0].name}.{op.name}{in_line(op)}"


def in_line(op: Op) -> str:
    """` in line 12`, if it is known."""
    return "" if op.loc is None else f" in line {op.loc.line}"
