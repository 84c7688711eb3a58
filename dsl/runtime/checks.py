"""Checks the arguments of a launch against the kernel's header, and evaluates the grid. Calls with equal shapes,
strides and types form a class. Except for the pointers, only the first call of a class is checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from math import prod

from msgspec import Struct

from dsl.runtime.arrays import HOST_ALIGNMENT, MOST_TRIED, Array, share_memory
from dsl.runtime.dtypes import in_type
from dsl.runtime.errors import LaunchError
from dsl.runtime.expressions import Expression, ExpressionError, Number, compile_expression, show
from dsl.runtime.header import Argument, Header, HeaderTensor, Scalar, stride_name
from dsl.runtime.tensor_map import TensorMap, of_array

MOST_INT32 = (1 << 31) - (1 << 21)
"""Maximum number of elements that are indexed with 32 bits. The rest of the range of s32 is for slices that extend
beyond the edge of an array."""
WIDER = "a call of the module takes 64 bits by itself; a variant does with the choice index.bits=64"
"""The hint of the error that 32 bits cannot index all elements."""
NOT_ROW_MAJOR = (
    "pass a copy that is (torch: x.contiguous(); dsl.torch.op makes it with contiguous=True), or declare the tensor "
    "strided: x: T[m, n; strided]"
)
GRID_LIMITS = ((1 << 31) - 1, 65535, 65535)
"""Maximum number of blocks along x, y and z (CUDA programming guide, "Technical specifications per compute
capability")."""


KEPT_DISTANCES = 64
"""Size of the cache of a tensor pair. The cache maps the distance of the two tensors' pointers to whether the tensors
share memory. In the layers of a model, few distances occur."""


class TensorPair(Struct, frozen=True):
    """Two tensors that may share memory. `a` and `b` are their numbers among the header's tensors.

    Let `distance` be the pointer of `a` minus the pointer of `b`. The byte ranges overlap if `low < distance < high`.
    `shares(distance)` returns whether elements overlap, or None if this is too hard to decide."""

    a: int
    b: int
    low: int
    high: int
    shares: Callable[[int], bool | None]

    def meet(self, pointers: Sequence[int]) -> bool | None:
        """Returns whether an element of one tensor overlaps an element of the other, or None if this is too hard to
        decide. `pointers` are the pointers of all tensors."""
        distance = pointers[self.a] - pointers[self.b]
        return self.low < distance < self.high and self.shares(distance)

    def apart(self, distance: int) -> bool:
        """Returns True if it is certain that no elements overlap. The caller has found that the byte ranges overlap."""
        return self.shares(distance) is False


def surely(distance: int) -> bool:
    """The `shares` of two arrays without gaps. These share memory whenever their byte ranges overlap."""
    return True


class CallClass(Struct, frozen=True):
    """Everything that calls with equal shapes, strides and types have in common.

    `names` maps the names that the header's expressions may contain to their values. `workspaces` maps each workspace's
    name to its number of elements. `alignments` contains a pair for each nonempty tensor: its number, and a mask of the
    pointer bits that must be 0. `fits(pointers)` returns whether the pointers are aligned and the tensors share no
    memory. `in_place` contains pairs of tensor numbers. The two tensors of a pair may be the same array. `maps`
    contains the tensor map of each map argument, without an address. It is empty if the grid has no blocks."""

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
    """Returns a function that tests whether all pointers of a launch are valid.

    A valid pointer is not null, and it is aligned. The two tensors of each pair in `overlaps` must not share memory.
    However, the two pointers of a pair in `in_place` may be equal.

    The function evaluates one generated Python expression, because Python loops take twice as long. It runs at every
    launch with new addresses. The expression contains only numbers and calls of `TensorPair.apart`. It calls `apart`
    only if the byte ranges of the pair overlap."""
    # Alignments are powers of two, so a mask can test them.
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
    # The text contains only integers, and names that this function makes.
    test: Callable[[Sequence[int]], bool] = eval(f"lambda p: {' and '.join(terms) or True}", names)
    return test


class Checker:
    """Checks launches of the kernel with a given header. The constructor compiles the header's expressions."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.grid = [compile_expression(tree) for tree in header.grid]
        self.requires = [(compile_expression(require.expr), require) for require in header.requires]
        self.estimates = {
            key: compile_expression(tree) for key in ("moves", "computes") if (tree := getattr(header, key)) is not None
        }
        expressions = [*self.grid, *(expression for expression, _ in self.requires), *self.estimates.values()]
        self.names = frozenset[str]().union(*(expression.names for expression in expressions))
        """Names that the expressions read. If a scalar is among these names, each value of the scalar has its own class
        of calls."""

    def fail(
        self, code: str, message: str, hint: str | None = None, line: int | None = None, file: str | None = None
    ) -> LaunchError:
        """Returns a LaunchError whose message names the kernel."""
        return LaunchError(code, f"{self.header.label}: {message}", hint, line, file)

    def check(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Number],
        sms: int,
        grid: tuple[int, int, int] | None = None,
    ) -> CallClass:
        """Checks the arrays, the header's conditions and the grid. Raises LaunchError if a check fails. `grid`
        overrides the header's grid, and `sms` is the number of multiprocessors."""
        for tensor in self.header.tensors:
            self._check_tensor(tensor, arrays[tensor.name])
        dims = self._bind_dims(arrays)
        names: dict[str, Number] = {"sms": sms, **self._as_kernel_has(scalars), **dims}
        # Constants that are types or functions are strings here, not numbers.
        names |= {name: value for name, value in self.header.constants.items() if not isinstance(value, str)}
        names |= {
            stride_name(tensor.name, axis): stride
            for tensor in self.header.tensors
            if tensor.strided
            for axis, stride in enumerate(arrays[tensor.name].strides)
        }
        for expression, require in self.requires:
            if not self._evaluate(expression, names, "requires"):
                # The message shows the values of all names in the condition.
                values = ", ".join(f"{name} = {names[name]}" for name in sorted(expression.names))
                message = f"requires {require.text}" + (f" ({values})" if values else "")
                raise self.fail("requires", message, require.hint, require.line, require.file)
        alignments = tuple(
            (number, (tensor.align if array.device is not None else min(tensor.align, HOST_ALIGNMENT)) - 1)
            for number, tensor in enumerate(self.header.tensors)
            if (array := arrays[tensor.name]).size
        )
        blocks, overlaps = self._check_grid(grid, names), self._overlaps(arrays)
        in_place = self._in_place(arrays)
        test, workspaces = pointer_test(alignments, overlaps, in_place), self._workspaces(blocks)
        # The driver refuses a map of an empty tensor. A launch without blocks may have an empty tensor.
        maps = self._maps(arrays) if 0 not in blocks else {}
        found = CallClass(arrays, dims, names, blocks, alignments, overlaps, test, workspaces, maps, in_place)
        self.check_pointers(found, [arrays[tensor.name].pointer for tensor in self.header.tensors])
        return found

    def _as_kernel_has(self, scalars: Mapping[str, Number]) -> dict[str, Number]:
        """Rounds scalars to the types of their parameters. For example, 0.9999 as bf16 is 1, so the condition `assert s
        < 1.0` must fail."""
        types = {param.name: param.dtype for param in self.header.params if isinstance(param, Scalar)}
        found = {}
        for name, value in scalars.items():
            try:
                found[name] = in_type(types[name], value)
            except OverflowError:
                raise self.fail("type", f"{name} takes {types[name]}: {value!r} does not fit") from None
        return found

    def estimate(self, key: str, names: Mapping[str, Number]) -> Number | None:
        """Returns the number of bytes that a launch moves (`key` is `moves`), or its number of operations (`computes`).
        Returns None if the header does not state it."""
        return self._evaluate(self.estimates[key], names, key) if key in self.estimates else None

    def check_pointers(self, call: CallClass, pointers: Sequence[int]) -> None:
        """Checks the pointers of one call.

        Raises LaunchError `array` for a null or misaligned pointer, and `overlap` if a written array shares memory with
        another."""
        if call.fits(pointers):
            return
        for number, mask in call.alignments:
            if pointers[number] & mask or not pointers[number]:
                raise self._pointer_error(self.header.tensors[number], pointers[number])
        self.check_overlaps(call, pointers)

    def check_overlaps(self, call: CallClass, pointers: Sequence[int]) -> None:
        """Raises LaunchError `overlap` if two arrays share memory and at least one of them is written.

        The two tensors of a pair in `in_place` may be the same array."""
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
        # An access to a misaligned element would fault on a GPU.
        if array.size and array.pointer % array.itemsize:
            message = f"{name} begins inside an element: its address is no multiple of {array.itemsize}"
            raise self.fail("array", message, "pass a copy")
        if len(array.shape) != len(tensor.dims):
            expected = ", ".join(map(str, tensor.dims))
            raise self.fail("shape", f"{name} has {len(array.shape)} axes {array.shape}, the kernel takes [{expected}]")
        if not tensor.strided and not array.is_contiguous:
            raise self.fail("array", f"{name} is not row-major: its strides are {array.strides}", NOT_ROW_MAJOR)
        if tensor.written and array.immutable:
            message = f"{name} is written, and arrays of {array.framework} cannot be"
            raise self.fail("array", message, "pass an output of torch or CuPy")
        if tensor.written and array.readonly:
            raise self.fail("array", f"{name} is written, and the array is read-only")
        # Two threads would write the same element in an undefined order.
        if tensor.written and array.may_overlap_itself:
            message = f"{name} is written, and its elements share memory (strides {array.strides})"
            raise self.fail("array", message, "pass a contiguous array")
        # All offsets in a contiguous array are below its size.
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
        # The block that arrives last finishes a split sum. In a smaller grid no block would count as the last.
        if self.header.workspaces and blocks != own:
            message = f"{blocks} blocks: the last of the kernel's {own} to arrive finishes the work, and must run"
            raise self.fail("grid", message, "leave out grid=, or split nothing")
        # The driver would refuse such a grid, but its error does not name the kernel.
        if blocks[0] % self.header.cluster:
            message = f"the grid has {blocks[0]} blocks along x, not a multiple of its clusters' {self.header.cluster}"
            raise self.fail("grid", message, "let the grid be a multiple of the schedule's 'cluster'")
        return int(blocks[0]), int(blocks[1]), int(blocks[2])

    def _workspaces(self, blocks: tuple[int, int, int]) -> dict[str, int]:
        """Returns the number of elements of each workspace: its elements for one block, times the number of blocks."""
        out = {each.name: each.each * prod(blocks) for each in self.header.workspaces}
        for name, count in out.items():
            if self.header.index_bits == 32 and count > MOST_INT32:
                message = f"the workspace {name} has {count} elements, this variant counts to {MOST_INT32} in 32 bits"
                raise self.fail("requires", message, "'choose index.bits: 64' in its schedule, or fewer parts")
        return out

    def _maps(self, arrays: Mapping[str, Array]) -> dict[Argument, TensorMap]:
        """Returns the tensor map of each map argument. If the kernel only writes a tensor, its map is made for TMA
        stores."""
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
        """Returns the pairs of the header's `in_place` whose two arrays have equal shapes, strides and types.

        A pair consists of two tensor numbers."""
        number = {tensor.name: i for i, tensor in enumerate(self.header.tensors)}
        lie = {name: (array.shape, array.strides, array.dtype) for name, array in arrays.items()}
        pairs = [(y, x) for y, x in self.header.in_place if y in number and x in number and lie[y] == lie[x]]
        return frozenset((min(number[y], number[x]), max(number[y], number[x])) for y, x in pairs)

    def _overlaps(self, arrays: Mapping[str, Array]) -> tuple[TensorPair, ...]:
        """Returns all pairs of nonempty tensors of which the kernel writes at least one."""
        tensors = self.header.tensors
        lying = [arrays[tensor.name] for tensor in tensors]
        spans = [array.span for array in lying]
        gaps = [array.has_gaps for array in lying]

        def shares(a: int, b: int) -> Callable[[int], bool | None]:
            # For two arrays without gaps the byte ranges decide, so numpy is not called.
            if not gaps[a] and not gaps[b]:
                return surely
            return lru_cache(KEPT_DISTANCES)(partial(share_memory, lying[a], lying[b]))

        return tuple(
            TensorPair(a, b, spans[b][0] - spans[a][1], spans[b][1] - spans[a][0], shares(a, b))
            for a in range(len(tensors))
            for b in range(a + 1, len(tensors))
            if (tensors[a].written or tensors[b].written) and spans[a] != (0, 0) and spans[b] != (0, 0)
        )
