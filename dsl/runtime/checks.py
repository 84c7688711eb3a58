"""Checks the arguments of a launch against the header, once for each class of calls, and evaluates the grid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod

from dsl.runtime.arrays import HOST_ALIGNMENT, MOST_TRIED, Array, share_memory
from dsl.runtime.dtypes import in_type
from dsl.runtime.errors import LaunchError
from dsl.runtime.expressions import Expression, ExpressionError, Number, compile_expression, show
from dsl.runtime.header import Argument, Header, HeaderTensor, Scalar, stride_name
from dsl.runtime.tensor_map import TensorMap, of_array

MOST_INT32 = (1 << 31) - (1 << 21)
"""Most elements that are indexed with 32 bits, with room above them for a slice that passes the edge."""
WIDER = "a call of the module takes 64 bits by itself; a variant does with the choice index.bits=64"
"""The hint where 32 bits cannot index all elements."""
GRID_LIMITS = ((1 << 31) - 1, 65535, 65535)
"""Blocks along x, y and z (CUDA programming guide, "Technical specifications per compute capability")."""


KEPT_DISTANCES = 64
"""Most distances of two tensors of a class whose answer, whether they share memory, is kept. A model's layers have
few."""


@dataclass(frozen=True, slots=True)
class TensorPair:
    """Tensors number `a` and `b`: the ranges that they span meet if low < pointer a − pointer b < high (bytes).
    `shares`: whether elements meet at that distance; None if that is too hard to decide."""

    a: int
    b: int
    low: int
    high: int
    shares: Callable[[int], bool | None]

    def meet(self, pointers: Sequence[int]) -> bool | None:
        """Whether an element of one overlaps one of the other; None if that is too hard to decide."""
        distance = pointers[self.a] - pointers[self.b]
        return self.low < distance < self.high and self.shares(distance)

    def apart(self, distance: int) -> bool:
        """For tensors whose ranges meet: whether their elements certainly do not."""
        return self.shares(distance) is False


def surely(distance: int) -> bool:
    """Arrays without gaps share memory wherever their ranges meet."""
    return True


@dataclass(frozen=True, slots=True)
class CallClass:
    """What calls with equal shapes, strides and types have in common.

    `names`: values of all names of expressions. `workspaces`: elements of each. `alignments`: (number, mask) of each
    tensor that is not empty. `fits`: whether pointers are aligned and share no memory; `in_place`: pairs of tensors, by
    number, that may be the same array. `maps`: the tensor map of each such argument, without the address; empty for a
    grid without blocks."""

    arrays: Mapping[str, Array]
    dims: Mapping[str, int]
    names: Mapping[str, Number]
    grid: tuple[int, int, int]
    alignments: tuple[tuple[int, int], ...]
    overlaps: tuple[TensorPair, ...]
    fits: Callable[[Sequence[int]], bool]
    workspaces: Mapping[str, int]
    maps: Mapping[Argument, TensorMap]
    in_place: frozenset[tuple[int, int]] = frozenset()


def pointer_test(
    alignments: Sequence[tuple[int, int]], overlaps: Sequence[TensorPair], in_place: Collection[tuple[int, int]] = ()
) -> Callable[[Sequence[int]], bool]:
    """A test whether pointers are not null, aligned and apart, or equal if the pair is `in_place`. It is one Python
    expression, since loops over two arrays took twice as long in every launch with new addresses. The expression
    consists of numbers only, and of calls of `apart` of the overlaps, which run only where ranges meet."""
    # Alignments are powers of two: a mask tests them.
    terms = [f"p[{number}] and not p[{number}] & {mask}" for number, mask in alignments]
    names: dict[str, Callable[[int], bool]] = {}
    for i, each in enumerate(overlaps):
        a, b = each.a, each.b
        apart = f"not {each.low} < p[{a}] - p[{b}] < {each.high}"
        if (a, b) in in_place:
            apart += f" or p[{a}] == p[{b}]"
        if each.shares is not surely:
            names[f"apart{i}"] = each.apart
            apart += f" or apart{i}(p[{a}] - p[{b}])"
        terms.append(f"({apart})")
    # Only integers stand in the text, and names that are made here.
    test: Callable[[Sequence[int]], bool] = eval(f"lambda p: {' and '.join(terms) or True}", names)
    return test


class Checker:
    """The checks of one header, with its expressions compiled."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.grid = [compile_expression(tree) for tree in header.grid]
        self.requires = [(compile_expression(require.expr), require) for require in header.requires]
        self.estimates = {
            key: compile_expression(tree) for key in ("moves", "computes") if (tree := getattr(header, key)) is not None
        }
        expressions = [*self.grid, *(expression for expression, _ in self.requires), *self.estimates.values()]
        self.names = frozenset[str]().union(*(expression.names for expression in expressions))
        """Names that the expressions read. A scalar among them makes a class for each of its values."""

    def fail(self, code: str, message: str, hint: str | None = None, line: int | None = None) -> LaunchError:
        """A LaunchError that names the kernel."""
        return LaunchError(code, f"{self.header.label}: {message}", hint, line)

    def check(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Number],
        sms: int,
        grid: tuple[int, int, int] | None = None,
    ) -> CallClass:
        """Checks everything about the present tensors; `grid` overrides the header's. Raises LaunchError."""
        for tensor in self.header.tensors:
            self._check_tensor(tensor, arrays[tensor.name])
        dims = self._bind_dims(arrays)
        names: dict[str, Number] = {"sms": sms, **self._as_kernel_has(scalars), **dims}
        # Types and functions among the constants are no numbers.
        names |= {name: value for name, value in self.header.constants.items() if not isinstance(value, str)}
        names |= {
            stride_name(tensor.name, axis): stride
            for tensor in self.header.tensors
            if tensor.strided
            for axis, stride in enumerate(arrays[tensor.name].strides)
        }
        for expression, require in self.requires:
            if not self._evaluate(expression, names, "requires"):
                # The message shows what the condition was evaluated with.
                values = ", ".join(f"{name} = {names[name]}" for name in sorted(expression.names))
                message = f"requires {require.text}" + (f" ({values})" if values else "")
                raise self.fail("requires", message, require.hint, require.line)
        alignments = tuple(
            (number, (tensor.align if array.device is not None else min(tensor.align, HOST_ALIGNMENT)) - 1)
            for number, tensor in enumerate(self.header.tensors)
            if (array := arrays[tensor.name]).size
        )
        blocks, overlaps = self._check_grid(grid, names), self._overlaps(arrays)
        in_place = self._in_place(arrays)
        test, workspaces = pointer_test(alignments, overlaps, in_place), self._workspaces(blocks)
        # The driver refuses a map of an empty tensor, which a grid without blocks may have.
        maps = self._maps(arrays) if 0 not in blocks else {}
        found = CallClass(arrays, dims, names, blocks, alignments, overlaps, test, workspaces, maps, in_place)
        self.check_pointers(found, [arrays[tensor.name].pointer for tensor in self.header.tensors])
        return found

    def _as_kernel_has(self, scalars: Mapping[str, Number]) -> dict[str, Number]:
        """Scalars rounded to their types: the kernel gets 1 for 0.9999 as bf16, so `assert s < 1.0` must fail."""
        types = {param.name: param.dtype for param in self.header.params if isinstance(param, Scalar)}
        found = {}
        for name, value in scalars.items():
            try:
                found[name] = in_type(types[name], value)
            except OverflowError:
                raise self.fail("type", f"{name} takes {types[name]}: {value!r} does not fit") from None
        return found

    def estimate(self, key: str, names: Mapping[str, Number]) -> Number | None:
        """Bytes moved (`moves`) or operations done (`computes`) by one launch; None if the header has none."""
        return self._evaluate(self.estimates[key], names, key) if key in self.estimates else None

    def check_pointers(self, call: CallClass, pointers: Sequence[int]) -> None:
        """Checks the facts in which calls of a class differ. Raises LaunchError `array` (no memory) or `overlap`."""
        if call.fits(pointers):
            return
        for number, mask in call.alignments:
            if pointers[number] & mask or not pointers[number]:
                raise self._pointer_error(self.header.tensors[number], pointers[number])
        self.check_overlaps(call, pointers)

    def check_overlaps(self, call: CallClass, pointers: Sequence[int]) -> None:
        """Checks only for memory that two arrays share. Raises LaunchError `overlap`."""
        for each in call.overlaps:
            is_one = pointers[each.a] == pointers[each.b]
            meet = each.meet(pointers)
            if meet is False or (is_one and (each.a, each.b) in call.in_place):
                continue
            first, second = self.header.tensors[each.a].name, self.header.tensors[each.b].name
            hint = f"pass a copy of {second}"
            if meet is None:
                message = (
                    f"{first} and {second} may share memory, and one of them is written: their ranges meet, and "
                    f"{MOST_TRIED} trials do not decide whether their elements do"
                )
                raise self.fail("overlap", message, f"{hint}, or views with fewer axes")
            if is_one:
                hint += "; this variant is not proved to read each element before it is written, by the same thread"
            raise self.fail("overlap", f"{first} and {second} share memory, and one of them is written", hint)

    def _pointer_error(self, tensor: HeaderTensor, pointer: int) -> LaunchError:
        if not pointer:
            return self.fail("array", f"{tensor.name} has no memory")
        message = f"{tensor.name} is aligned to {pointer & -pointer} bytes, this variant takes {tensor.align}"
        return self.fail("array", message, "pass a copy, or compile for this alignment")

    def _check_tensor(self, tensor: HeaderTensor, array: Array) -> None:
        name = tensor.name
        if array.dtype != tensor.dtype:
            raise self.fail("type", f"{name} is {array.dtype}, the kernel takes {tensor.dtype}")
        # A misaligned element would fault on a GPU.
        if array.size and array.pointer % array.itemsize:
            message = f"{name} begins inside an element: its address is no multiple of {array.itemsize}"
            raise self.fail("array", message, "pass a copy")
        if len(array.shape) != len(tensor.dims):
            expected = ", ".join(map(str, tensor.dims))
            raise self.fail("shape", f"{name} has {len(array.shape)} axes {array.shape}, the kernel takes [{expected}]")
        if not tensor.strided and not array.is_contiguous:
            raise self.fail("array", f"{name} is not row-major: its strides are {array.strides}", "pass a copy")
        if tensor.written and array.immutable:
            message = f"{name} is written, and arrays of {array.framework} cannot be"
            raise self.fail("array", message, "pass an output of torch or CuPy")
        if tensor.written and array.readonly:
            raise self.fail("array", f"{name} is written, and the array is read-only")
        # Two threads would write one element, in any order.
        if tensor.written and array.may_overlap_itself:
            message = f"{name} is written, and its elements share memory (strides {array.strides})"
            raise self.fail("array", message, "pass a contiguous array")
        # A contiguous array's offsets stay below its size.
        reach = array.reach if tensor.strided else max(array.size, *array.shape)
        if self.header.index_bits == 32 and reach > MOST_INT32:
            message = f"{name} reaches over {reach} elements, this variant counts up to {MOST_INT32} in 32 bits"
            raise self.fail("requires", message, WIDER)

    def _bind_dims(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        dims: dict[str, int] = {}
        origin: dict[str, str] = {}
        for tensor in self.header.tensors:
            for axis, (dim, extent) in enumerate(zip(tensor.dims, arrays[tensor.name].shape, strict=True)):
                where = f"axis {axis} of {tensor.name}"
                if isinstance(dim, int):
                    if extent != dim:
                        raise self.fail("shape", f"{where} has {extent} elements, the kernel takes {dim}")
                elif dims.setdefault(dim, extent) != extent:
                    raise self.fail("shape", f"{dim} is {dims[dim]} in {origin[dim]}, and {extent} in {where}")
                else:
                    origin.setdefault(dim, where)
        return dims

    def _check_grid(self, override: tuple[int, int, int] | None, names: Mapping[str, Number]) -> tuple[int, int, int]:
        own = tuple(self._evaluate(expression, names, "the grid") for expression in self.grid)
        blocks = override or own
        for axis, count, limit in zip("xyz", blocks, GRID_LIMITS, strict=True):
            if not isinstance(count, int) or not 0 <= count <= limit:
                raise self.fail("grid", f"the grid has {count} blocks along {axis}, from 0 to {limit} are possible")
        for axis, count, most in zip("xyz", blocks, own, strict=True):
            if count > most:
                message = f"{count} blocks along {axis}: the kernel's grid has {most}, and its code relies on that"
                raise self.fail("grid", message, "grid= launches fewer")
        # A split sum ends in the block that arrives last: with fewer blocks none would be the last.
        if self.header.workspaces and blocks != own:
            message = f"{blocks} blocks: the last of the kernel's {own} to arrive finishes the work, and must run"
            raise self.fail("grid", message, "leave out grid=, or split nothing")
        # The driver would refuse it, with an error that names no kernel.
        if blocks[0] % self.header.cluster:
            message = f"the grid has {blocks[0]} blocks along x, not a multiple of its clusters' {self.header.cluster}"
            raise self.fail("grid", message, "let the grid be a multiple of the schedule's 'cluster'")
        return int(blocks[0]), int(blocks[1]), int(blocks[2])

    def _workspaces(self, blocks: tuple[int, int, int]) -> dict[str, int]:
        """Elements of each workspace: a multiple of the number of blocks."""
        out = {each.name: each.each * prod(blocks) for each in self.header.workspaces}
        for name, count in out.items():
            if self.header.index_bits == 32 and count > MOST_INT32:
                message = f"the workspace {name} has {count} elements, this variant counts to {MOST_INT32} in 32 bits"
                raise self.fail("requires", message, "'choose index.bits: 64' in its schedule, or fewer parts")
        return out

    def _maps(self, arrays: Mapping[str, Array]) -> dict[Argument, TensorMap]:
        """The tensor map of each such argument; maps of tensors that are only written are for stores."""
        stored = {tensor.name for tensor in self.header.tensors if tensor.access == "w"}
        maps = [each for each in self.header.arguments if each.kind == "map"]
        try:
            return {each: of_array(arrays[each.of], each, each.of in stored) for each in maps}
        except LaunchError as error:
            raise self.fail(error.code, error.message, error.hint) from None

    def _evaluate(self, expression: Expression, names: Mapping[str, Number], what: str) -> Number:
        try:
            return expression.evaluate(names)
        except ExpressionError as error:
            raise self.fail("grid", f"{what}: {show(expression.tree)} has no value: {error}") from None

    def _in_place(self, arrays: Mapping[str, Array]) -> frozenset[tuple[int, int]]:
        """Pairs of tensors, by number, that may be one array: they have equal shapes, strides and types."""
        number = {tensor.name: i for i, tensor in enumerate(self.header.tensors)}
        lie = {name: (array.shape, array.strides, array.dtype) for name, array in arrays.items()}
        pairs = [(y, x) for y, x in self.header.in_place if y in number and x in number and lie[y] == lie[x]]
        return frozenset((min(number[y], number[x]), max(number[y], number[x])) for y, x in pairs)

    def _overlaps(self, arrays: Mapping[str, Array]) -> tuple[TensorPair, ...]:
        """Each pair of tensors of which at least one is written."""
        tensors = self.header.tensors
        lying = [arrays[tensor.name] for tensor in tensors]
        spans = [array.span for array in lying]
        gaps = [array.has_gaps for array in lying]

        def shares(a: int, b: int) -> Callable[[int], bool | None]:
            # Spans alone decide for arrays without gaps: no call of numpy.
            if not gaps[a] and not gaps[b]:
                return surely
            return lru_cache(KEPT_DISTANCES)(partial(share_memory, lying[a], lying[b]))

        return tuple(
            TensorPair(a, b, spans[b][0] - spans[a][1], spans[b][1] - spans[a][0], shares(a, b))
            for a in range(len(tensors))
            for b in range(a + 1, len(tensors))
            if (tensors[a].written or tensors[b].written) and spans[a] != (0, 0) and spans[b] != (0, 0)
        )
