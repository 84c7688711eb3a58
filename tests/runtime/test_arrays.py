"""Arrays of the frameworks as a launch sees them. Frameworks that are not installed are played by small fakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl.runtime.frameworks
from dsl.runtime import LaunchError, capsules, describe, empty_like, is_array
from dsl.runtime.arrays import Array, row_major, share_memory
from dsl.runtime.frameworks import find_framework
from dsl.runtime.numbers import item_of


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.bool_, "i1"),
        (np.int8, "s8"),
        (np.uint16, "u16"),
        (np.int64, "s64"),
        (np.float16, "f16"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.float64, "f64"),
    ],
)
def test_numpy_types(dtype: Any, name: str) -> None:
    x = np.zeros((2, 3), dtype)
    array = describe(x)
    assert array == Array("numpy", x.ctypes.data, (2, 3), (3, 1), name, None)
    assert empty_like(x, (4, 5), name).dtype == x.dtype
    assert describe(empty_like(x, (4, 5), name, (8, 1))).strides == (8, 1)


def test_numpy_views() -> None:
    x = np.zeros((4, 6), np.float32)
    assert describe(x.T).strides == (1, 6)
    assert not describe(x.T).is_contiguous
    assert describe(x[:, :1].T[:1]).shape == (1, 4)
    reverse = describe(x[::-1])
    assert reverse.strides == (-6, 1) and reverse.span == (-72, 24)
    assert describe(x[:0]).is_contiguous and describe(x[:0]).span == (0, 0)
    x.flags.writeable = False
    assert describe(x).readonly


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(3, np.complex64),
        np.zeros(3, ">f4"),
        np.zeros(3, object),
        np.zeros(3, [("a", "f4"), ("b", "i2")])["a"],
        np.zeros(3, ml_dtypes.float8_e4m3b11fnuz),
    ],
    ids=["complex", "byte order", "object", "packed field", "fp8"],
)
def test_numpy_arrays_that_no_kernel_takes(x: Any) -> None:
    with pytest.raises(LaunchError) as caught:
        describe(x)
    assert caught.value.code == "array"


@pytest.mark.parametrize("x", [3, 2.5, [1, 2], None, "x", np.float32(1)])
def test_what_is_no_array(x: Any) -> None:
    assert not is_array(x)
    with pytest.raises(LaunchError, match="no array"):
        describe(x)


def fake_torch() -> Any:
    """A class that answers as torch.Tensor does, as `find_framework` tells it: by module and name."""

    class Tensor:
        shape = (2, 3)
        dtype = "torch.bfloat16"
        layout = "torch.strided"
        device = SimpleNamespace(type="cuda", index=1)
        negative = False

        def data_ptr(self) -> int:
            return 1 << 40

        def stride(self) -> tuple[int, int]:
            return (1, 2)

        def get_device(self) -> int:
            return 1

        def is_neg(self) -> bool:
            return self.negative

    Tensor.__module__ = "torch"
    return Tensor


def test_torch_by_its_own_attributes() -> None:
    tensor = fake_torch()
    x = tensor()
    assert describe(x) == Array("torch", 1 << 40, (2, 3), (1, 2), "bf16", 1)
    pointer, signature = find_framework(tensor).probe(x)  # type: ignore[union-attr]
    assert pointer == 1 << 40 and hash(signature) is not None
    assert find_framework(type("Parameter", (tensor,), {})).name == "torch"  # type: ignore[union-attr]


def without_storage() -> int:
    """As of what stands for a tensor while torch transforms a function."""
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("negative", True),
        ("layout", "torch.sparse_coo"),
        ("dtype", "torch.complex64"),
        ("device", SimpleNamespace(type="meta", index=None)),
        ("data_ptr", lambda: 0),
        ("data_ptr", without_storage),
        ("is_nested", True),
    ],
)
def test_torch_tensors_that_no_kernel_takes(attribute: str, value: Any) -> None:
    x = fake_torch()()
    setattr(x, attribute, value)
    with pytest.raises(LaunchError):
        describe(x)


def test_jax_is_read_only_and_its_outputs_are_stand_ins_until_they_are_finished() -> None:
    class ArrayImpl:
        shape = (3,)
        dtype = np.dtype(ml_dtypes.bfloat16)
        platform = "gpu"

        def devices(self) -> list[Any]:
            return [SimpleNamespace(platform=self.platform, local_hardware_id=2)]

        def unsafe_buffer_pointer(self) -> int:
            return 4096

    ArrayImpl.__module__ = "jaxlib._jax"
    x = ArrayImpl()
    assert describe(x) == Array("jax", 4096, (3,), (1,), "bf16", 2, readonly=True, immutable=True)
    x.platform = "cpu"
    made = empty_like(x, (3,), "f32")
    assert isinstance(made, np.ndarray) and made.shape == (3,) and made.dtype == np.float32


def test_values_that_jax_traces_are_refused_by_name() -> None:
    class Tracer:
        """Has all attributes of an array. Most raise errors of JAX."""

        item = unsafe_buffer_pointer = print
        ndim = 0

        def __getattr__(self, name: str) -> Any:
            raise TypeError(name)

    Tracer.__module__ = "jax._src.core"
    traced = type("DynamicJaxprTracer", (Tracer,), {"__module__": "jax._src.interpreters.partial_eval"})()
    for read in (describe, item_of):
        with pytest.raises(LaunchError, match="that JAX traces") as caught:
            read(traced)
        assert caught.value.hint and "dsl.jax.op" in caught.value.hint


class Exporter:
    """Only DLPack: what a framework unknown to us offers."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


