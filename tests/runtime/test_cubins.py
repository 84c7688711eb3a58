"""Machine code in the compile cache: the driver assembles a text once, and what it does not load is not believed."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsl.runtime import DeviceError
from dsl.runtime import store as stores
from dsl.runtime.cuda import driver, module

PTX = "//dsl {}\n.version 8.0\n.target sm_90\n.address_size 64\n"
CUBIN = b"\x7fELF machine code"
BAD = 218


class Linker:
    """What `bindings()` gives, for loading modules. `assembles` and `links` are codes that the linker answers."""

    CUjit_option = SimpleNamespace(
        CU_JIT_ERROR_LOG_BUFFER="log",
        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES="size",
        CU_JIT_MAX_REGISTERS="registers",
        CU_JIT_TARGET="target",
    )
    CUjitInputType = SimpleNamespace(CU_JIT_INPUT_PTX="ptx")
    CUjit_target = SimpleNamespace(CU_TARGET_COMPUTE_90A="90a")

    def __init__(self) -> None:
        self.cubin, self.version = CUBIN, 13000
        self.assembles = self.loads_text = 0
        self.says = b""
        self.linked: list[dict[str, Any]] = []
        self.loaded: list[bytes] = []
        self.destroyed = 0

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, self.version

    def cuLinkCreate(self, count: int, options: list[str], values: list[Any]) -> tuple[int, Any]:
        assert count == len(options) == len(values)
        self.linked.append(dict(zip(options, values, strict=True)))
        return 0, "state"

    def cuLinkAddData(self, state: Any, kind: str, data: bytes, size: int, *more: Any) -> tuple[int]:
        assert (state, kind) == ("state", "ptx") and len(data) == size and data.endswith(b"\0")
        self.linked[-1]["log"][: len(self.says)] = self.says
        return (self.assembles,)

    def cuLinkComplete(self, state: Any) -> tuple[int, int, int]:
        self.memory = ctypes.create_string_buffer(self.cubin, len(self.cubin))
        return 0, ctypes.addressof(self.memory), len(self.cubin)

    def cuLinkDestroy(self, state: Any) -> tuple[int]:
        self.destroyed += 1
        ctypes.memset(self.memory, 0, len(self.cubin)) if hasattr(self, "memory") else None
        return (0,)

    def cuModuleLoadDataEx(self, data: bytes, count: int, options: list[str], values: list[Any]) -> tuple[int, Any]:
        self.loaded.append(data)
        if data.startswith(b"//dsl"):
            return self.loads_text, "module of the text"
        return (0 if data == self.cubin else BAD), "module"


@pytest.fixture
def linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Linker]:
    made = Linker()
    monkeypatch.setattr(driver, "bindings", lambda: made)
    monkeypatch.setattr(stores, "_set", None)
    monkeypatch.setenv("DSL_CACHE", str(tmp_path / "cache"))
    yield made


def check(code: int, what: str) -> None:
    if code != 0:
        raise DeviceError("cuda", f"{what}: {code}")


def load(ptx: str = PTX, maxnreg: int | None = None, arch: str = "sm_90") -> Any:
    context: Any = SimpleNamespace(facts=SimpleNamespace(arch=arch), check=check)
    return module._load_module(context, ptx, maxnreg)


def cubins(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").glob("*.cubin"))


def test_a_text_is_assembled_once(linker: Linker, tmp_path: Path) -> None:
    assert [load(), load()] == ["module", "module"]
    assert len(linker.linked) == linker.destroyed == 1 and linker.loaded == [CUBIN, CUBIN]
    assert len(cubins(tmp_path)) == 1


@pytest.mark.parametrize("other", ["text", "registers", "device", "driver"])
def test_another_text_or_assembler_is_a_miss(linker: Linker, other: str) -> None:
    load()
    linker.version += 10 * (other == "driver")
    load(
        PTX + "// more\n" if other == "text" else PTX,
        64 if other == "registers" else None,
        "sm_100" if other == "device" else "sm_90",
    )
    assert len(linker.linked) == 2
    assert linker.linked[1].get("registers") == (64 if other == "registers" else None)


def test_code_of_one_architecture_is_assembled_for_it(linker: Linker) -> None:
    load(PTX.replace("sm_90", "sm_90a"))
    assert linker.linked[0]["target"] == "90a"
    load()
    assert "target" not in linker.linked[1]


def test_code_that_the_driver_does_not_load_is_made_again(linker: Linker, tmp_path: Path) -> None:
    load()
    linker.cubin = b"\x7fELF of another driver"  # which no longer loads the old one
    assert load() == "module"
    assert len(linker.linked) == 2 and len(cubins(tmp_path)) == 1
    assert load() == "module" and len(linker.linked) == 2


@pytest.mark.parametrize("why", ["linker", "target"])
def test_what_the_driver_does_not_assemble_is_loaded_as_text(linker: Linker, tmp_path: Path, why: str) -> None:
    linker.assembles, linker.says = (BAD, b"no such thing") if why == "linker" else (0, b"")
    with pytest.warns(RuntimeWarning, match="no such thing" if why == "linker" else "CU_TARGET_COMPUTE_100F"):
        assert load(PTX if why == "linker" else PTX.replace("sm_90", "sm_100f")) == "module of the text"
    assert not cubins(tmp_path)


def test_a_wrong_text_is_an_error_without_a_warning(linker: Linker) -> None:
    linker.assembles, linker.loads_text = BAD, BAD
    with warnings.catch_warnings(), pytest.raises(DeviceError, match="218"):
        warnings.simplefilter("error")
        load()


def test_off_means_that_the_text_is_loaded(linker: Linker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSL_CACHE", "off")
    assert load() == "module of the text" and not linker.linked
