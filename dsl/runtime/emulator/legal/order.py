"""Puts the words of an opcode in the order in which the table of legal forms lists them.

For ptxas, an opcode consists of a name and modifiers. It accepts the modifiers in any order. CUTLASS writes
`ldmatrix.sync.aligned.x4.m8n8.shared.b16`, and nvcc writes `atom.add.global.u32`. But the order of the words in the
name is fixed. The order of modifiers of the same kind is fixed, too: types (as in `cvt.f32.f16`), layouts of matrices
(`row.col`), state spaces, and operations on bits. This reordering agrees with ptxas 13.5 on 13,267 permutations of all
forms. `tests/runtime/emulator/test_ptx_spelling.py` tries some of these permutations again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from .forms import LegalForm, OpcodePart

WIDTHS = ("hi", "lo", "wide")
COPIES = ("cp.async", "cp.async.bulk", "cp.async.bulk.prefetch", "cp.reduce.async.bulk")
BARRIERS = ("arrive", "red", "warp.sync", "cta", "cta.arrive", "cta.red")
# Names of several words. If an opcode begins with some of them, the longest one is its name. Otherwise, its first word
# is its name.
NAMES = {
    *(f"{root}.{width}" for root in ("mul", "mad", "madc", "mul24", "mad24") for width in WIDTHS),
    *("dp2a.hi", "dp2a.lo", "shf.l", "shf.r", "div.full", "cvt.pack", "cvta.to", "brx.idx", "st.async", "red.async"),
    *("createpolicy.fractional", "membar.proxy", "fence.proxy", "setmaxnreg.inc", "setmaxnreg.dec"),
    *(f"{root}.{each}" for root in ("bar", "barrier") for each in BARRIERS),
    *("barrier.cluster.arrive", "barrier.cluster.wait"),
    *COPIES,
    *(f"{copy}.tensor" for copy in COPIES[1:]),
    *(f"cp.async.{each}" for each in ("mbarrier.arrive", "commit_group", "wait_group", "wait_all")),
    *("cp.async.bulk.commit_group", "cp.async.bulk.wait_group"),
    *(f"mbarrier.{each}" for each in ("init", "inval", "expect_tx", "complete_tx", "pending_count")),
    *(f"mbarrier.{each}{more}" for each in ("arrive", "arrive_drop") for more in ("", ".expect_tx")),
    *(f"mbarrier.{each}{more}" for each in ("test_wait", "try_wait") for more in ("", ".parity")),
    *(f"wgmma.{each}" for each in ("mma_async", "fence", "commit_group", "wait_group")),
    *("tensormap.replace", "tensormap.cp_fenceproxy"),
}
LONGEST_NAME = max(name.count(".") for name in NAMES) + 1
# Words of the same kind keep their order.
KINDS = (
    re.compile(r"[bsuf]\d{1,3}(x\d)?|bf16(x2)?|tf32|e\dm\d(x\d)?|pred"),  # types
    re.compile("row|col"),
    re.compile("(global|shared|local|const|param)(::.*)?"),
    re.compile("and|or|xor|popc"),
)


@cache
def kind_of(word: str) -> int:
    """Returns the kind of a modifier, as an index into KINDS, or -1 for a modifier that may be at any position."""
    return next((number for number, kind in enumerate(KINDS) if kind.fullmatch(word)), -1)


def words_of_name(opcode: tuple[str, ...]) -> int:
    """Returns the number of words in the name at the start of an opcode."""
    return next((count for count in range(LONGEST_NAME, 1, -1) if ".".join(opcode[:count]) in NAMES), 1)


def in_order(form: LegalForm, opcode: tuple[str, ...]) -> tuple[str, ...] | None:
    """Returns the words of an opcode in the order of a form. Returns None if the form has other words, or if ptxas does
    not accept the order in `opcode`."""
    named = words_of_name(opcode)
    found = arrangements(form.parts, opcode, named)
    # A new order must not change the name: `bar.red.popc` has a name of two words.
    return next((words for words in found if words_of_name(words) == named), None)


def arrangements(parts: tuple[OpcodePart, ...], left: tuple[str, ...], named: int) -> Iterator[tuple[str, ...]]:
    """Yields all ways to assign the words in `left` to the parts of a form. The first `named` of these words belong to
    the name."""
    if not parts:
        if not left:
            yield ()
        return
    part, *rest = parts
    if part.optional:
        yield from arrangements((*part.inner, *rest), left, named)
        yield from arrangements(tuple(rest), left, named)
        return
    for index, word in enumerate(left):
        if word in part.words and (index < 1 if named else is_next(left, index)):
            others = left[:index] + left[index + 1 :]
            for behind in arrangements(tuple(rest), others, max(named - 1, 0)):
                yield word, *behind


def is_next(words: tuple[str, ...], index: int) -> bool:
    """Returns true if no word of the same kind precedes the word at `index`."""
    kind = kind_of(words[index])
    return kind < 0 or all(kind_of(word) != kind for word in words[:index])
