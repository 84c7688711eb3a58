"""Marks and fixtures for all tests: what needs a GPU is skipped without one."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from tests.gpu_memory import A_FEW, alone
from tests.whole import note_command, thin

# JAX takes three quarters of a GPU's memory at its first use, in each worker and for good, unless it is told before it
# is imported: two workers then have none left for torch, nor for each other.
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"

# Tests must not read a row of machines.toml that the developer's own GPU has (docs/choosing.md).
CONFIG = TemporaryDirectory(prefix="dsl-tests-config-", ignore_cleanup_errors=True)
os.environ["XDG_CONFIG_HOME"] = CONFIG.name

# Tests compile what they look at, and write nothing into the developer's compile cache. Those of the cache place it.
os.environ["DSL_CACHE"] = "off"

# Workers take the cores. Threads of small products of matrices wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# Tests start more than a hundred processes, which import what these import. Where the environment forbids bytecode,
# each would compile 370 modules again, 0.4 of its 0.9 s: they share what the first one writes, outside the tree.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and "PYTHONPYCACHEPREFIX" not in os.environ:
    BYTECODE = TemporaryDirectory(prefix="dsl-tests-bytecode-", ignore_cleanup_errors=True)
    os.environ["PYTHONPYCACHEPREFIX"] = BYTECODE.name

# What the tests of a file make is garbage behind the last of them, all at once: the collector looks there, and never
# again at what is left. Not behind each file: it looks at what lives, too, 0.6 s a million objects, and at garbage for
# twice as long. With five million a worker grew to 12 GB.
gc.disable()
MOST_OBJECTS = 1_500_000

settings.register_profile("tests", deadline=None, print_blob=True)  # a busy machine is no failure
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True if golden files are to be written instead of compared."""
    return request.config.getoption("--update-golden")


def pytest_configure(config: pytest.Config) -> None:
    note_command(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thins long lists of cases. Skips tests marked `gpu`, and says why there is no GPU. Each of them has a twin on the
    emulator."""
    thin(config, items)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    from dsl.runtime import gpu_reason

    if (reason := gpu_reason()) is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}"))


@pytest.fixture(autouse=True)
def _gpu_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test marked `gpu_memory(GIGABYTES)` runs where the device has them, and while no other such test runs."""
    marker = request.node.get_closest_marker("gpu_memory")
    if marker is None:
        yield
        return
    from dsl.runtime import device_facts

    (needed,) = marker.args
    assert needed > A_FEW, f"only tests that need more than {A_FEW} GB say so"
    if device_facts("cuda").memory_bytes < needed * 1e9:
        pytest.skip(f"needs {needed} GB of the device's memory")
    with alone():
        yield


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay: no collection need look through them


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if (nextitem is None or nextitem.path != item.path) and gc.get_count()[0] > MOST_OBJECTS:
        gc.collect()
        gc.freeze()


def pytest_sessionfinish() -> None:
    gc.freeze()  # pytest collects five times before it ends, for what ends with it


@pytest.fixture
def own_garbage() -> Iterator[None]:
    """What earlier tests left is not looked through inside of a test that is timed or collects: that alone takes up to
    15 s."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def no_nvdisasm() -> Iterator[None]:
    """As where it is not installed, for tests of reports that do not look at machine code: 0.4 s a kernel."""
    from dsl.runtime.errors import MissingToolError

    def missing(cubin: bytes, *options: str) -> str:
        raise MissingToolError("nvdisasm", "pip install it")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsl.runtime.machine_code.sass", missing)
        yield


@pytest.fixture(params=["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Runs a test on the emulator and, where there is one, on a GPU: each is the other's twin."""
    return request.param
