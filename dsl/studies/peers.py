"""Peers: Python functions of torch, Triton, CuPy or numpy that compute the same results as the launch of an example.

A peer is called in place of the launch. It gets the same arrays, and the `expect` lines below the launch check its
results. On a GPU, it is timed in the same rounds as the kernels. If the names of its parameters are names of the
launch's arguments, it gets these arguments by name. Otherwise, it gets all arguments except pure outputs, in the order
of the launch. A peer either writes its outputs into arguments, or returns them.

On a GPU, the arrays are torch tensors, or CuPy arrays if torch is not installed. Without a GPU, they are numpy arrays
(torch tensors for `torch:…`), and nothing is timed.
"""

from __future__ import annotations

import ast as python
import ctypes
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.calls.api import ModuleFunction
from dsl.examples.launches import ExampleCall, Launcher, tensors_of
from dsl.examples.renewals import no_room
from dsl.examples.report import LaunchReport
from dsl.examples.transfers import copy_back, on_device
from dsl.lowering.ir.location import TileError, closest
from dsl.runtime.dtypes import BIT_FIELDS, DTYPES, numpy_dtype
from dsl.runtime.errors import DeviceError, RuntimeFault
from dsl.runtime.frameworks import describe, is_array
from dsl.runtime.renewed import KeptMemory, joined
from dsl.text import tree as ast

USAGE = "FILE.py::FUNCTION, MODULE::FUNCTION, or torch:softmax(dim=-1); EXAMPLE=… for one example only"
OF = re.compile(r"(\w+)=(?!=)(.*)", re.DOTALL)
TORCH_HOMES = ("torch", "torch.nn.functional")


class PeerFailed(Exception):
    """An error of a peer, with a message of one sentence."""


class Peer(Struct, frozen=True):
    """A function to compare with the kernels. `name` is the name of its row in the result.

    `on_host` is `torch` if the function needs torch tensors even without a GPU. The peer is tried in the example named
    `of`, or in all examples that launch the kernel or dispatch `of`. None means all examples.
    """

    name: str
    function: Callable[..., Any]
    on_host: str = "numpy"
    of: str | None = None

    def does(self, example: ast.Example) -> bool:
        launched = [line.name for line in example.lines if isinstance(line, ast.Launch)]
        return self.of is None or self.of == example.name or self.of in launched


def peer_of(text: str) -> Peer:
    """Parses a `--vs` option and imports the peer. Raises TileError."""
    if of := OF.fullmatch(text):
        return replace(peer_of(of[2]), of=of[1])
    if text.startswith("torch:"):
        return _of_torch(text)
    home, separator, name = text.rpartition("::")
    if not separator or not home or not name.isidentifier():
        raise TileError("option", None, f"'{text}' is not a peer", USAGE)
    module = _module(home)
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value) and key[0] != "_"]
        raise TileError("name", None, f"{home} has no function '{name}'", f"known: {', '.join(known) or 'none'}")
    # A @triton.jit function is an object that holds the Python function in `fn`.
    if not inspect.isroutine(function) and hasattr(function, "fn"):
        message = f"{text} is a Triton kernel, which does not give its grid"
        raise TileError("option", None, message, "name a Python function that launches it")
    return Peer(f"{Path(home).name if home.endswith('.py') else home}::{name}", function)


def _of_torch(text: str) -> Peer:
    """The peer for a text such as `torch:softmax(dim=-1)`.

    It is a function of torch or torch.nn.functional. Keyword arguments in the text must be literals.
    """
    try:
        call = python.parse(text.removeprefix("torch:"), mode="eval").body
        keywords: dict[str, Any] = {}
        if isinstance(call, python.Call):
            if call.args:
                raise ValueError
            keywords = {str(each.arg): python.literal_eval(each.value) for each in call.keywords}
            call = call.func
        path = python.unparse(call).split(".")
        if not all(part.isidentifier() for part in path):
            raise ValueError
    except (SyntaxError, ValueError):
        message = f"'{text}' is not a torch function with named literals"
        raise TileError("option", None, message, "torch:softmax(dim=-1)") from None
    try:
        homes = [importlib.import_module(home) for home in TORCH_HOMES]
    except ImportError as error:
        raise TileError("option", None, f"'{text}' needs PyTorch: {error}", "pip install torch") from None
    for home in homes:
        found: Any = home
        for part in path:
            found = getattr(found, part, None)
        if callable(found):
            return Peer(text, partial(found, **keywords) if keywords else found, "torch")
    raise TileError("name", None, f"neither torch nor torch.nn.functional has '{'.'.join(path)}'")


