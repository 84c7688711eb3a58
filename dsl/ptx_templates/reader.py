"""Reads families of PTX instructions, such as `shfl`, from TOML files. Each file contains one family.

A file begins with keys that apply to all of its `[[instruction]]` rows. Besides the fields of `Instruction`, a row may
contain these keys:

- `for = { cache = ["", ".cg"], width = "width" }` declares variables. The row then defines one instruction for each
  combination of their values. The string `"width"` refers to a list under `[values]`. The row's name must contain all
  variables, in the order of `for`. In the row's strings, `{width}` is replaced with the variable's value, such as
  `b32`. `{bytes(width)}` is replaced with the entry for this value in `[table.bytes]`, such as 4.
- `predicated = true` also defines a guarded form of each instruction. Its name begins with `@`, and its last operand is
  the predicate `mask`. If the predicate is false, the instruction does nothing. The outputs then keep their old values,
  so they become `inout` operands.
- `product = { m = 16, n = 8, k = 16, a = "f16", b = "f16", c = "f32" }` sets the fields of `MatrixProduct`. In a row,
  the `modifier` begins with a dot.

An operand is a string such as `"in a b32*4 s8 A16x32_8"`. It contains the role `in`, the name `a`, the PTX type `b32`,
4 registers, the element type `s8`, and a fragment. Only vectors have a number of registers. The element type and the
fragment may be left out.

A fragment is a row of `[fragment]`, such as `C16x8 = { shape = "16x8", register = "c1 r8", lane = "c2 c4 r1 r2 r4" }`.
The row lists the offsets of `Fragment`: `r8` is 8 rows, and `c2` is 2 columns. A fragment of several warps also has the
key `warp`. The shape may contain variables. Offsets outside the shape are ignored.

All files together define thousands of instructions. So a file is read only when its family is needed, and an
`Instruction` is made only when its name is looked up.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from math import prod
from typing import Any

from dsl.ptx_templates.instruction import OPERAND_TYPES, ROLES, Effect, Fragment, Instruction, MatrixProduct, Operand
from dsl.ptx_templates.parsed import DIRECTORY, parsed

_VARIABLE = re.compile(r"\{(\w+)(?:\((\w+)\))?\}")
_OPCODE_WORDS = 3  # the maximum number of opcode words that select a file, as in `cp.async.bulk`
# Maps an action to the field of `Effect` that the action's value in a row sets.
_ACTIONS = {
    "reads": "space",
    "writes": "space",
    "updates": "space",
    "synchronizes": "scope",
    "orders": "scope",
    "commits": "completion",
    "arrives": "completion",
    "waits": "completion",
}


class UnknownInstruction(KeyError):
    """Raised if there is no instruction or family with the requested name. The message lists similar names."""

    def __init__(self, what: str, name: str, where: str, known: list[str]):
        from difflib import get_close_matches  # takes 6 ms to import, and only errors need it

        close = get_close_matches(name, known, n=3)
        hint = f"; close: {', '.join(close)}" if close else ""
        self.message = f"{where}: no {what} {name!r}{hint}"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class Family(Mapping[str, Instruction]):
    """The instructions of one TOML file with the content `data`, as a mapping from names to instructions in the file's
    order."""

    def __init__(self, name: str, data: Mapping[str, Any]):
        self.name = name
        self._rows: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {}
        self._built: dict[str, Instruction] = {}
        self._tables: dict[str, dict[str, str]] = data.get("table", {})
        self._values: dict[str, list[str]] = data.get("values", {})
        self._fragments: dict[str, dict[str, str]] = data.get("fragment", {})
        shared = {key: value for key, value in data.items() if key not in ("opcodes", "table", "values", "fragment")}
        for row in shared.pop("instruction"):
            self._expand(shared | row)

    def _expand(self, row: dict[str, Any]) -> None:
        """Stores the names of the instructions that a row defines, one for each combination of its variables' values.
        Raises ValueError if a name is repeated, or if the row's name lacks a variable."""
        variables: dict[str, list[str] | str] = row.get("for", {})
        if _VARIABLE.findall(row["name"]) != [(variable, "") for variable in variables]:
            raise ValueError(f"{self.name}.toml: {row['name']!r} must have the variables of `for`, in their order")
        lists = [self._values[values] if isinstance(values, str) else values for values in variables.values()]
        literals = _VARIABLE.sub("%s", row["name"].replace("%", "%%"))
        names = {literals % values: (row, values) for values in product(*lists)}
        # This check is done when the file is read, because a row that hides another row would otherwise never be
        # noticed.
        if not names.keys().isdisjoint(self._rows) or len(names) != prod(map(len, lists)):
            raise ValueError(f"{self.name}.toml: {row['name']!r} repeats a name")
        self._rows |= names

    def _fill(self, text: str, bindings: dict[str, str]) -> str:
        """Replaces variables such as `{width}` in `text` with their values. Placeholders of operands, such as `{a}`,
        are kept."""

        def value(match: re.Match[str]) -> str:
            if match[2] is not None:
                return self._tables[match[1]][bindings[match[2]]]
            return bindings.get(match[1], match[0])

        return _VARIABLE.sub(value, text) if "{" in text else text

    def __getitem__(self, name: str) -> Instruction:
        found = self._built.get(name)
        if found is None:
            row, values = self._rows.get(name.removeprefix("@"), (None, ()))
            if row is None or (name[0] == "@" and not row.get("predicated", False)):
                raise UnknownInstruction("instruction", name, f"{self.name}.toml", list(self))
            try:
                found = self._built[name] = self._build(name, row, values)
            except (KeyError, ValueError) as error:
                raise ValueError(f"{self.name}.toml: row {name!r}: {error}") from error
        return found

    def __iter__(self) -> Iterator[str]:
        for name, (row, _) in self._rows.items():
            yield name
            if row.get("predicated", False):
                yield "@" + name

    def product(self, name: str) -> MatrixProduct:
        """Returns the matrix product that the instruction `name` computes.

        This method does not build the `Instruction`, because building all 82 of `mma.sync` takes 28 ms.

        >>> family("mma_sync").product("mma.sync.m16n8k16.f32.f16.f16.f32")
        MatrixProduct(m=16, n=8, k=16, a='f16', b='f16', c='f32', modifier='')
        """
        row, values = self._rows[name]
        bindings = dict(zip(row.get("for", ()), values, strict=True))
        # The error for a wrong row must name the file and the row, because plug-ins also have rows.
        try:
            fields = {k: self._fill(v, bindings) if isinstance(v, str) else v for k, v in row["product"].items()}
            return MatrixProduct(**fields | {"modifier": fields.get("modifier", "").removeprefix(".")})
        except (KeyError, TypeError) as error:
            raise ValueError(f"{self.name}.toml: row {name!r}: product: {error}") from error

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _build(self, name: str, row: dict[str, Any], values: tuple[str, ...]) -> Instruction:
        guarded = name[0] == "@"
        bindings = dict(zip(row.get("for", ()), values, strict=True))

        def fill(field: str) -> str:
            return self._fill(row[field], bindings)

        asm, meaning = fill("asm"), fill("meaning")
        operands = [self._operand(self._fill(text, bindings), bindings, guarded) for text in row["operands"]]
        if guarded:  # the guarded form
            asm, meaning = "@{mask} " + asm, f"if mask: {meaning}"
            operands.append(Operand("mask", "in", "pred"))
        places = {match[1] for match in _VARIABLE.finditer(asm)}
        if places != {operand.name for operand in operands}:
            # An operand without a placeholder would be computed for nothing. A placeholder without an operand is not
            # valid PTX.
            raise ValueError(f"the places {sorted(places)} of the asm text are not the operands")
        arch = re.fullmatch(r"sm_(\d+)(a?)", fill("arch"))
        if arch is None:
            raise ValueError(f"{row['arch']!r} is not a target")
        major, minor = fill("ptx").split(".")
        return Instruction(
            name=name,
            family=self.name,
            asm=asm,
            operands=tuple(operands),
            convergent=row.get("convergent", False),
            arch=int(arch[1]),
            feature=arch[2],
            ptx=(int(major), int(minor)),
            effects=tuple(self._effect(effect, bindings) for effect in row.get("effects", ())),
            section=fill("section"),
            meaning=meaning,
        )

    def _operand(self, text: str, bindings: dict[str, str], guarded: bool) -> Operand:
        role, name, register, *rest = text.split()
        kind, _, count = register.partition("*")
        if role not in ROLES or kind not in OPERAND_TYPES or len(rest) > 2:
            raise ValueError(f"operand {text!r}")
        return Operand(
            name=name,
            role="inout" if guarded and role == "out" else role,
            type=kind,
            count=int(count) if count else None,
            element=rest[0] if rest else None,
            fragment=self._fragment(rest[1], bindings) if len(rest) == 2 else None,
        )

    def _fragment(self, name: str, bindings: dict[str, str]) -> Fragment:
        data = self._fragments[name]
        rows, columns = map(int, self._fill(data["shape"], bindings).split("x"))
        bits = (_bases(data.get(part, ""), rows, columns) for part in ("register", "lane", "warp"))
        return Fragment(name, (rows, columns), *bits)

    def _effect(self, effect: dict[str, Any], bindings: dict[str, str]) -> Effect:
        fields: dict[str, Any] = {
            key: self._fill(value, bindings) if isinstance(value, str) else value for key, value in effect.items()
        }
        (action,) = fields.keys() & _ACTIONS.keys()
        fields[_ACTIONS[action]] = fields.pop(action)
        if "bytes" in fields:
            fields["bytes"] = int(fields["bytes"])
        return Effect(action, **fields)


