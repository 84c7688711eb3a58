"""Functions of JAX that XLA launches as foreign functions: without the host, by exported C, here on a stub driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

jax: Any = pytest.importorskip("jax")
jnp = jax.numpy
from jax_on_host import EmulatedLaunches, needs_compiler, on_host  # noqa: E402
from test_jax_functions import BOUNDS, CASES, close, first, functions, normal  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launches(tmp_path: Path) -> Iterator[EmulatedLaunches]:
    with on_host(tmp_path) as made:
        yield made


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_are_as_jax_s_own(case: str, launches: EmulatedLaunches) -> None:
    name, theirs, args = CASES[case]
    ours, arrays = (
        functions("emulator", way="ffi")[name],
        tuple(i for i, x in enumerate(args) if not isinstance(x, float)),
    )
    wanted = theirs(*args)
    g, bound = normal(*wanted.shape, dtype=wanted.dtype, seed=3), 2 * BOUNDS[str(wanted.dtype)]
    numbers = tuple(i for i in range(len(args)) if i not in arrays)  # the value of a traced number is on the device

    def jitted(function: Any) -> Any:
        return jax.jit(function, static_argnums=numbers)

    assert close(first(jitted(ours)(*args)), wanted, bound) and launches.entries

    def loss(function: Any) -> Any:
        return jax.grad(lambda *args: (first(function(*args)) * g).astype("float32").sum(), arrays)

    right = loss(theirs)(*args)
    assert all(close(a, b, 4 * bound) for a, b in zip(jitted(loss(ours))(*args), right, strict=True))