def _module(home: str) -> Any:
    """Imports a `.py` file, or a module by name. A module is searched first in the current folder. Raises TileError."""
    try:
        if not home.endswith(".py"):
            # `python -m` also searches the current folder first. The script `dsl` would search the script's folder
            # instead.
            sys.path.insert(0, "")
            try:
                return importlib.import_module(home)
            finally:
                sys.path.remove("")
        path = Path(home)
        if not path.is_file():
            raise TileError("file", None, f"there is no file {home}")
        name = f"dsl_peer_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # Triton looks up a kernel's module there
        spec.loader.exec_module(module)
        return module
    except TileError:
        raise
    # All errors that the user's module raises are the user's.
    except Exception as error:
        raise TileError("file", None, f"{home} cannot be imported: {in_words(error)}") from None


def in_words(error: BaseException) -> str:
    """Describes an exception of the user's Python code in one line, with the outermost line of its traceback that is
    not in this file."""
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    ours = (str(Path(__file__)), "<frozen")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    return f"{text} ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else text


# ---- what the kernels of the launch do with its arguments ----


class Roles(Struct, frozen=True):
    """The kernels of a launch write the arguments `written`. Of these, they write `outputs` without reading them
    first."""

    written: tuple[str, ...]
    outputs: tuple[str, ...]


def roles_of(call: ExampleCall) -> Roles:
    taken = [*tensors_of((launch.step, launch.kernel.header) for launch, _ in call.launches)]
    first = dict(reversed(taken))
    written = {name for name, access in taken if "w" in access}
    in_order = [name for name in call.given if name in written]
    return Roles(tuple(in_order), tuple(name for name in in_order if first[name] == "w"))


# ---- a call ----


@dataclass(slots=True)
class PeerCall:
    """A call of a peer. `arrays` are the launch's arguments, converted to the peer's framework."""

    peer: Peer
    roles: Roles
    arrays: Mapping[str, Any]
    submit: Callable[[], Any] = field(init=False)
    taken: frozenset[str] = field(init=False)
    kept: KeptMemory | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        named = _parameters(self.peer.function)
        known = {name for name, value in self.arrays.items() if value is not None}
        if named is not None and named[0] <= known and named[1] & known:
            self.taken = frozenset(named[1] & known)
            self.submit = partial(self.peer.function, **{name: self.arrays[name] for name in self.taken})
        # Arguments are positional, since the parameters have other names than the launch's arguments.
        else:
            inputs = [name for name in self.arrays if name in known and name not in self.roles.outputs]
            self.taken = frozenset(inputs)
            self.submit = partial(self.peer.function, *(self.arrays[name] for name in inputs))

    def keep(self, ordinal: int | None) -> None:
        """Saves the contents of the arrays that the peer may change. If there is not enough memory, `reason` is the
        message."""
        given = [describe(self.arrays[name]) for name in self.roles.written if name in self.taken]
        spans = [(array.pointer + array.span[0], array.pointer + array.span[1]) for array in given if array.size]
        try:
            self.kept = KeptMemory(joined(spans), ordinal)
        except DeviceError as error:
            self.reason = no_room(error)

    def repeated(self) -> Callable[[], object]:
        """A function that calls the peer, each time with the same array contents."""
        return self.submit if self.kept is None else self.kept.before(self.submit)

    def results(self, returned: Any) -> dict[str, Any]:
        """The outputs of a call by name: the arrays that the peer returned, or its arguments that it wrote. Raises
        PeerFailed."""
        written = self.roles.written
        if isinstance(returned, Mapping):
            found = dict(returned)
        elif returned is None:
            found = {}
        else:
            values = returned if isinstance(returned, tuple | list) else (returned,)
            # A peer must return the launch's pure outputs. If there are none, the peer must return the arrays that the
            # launch updates.
            wanted = [name for name in written if name in self.roles.outputs] or list(written)
            if len(values) != len(wanted):
                raise PeerFailed(f"it returns {len(values)} arrays; the launch writes {', '.join(wanted)}")
            found = dict(zip(wanted, values, strict=True))
        if unknown := found.keys() - set(written):
            raise PeerFailed(f"it returns {', '.join(sorted(unknown))}; the launch writes {', '.join(written)}")
        missing = [name for name in written if name not in found and name not in self.taken]
        if missing:
            raise PeerFailed(f"it neither takes nor returns {', '.join(missing)}")
        return {name: found.get(name, self.arrays[name]) for name in written}


