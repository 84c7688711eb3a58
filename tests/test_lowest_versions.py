"""What pyproject.toml allows, and what is told where somebody has another version all the same."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from dsl.lowering.emit import codegen
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import target
from tests.lowest_versions import constraints, lowest

MODULE = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k() #0 {
  ret void
}
attributes #0 = { "nvvm.reqntid"="128" "nvvm.maxnreg"="64" "nvvm.minctasm"="2" "nvvm.cluster_dim"="2,1,1" }
"""


def test_each_package_has_a_lowest_version_that_can_be_tried() -> None:
    """`.ci/full` runs all tests with these."""
    assert {"llvmlite==0.48.*", "numpy==2.0.*", "pytest==8.0.*"} <= {*constraints()}
    assert lowest(Requirement("a>=1.2.3,<2")) == "a==1.2.3.*"
    with pytest.raises(ValueError, match="a<2 has no lowest version"):
        lowest(Requirement("a<2"))


@pytest.mark.parametrize("word", codegen.BOUNDS.values())
def test_bounds_of_launches_that_llvm_leaves_out_are_told(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """llvmlite 0.47 leaves out all: a block of any size would be launched, with as many registers as it takes."""
    made = codegen.to_ptx(MODULE, target("sm_90"), (8, 0))
    assert all(f"{each} " in made for each in codegen.BOUNDS.values())
    other = SimpleNamespace(emit_assembly=lambda _: re.sub(rf"^\{word} .*$", "", made, flags=re.M))
    monkeypatch.setattr(codegen, "_machine", lambda *_: other)
    with pytest.raises(TileError, match=rf"llvmlite [\d.]+ leaves \{word} out of PTX\n.*llvmlite>=0\.48") as error:
        codegen.to_ptx(MODULE + f"; {word}", target("sm_90"), (8, 0))
    assert error.value.code == "tool"
