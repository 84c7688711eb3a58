"""Makes a function of JAX from a kernel or dispatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

import jax
import numpy
from msgspec import Struct, field

from dsl import TileError
from dsl.calls.api import ModuleFunction
from dsl.calls.arguments import in_words, plain_number
from dsl.jax.gradients import differentiable
from dsl.jax.launches import JaxWay, launched, outputs_of, way_of
from dsl.operators.folding import check_foldable, why_not_foldable
from dsl.operators.gradients import Backward, backward_of, no_backward
from dsl.operators.spec import OperatorSpec, check_function, spec_of
from dsl.runtime.numbers import exact_key

MOST_NUMBERS = 1024
"""The greatest number of sets of numbers for which a function keeps its derivatives."""
IN_PLACE = (
    "arrays of JAX cannot be written, so let the kernel return an output that it does not read; a dispatch can add up "
    "in a workspace(…, zeroed) and copy that"
)


class JaxFunction(Struct, frozen=True, eq=False, weakref=True):
    """A kernel or dispatch as a function of JAX arrays. `rule` is its backward function, and `dim` the dim into which
    `jax.vmap` folds its axis. `asked` is the way that the user asks for, `ffi` or `callback`, or None."""

    spec: OperatorSpec
    rule: Backward | None
    dim: str | None
    asked: str | None
    known: dict[Any, Callable[..., tuple[Any, ...]]] = field(default_factory=dict)
    """Names of the inputs that JAX handles, and values of the others → the function of JAX."""

    def __deepcopy__(self, memo: dict[int, Any]) -> JaxFunction:
        return self  # as of a Python function: a copied network calls the same one

    def __repr__(self) -> str:
        return f"<dsl.jax.op {self.spec.name}{self.__signature__}>"

    @property
    def __name__(self) -> str:
        return self.spec.name

    @property
    def __signature__(self) -> Signature:
        takes, found = [self.spec.parameter(name) for name in self.spec.inputs], []
        for at, p in enumerate(takes):
            default = None if all(each.optional for each in takes[at:]) else Parameter.empty
            found.append(Parameter(p.name, Parameter.POSITIONAL_OR_KEYWORD, default=default))
        return Signature(found)

    def read_all(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the arguments that JAX handles, and the others, by their names."""
        bound = self.__signature__.bind(*arguments, **named)
        bound.apply_defaults()
        given = {name: self.read(name, value) for name, value in bound.arguments.items()}
        operands = {name: value for name, value in given.items() if isinstance(value, jax.Array)}
        return operands, {name: value for name, value in given.items() if name not in operands}

    def way(self, *arguments: Any, **named: Any) -> JaxWay:
        """Says by which way XLA launches a call with these arguments on a GPU where `jax.jit` traces it: `name` is
        `ffi` or `callback`, and `why` says why it is not `ffi`. Only the shapes and types of arrays matter."""
        operands, plain = self.read_all(arguments, named)
        outputs = outputs_of(self.spec, plain, operands)
        return way_of(self.spec, plain, operands, outputs, self.asked)[0]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        operands, plain = self.read_all(arguments, named)
        key = tuple(operands), exact_key(plain)
        if (call := self.known.get(key)) is None:
            if len(self.known) >= MOST_NUMBERS:
                self.known.clear()
            launch = launched(self.spec, tuple(operands), plain, self.dim, self.asked)
            call = self.known[key] = differentiable(launch, self.spec, tuple(operands), plain, self.rule)
        results = call(*operands.values())
        return results[0] if len(results) == 1 else results

    def read(self, name: str, value: Any) -> Any:
        """Returns an argument as JAX takes it: an array, a traced number, or a plain value."""
        p = self.spec.parameter(name)
        if p.kind == "array":
            if value is None and p.optional:
                return None
            if not isinstance(value, jax.Array | numpy.ndarray):
                raise TileError("call", None, f"{self.spec.name} takes '{name}' as an array; got {in_words(value)}")
            return jax.numpy.asarray(value)
        if not isinstance(value, jax.core.Tracer):
            if p.kind == "table":
                return value.tolist() if hasattr(value, "tolist") else value
            number = plain_number(value)
            return value if number is None else number
        if p.kind == "table" or value.ndim:
            raise TileError("call", None, f"{self.spec.name} takes no traced array as the {p.kind} '{name}'")
        if name in self.spec.deciding:
            message = f"'{name}' decides the shape of an output of {self.spec.name}, so it cannot be traced"
            raise TileError("call", None, message, f"jax.jit(…, static_argnames='{name}')")
        return value


def op(
    function: ModuleFunction,
    *,
    outputs: Sequence[str] | str | None = None,
    backward: ModuleFunction | Callable[..., Any] | None = None,
    gradients: Mapping[str, str] | None = None,
    vmap: str | None = None,
    way: str | None = None,
    **values: Any,
) -> JaxFunction:
    """Makes a kernel or dispatch a function of JAX arrays, for `jax.jit`, `jax.grad` and `jax.vmap` (docs/jax.md).

    It takes the inputs of `function` in their order or by name, and returns `outputs`: by default the arrays that a
    call makes if it leaves them out. `values` fixes other parameters, options, types and constants, as in CAUSAL=True
    or O="f16". `backward` and `gradients` are as in `dsl.torch.op`, with JAX arrays in place of tensors.

    `vmap` names a dim along which results are independent, the first one of arrays that have it. `jax.vmap` then folds
    its axis into this dim. Without `vmap`, it launches once for each element of its axis.

    `way` is how XLA launches what JAX traces: "ffi", a foreign function of XLA, which launches on XLA's stream, or
    "callback", which goes through the host. By default, it is "ffi" where that is possible. `JaxFunction.way` says
    which one a call takes, and why.

    Raises TileError `call` or `name` for names that do not fit together."""
    check_function(function)
    if way not in (None, "ffi", "callback"):
        raise TileError("call", None, f"way is 'ffi' or 'callback', not {way!r}")
    spec = spec_of(OperatorSpec, function, function.name, outputs, (), values, IN_PLACE)
    if vmap is not None:
        check_foldable(spec, vmap)
    if backward is None:
        no_backward(gradients)
        return JaxFunction(spec, None, vmap, way)

    def make(name: str, outputs: tuple[str, ...], values: dict[str, Any]) -> tuple[JaxFunction, OperatorSpec]:
        own = spec_of(OperatorSpec, backward, name, outputs, (), values, IN_PLACE)  # type: ignore[arg-type]
        folded = vmap if vmap is not None and why_not_foldable(own, vmap) is None else None
        return JaxFunction(own, None, folded, way), own

    return JaxFunction(spec, backward_of(spec, backward, gradients or {}, make), vmap, way)