def _parameters(function: Callable[..., Any]) -> tuple[set[str], set[str]] | None:
    """Returns two sets of names: the parameters without a default, and all parameters that can be passed by name.
    Returns None if Python cannot inspect the function."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return {each.name for each in named if each.default is each.empty}, {each.name for each in named}


class PeerLauncher(Launcher):
    """Calls a peer in place of launching the kernels, and copies its results into the example's arrays."""

    def __init__(self, *given: Any, peer: Peer, roles: Roles):
        super().__init__(*given)
        self.peer, self.roles = peer, roles
        self.call: PeerCall | None = None

    def launch(
        self, function: ModuleFunction, given: Mapping[str, Any], schedule: str | None, rest: Mapping[str, Any]
    ) -> None:
        if self.call is not None:
            raise PeerFailed("the example has several launches: a peer takes the place of one")
        arrays = given if self.ordinal is None else on_device(given, self.ordinal)
        frame = _framework(self.peer, self.ordinal)
        self.call = PeerCall(self.peer, self.roles, {name: frame(value) for name, value in arrays.items()})
        inputs = inputs_of(given, self.roles)
        # On a GPU the peer gets copies, so the host arrays stay unchanged.
        before = {name: array.copy() for name, array in inputs.items()} if self.ordinal is None else inputs
        self.call.keep(self.ordinal)
        try:
            returned = self.call.submit()
        # A SystemExit of a peer would end the command without a message.
        except (Exception, SystemExit) as error:
            raise PeerFailed(in_words(error)) from error
        if self.ordinal is not None:
            from dsl.runtime.cuda.context import context

            context(self.ordinal).synchronize()
        after = {name: array if self.ordinal is None else arrays[name].numpy() for name, array in inputs.items()}
        # A peer that changes an input would be right in this round and wrong in every later round.
        if spoiled := [name for name in inputs if not equal_bytes(before[name], after[name])]:
            raise PeerFailed(f"it changes {', '.join(spoiled)}, which the launch only reads")
        results = self.call.results(returned)
        in_place = {name for name, value in results.items() if value is self.call.arrays[name]}
        if self.ordinal is not None:
            copy_back(given, arrays, in_place)
        for name, value in results.items():
            if name not in in_place or (self.ordinal is None and not _shares(value, given[name])):
                put(given[name], value, name, self.ordinal)
        self.empty.wrote(given[name] for name in results)
        self.report.launches.append(LaunchReport(self.peer.name, None, [0, 0, 0], 0, 0))

    def writer_of(self, array: Any, index: list[int]) -> str | None:
        return None


def inputs_of(given: Mapping[str, Any], roles: Roles) -> dict[str, Any]:
    """The arrays of a call that its kernels only read."""
    written = {id(given[name]) for name in roles.written}
    return {name: value for name, value in given.items() if is_array(value) and id(value) not in written}


