"""Words of CUDA C++ and Triton: errors and `dsl explain` say what stands here, for all words of the two pages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsl.command import cli
from dsl.command.explain import FUNCTIONS, read_words
from dsl.schedules.properties import PROPERTIES
from dsl.text.elsewhere import INSTEAD, instead_of

ROOT = Path(__file__).parents[2]


def told(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["explain", *words], standalone_mode=False)
    return result.return_value, result.output


@pytest.mark.parametrize("page", ["from_triton", "from_cuda"])
def test_each_function_in_a_table_of_words_is_explained(page: str) -> None:
    table = (ROOT / f"docs/{page}.md").read_text().split("## Words")[1].split("## ")[0]
    left = " ".join(row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `"))
    words = set(re.findall(r"\btl\.\w+|\b__\w+|\batomic[A-Z]\w+|\b\w+Idx\b|\b\w+Dim\b|\bnum_\w+|\bprintf|\bwmma", left))
    assert len(words) > 8
    known = {*FUNCTIONS, *PROPERTIES, *read_words()}
    assert not [w for w in sorted(words) if instead_of(w, known) is None]


def test_no_word_of_ours_is_called_foreign() -> None:
    assert not INSTEAD.keys() & {*FUNCTIONS, *read_words()}
    assert INSTEAD.keys() & PROPERTIES.keys() == {"maxnreg", "split"}  # `dsl explain` shows the property


@pytest.mark.parametrize(
    ("word", "said"),
    {
        "threadIdx.x": "arange(N)", "tl.program_id": "block(0)", "triton.language.rand": "philox",
        "cuda::memcpy_async": "copy(s[…], x[…])", "np.exp": "exp(…), without 'np.'", "num_warps": "warps = 4",
        "tl.sum": "sum(…), without 'tl.'", "torch.nn.functional.softmax": "keepdims=true",
        "__shfl_xor_sync": "shfl.xor", "cp.async": "pipeline p: 3",
    }.items(),
)  # fmt: skip
def test_explain_says_what_stands_here(word: str, said: str) -> None:
    status, text = told(word)
    assert status == 0 and said in text
    assert said in json.loads(told(word, "--json")[1])[word]["instead"]


def test_words_of_messages_may_be_asked_for_as_they_stand() -> None:
    assert "commit()" in told("in flight")[1] and "dsl layout" in told("bank conflict")[1]
    assert told("nothing like it")[0] != 0