exports_flags = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="numpy exports no flags by DLPack before 2.1"
)


@exports_flags
def test_dlpack() -> None:
    x = np.arange(24, dtype=np.int16).reshape(4, 6)[::2, 1:]
    array = describe(Exporter(x))
    assert array == Array("dlpack", x.ctypes.data, (2, 5), (12, 1), "s16", None)
    x.flags.writeable = False
    assert describe(Exporter(x)).readonly


@exports_flags
def test_dlpack_exports_that_no_kernel_takes() -> None:
    """What stands beside the pointer is read: a copy is gone with its capsule, an element may have two values."""

    class Copies(Exporter):
        def __dlpack__(self, **options: Any) -> Any:
            return self.x.__dlpack__(copy=True, **options)

    class Refuses(Exporter):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("Can't export tensors with the conjugate bit set")

    class Changed(Exporter):
        """An export with another value in a field of its structure."""

        def __init__(self, x: Any, field: str, value: int) -> None:
            super().__init__(x)
            self.field, self.value = field, value

        def __dlpack__(self, **options: Any) -> Any:
            capsule = super().__dlpack__(**options)
            address = capsules.capsule_pointer(capsule, b"dltensor_versioned")
            assert address is not None
            managed = capsules.DLManagedTensorVersioned.from_address(address)
            setattr(managed if hasattr(managed, self.field) else managed.dl_tensor, self.field, self.value)
            return capsule

    x = np.arange(4, dtype=np.float32)
    for exporter, message in (
        (Copies(x), "was copied for its DLPack export"),
        (Refuses(x), "conjugate bit"),
        (Exporter(x.astype(np.complex64)), "of complex64 cannot"),
        (Changed(x, "lanes", 2), "with 2 values of float32 in each element"),
        (Changed(x, "code", 17), "of float4_e2m1fn cannot"),
        (Changed(x, "major", 2), "of version 2"),
        (Changed(x, "device_type", 14), "on DLPack device 14"),
    ):
        with pytest.raises(LaunchError, match=message):
            describe(exporter)


def test_real_tensors_of_torch_that_no_kernel_takes() -> None:
    torch = pytest.importorskip("torch")
    seen: list[str] = []

    def look(x: Any) -> Any:
        with pytest.raises(LaunchError) as caught:
            describe(x)
        seen.append(caught.value.message)
        return x

    look(torch.zeros(4, dtype=torch.complex64).conj().imag)
    look(torch.zeros(4, dtype=torch.complex64).conj())
    look(torch.ones(4, 4).to_sparse())
    look(torch.ones(4, device="meta"))
    look(torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8))
    look(torch.nested.nested_tensor([torch.ones(3), torch.ones(2)]))
    look(torch._efficientzerotensor(4))
    torch.func.vmap(look)(torch.ones(3, 4))
    torch.func.grad(lambda x: look(x).sum())(torch.ones(3))
    assert len(seen) == 9 and "negative bit" in seen[0] and "memory of its own" in seen[-2] and "gradient" in seen[-1]