def equal_bytes(a: Any, b: Any) -> bool:
    """Whether two arrays of one shape and type contain the same bytes, including NaNs."""
    import numpy as np

    mine, others = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (a, b))
    return np.array_equal(mine, others)


def _shares(value: Any, array: Any) -> bool:
    """Whether an array that a peer returned has the same address as the example's array."""
    return describe(value).pointer == describe(array).pointer


def put(array: Any, value: Any, name: str, ordinal: int | None) -> None:
    """Copies a result into the example's array. Raises PeerFailed if shape, type or device differ."""
    import numpy as np

    from dsl.runtime.cuda import driver
    from dsl.runtime.cuda.context import context

    try:
        found, wanted = describe(value), describe(array)
    except RuntimeFault as error:
        raise PeerFailed(f"{name}: {error.message}") from None
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        texts = [f"{each.dtype}{list(each.shape)}" for each in (found, wanted)]
        raise PeerFailed(f"it returns {name} as {texts[0]}; the launch's is {texts[1]}")
    if found.device != ordinal:
        raise PeerFailed(f"it returns {name} on another device than its inputs")
    if not found.is_contiguous:
        value = value.contiguous() if hasattr(value, "contiguous") else value.copy(order="C")
        found = describe(value)
    # Copied through a buffer, since the example's array may be strided.
    made = np.empty(array.shape, array.dtype)
    if ordinal is None:
        ctypes.memmove(made.ctypes.data, found.pointer, made.nbytes)
    else:
        owner = context(ordinal)
        with owner.current():
            owner.call(driver.bindings().cuMemcpyDtoH, made.ctypes.data, found.pointer, made.nbytes)
    array[...] = made


def _framework(peer: Peer, ordinal: int | None) -> Callable[[Any], Any]:
    """A function that converts an argument to the peer's framework, without a copy."""
    if ordinal is None and peer.on_host == "numpy":
        return _as_numpy
    for name, framed in (("torch", _as_torch), ("cupy", _as_cupy)):
        with suppress(ImportError):
            return partial(framed, importlib.import_module(name), ordinal)
    message = "on a GPU a peer takes tensors of torch or arrays of CuPy, and neither is installed"
    raise TileError("option", None, message, "pip install torch")


def _as_numpy(value: Any) -> Any:
    """Views bf16 and 8-bit floats as types of ml_dtypes, with which numpy can compute."""
    names = getattr(getattr(value, "dtype", None), "names", None)
    return value if not names else value.view(numpy_dtype(names[0]))


def _as_torch(torch: Any, ordinal: int | None, value: Any) -> Any:
    if value is None or not is_array(value):
        return value
    dtype = describe(value).dtype
    if ordinal is not None:
        tensor = torch.as_tensor(value, device=f"cuda:{ordinal}")
    else:
        names = value.dtype.names
        # torch cannot convert structured dtypes, so the bits are viewed first as integers, then as the type of torch.
        tensor = torch.from_numpy(value if not names else value.view(BIT_FIELDS[dtype]))
    return tensor.view(getattr(torch, DTYPES[dtype].numpy)) if dtype in BIT_FIELDS else tensor


def _as_cupy(cupy: Any, ordinal: int | None, value: Any) -> Any:
    return cupy.asarray(value) if value is not None and is_array(value) else value


def peers_of(texts: Sequence[str], examples: Sequence[ast.Example]) -> list[Peer]:
    """Parses all `--vs` options and imports their peers. This is done first, so that a missing peer is reported before
    a long run.

    Raises TileError, also for a peer whose `of` matches no example.
    """
    found = [peer_of(text) for text in texts]
    for peer in found:
        if not any(map(peer.does, examples)):
            names = {line.name for example in examples for line in example.lines if isinstance(line, ast.Launch)}
            known = sorted(names | {example.name for example in examples if example.name})
            hint = closest(peer.of or "", known) or f"known: {', '.join(known)}"
            raise TileError("example", None, f"no example is named '{peer.of}' or launches it", hint)
    return found