def _bases(text: str, rows: int, columns: int) -> tuple[tuple[int, int], ...]:
    """Converts text to (row, column) offsets: `"c1 r8"` becomes ((0, 1), (8, 0)). Offsets outside the tile are left
    out."""
    bases = ((int(base[1:]), 0) if base[0] == "r" else (0, int(base[1:])) for base in text.split())
    return tuple((row, column) for row, column in bases if row < rows and column < columns)


@cache
def families() -> tuple[str, ...]:
    """Returns the sorted names of all families, such as `shfl`."""
    return tuple(sorted(path.stem for path in DIRECTORY.glob("*.toml")))


@cache
def family(name: str) -> Family:
    """Returns the instructions of the family `name`. Raises UnknownInstruction if there is no such family."""
    if name not in families():
        raise UnknownInstruction("family", name, "ptx_templates", list(families()))
    return Family(name, parsed(name))


@cache
def _family_of_opcode() -> dict[str, str]:
    """Maps opcodes, or their first words, to the names of families: `cp.async.bulk` to `tma`. The first line of each
    file lists its opcodes, so only this line is parsed."""
    opcodes: dict[str, str] = {}
    for name in families():
        with (DIRECTORY / f"{name}.toml").open(encoding="utf-8") as file:
            opcodes |= dict.fromkeys(tomllib.loads(file.readline())["opcodes"], name)
    return opcodes


@cache
def instruction(name: str) -> Instruction:
    """Returns the instruction with the PTX name `name`. A leading `@` selects the guarded form. Raises
    UnknownInstruction if there is no such instruction.

    >>> instruction("shfl.sync.bfly.b32").llvm()
    ('shfl.sync.bfly.b32 $0, $1, $2, $3, $4;', '=r,r,r,r,r')
    """
    opcodes = _family_of_opcode()
    words = name.removeprefix("@").split(".")
    for count in range(min(len(words), _OPCODE_WORDS), 0, -1):  # the longest opcode first
        found = opcodes.get(".".join(words[:count]))
        if found is not None:
            return family(found)[name]
    raise UnknownInstruction("instruction", name, "ptx_templates", [row for each in families() for row in family(each)])