def test_no_framework_is_imported() -> None:
    code = (
        "import sys; from dsl import runtime\n"
        "assert not {'numpy', 'cuda', 'dsl.runtime.emulator', 'dsl.runtime.launch'} & set(sys.modules)\n"
        "import numpy; runtime.describe(numpy.zeros(3))\n"
        "assert not {'torch', 'cupy', 'jax', 'cuda', 'ml_dtypes'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3).flatmap(
        lambda shape: st.tuples(st.just(shape), st.lists(st.integers(-6, 12), min_size=len(shape), max_size=len(shape)))
    )
)
def test_span_and_overlap_against_all_addresses(case: tuple[list[int], list[int]]) -> None:
    shape, strides = case
    array = Array("numpy", 0, tuple(shape), tuple(strides), "s16", None)
    offsets = [int(np.dot(index, strides)) for index in np.ndindex(*shape)]
    assert array.span == ((min(offsets) * 2, max(offsets) * 2 + 2) if offsets else (0, 0))
    if not array.may_overlap_itself:
        assert len(set(offsets)) == len(offsets)
    if offsets and array.is_contiguous:
        assert sorted(offsets) == list(range(len(offsets)))


@given(st.lists(st.integers(0, 5), max_size=4))
def test_row_major_arrays_are_contiguous_and_free_of_overlap(shape: list[int]) -> None:
    array = Array("numpy", 64, tuple(shape), row_major(tuple(shape)), "f32", None)
    assert array.is_contiguous and not array.may_overlap_itself


def test_a_framework_is_one_file_that_the_folder_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "wibble.py").write_text(
        "from dsl.runtime.arrays import Array\n"
        "from dsl.runtime.frameworks.framework import Framework\n"
        "class Wibble(Framework):\n"
        "    name, modules, types = 'wibble', ('wibble',), ('Grid',)\n"
        "    def describe(self, x):\n"
        "        return Array(self.name, x.address, (3,), (1,), 'f32', None)\n"
    )
    monkeypatch.setattr(dsl.runtime.frameworks, "__path__", [*dsl.runtime.frameworks.__path__, str(tmp_path)])
    dsl.runtime.frameworks.frameworks.cache_clear()
    try:
        grid = type("Grid", (), {"__module__": "wibble.arrays", "address": 4096})
        assert describe(grid()) == Array("wibble", 4096, (3,), (1,), "f32", None)
    finally:
        dsl.runtime.frameworks.frameworks.cache_clear()


def lying(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str = "f32") -> Array:
    return Array("numpy", 64, shape, strides, dtype, None)


def bytes_of(array: Array, at: int) -> set[int]:
    index = np.indices(array.shape).reshape(len(array.shape), -1)
    starts = at + array.itemsize * (np.array(array.strides)[:, None] * index).sum(0)
    return {int(start) + i for start in starts for i in range(array.itemsize)}


views = st.lists(st.tuples(st.integers(1, 4), st.integers(-7, 9)), min_size=1, max_size=3)


@given(views, views, st.integers(-40, 40), st.sampled_from(["u8", "f16", "f32"]))
def test_two_arrays_share_the_bytes_of_their_elements(first: Any, second: Any, distance: int, dtype: str) -> None:
    a, b = lying(*zip(*first, strict=True), dtype), lying(*zip(*second, strict=True))
    assert share_memory(a, b, distance) == bool(bytes_of(a, distance) & bytes_of(b, 0))


def test_heads_of_one_packed_array_share_nothing() -> None:
    """Whatever their number: millions of tokens, too, and those of which q, k and v take turns."""
    q, k = lying((1 << 22, 32, 128), (48 * 128, 128, 1)), lying((1 << 22, 8, 128), (48 * 128, 128, 1))
    assert share_memory(k, q, 32 * 128 * 4) is False and share_memory(k, q, 31 * 128 * 4) is True
    turn = lying((1 << 22, 16, 128), (48 * 128, 3 * 128, 1))
    assert share_memory(turn, turn, 128 * 4) is False and share_memory(turn, turn, 3 * 128 * 4) is True


def test_what_is_too_hard_to_tell_is_said_to_be() -> None:
    a = lying((56, 26, 50), (1911804256, 903190602, 86959546), "u8")
    b = lying((18, 34, 33), (869609436, 1971913208, 1683214652), "u8")
    assert share_memory(a, b, 1_000_000) is None


def test_gaps_are_what_lies_between_elements() -> None:
    assert not lying((4, 5), (5, 1)).has_gaps and not lying((4, 5), (1, 4)).has_gaps
    assert not lying((4, 5), (-5, 1)).has_gaps and not lying((0, 5), (50, 1)).has_gaps
    assert lying((4, 5), (6, 1)).has_gaps and lying((2, 2), (0, 3)).has_gaps  # 4 elements over 4, of which it has 2
