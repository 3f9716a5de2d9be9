"""Element types and their promotion."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import copysign, inf, isnan, nan
from typing import Literal

Kind = Literal["bool", "int", "float"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. There is one object a type, so ``is`` compares them, also after pickling.

    ``size`` is in bytes. ``suffix`` names the type in generated C (``k_exp_f32``). ``struct`` is the
    format character of Python's ``struct`` module; bfloat16 has none and is stored as its upper 16 bits
    (``H``).
    """

    name: str
    kind: Kind
    size: int
    suffix: str
    struct: str

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        return self.kind == "int"

    def encode(self, value: float) -> bytes:
        """``value`` rounded to this type, as little-endian bytes. Floats overflow to inf, integers wrap."""
        if self.kind == "int":
            return (int(value) & ((1 << 8 * self.size) - 1)).to_bytes(self.size, "little")
        if self.kind == "bool":
            return b"\1" if value else b"\0"
        if self.name == "bfloat16":
            return struct.pack("<H", bfloat16_bits(float(value)))
        return _pack_float(self.struct, float(value))

    def decode(self, raw: bytes) -> float:
        """The number that ``encode`` made ``raw`` of: a float, an int or a bool."""
        if self.name == "bfloat16":
            return float(struct.unpack("<f", b"\0\0" + raw)[0])
        value: float = struct.unpack("<" + self.struct, raw)[0]
        return value

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return by_name, (self.name,)

    def __copy__(self) -> DType:
        return self

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


def bfloat16_bits(value: float) -> int:
    """The upper 16 bits of ``value`` as a float32, rounded to nearest, ties to even; NaN is 0x7fc0."""
    if isnan(value):
        return 0x7FC0
    bits: int = struct.unpack("<I", _pack_float("f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _pack_float(code: str, value: float) -> bytes:
    if isnan(value):
        value = nan  # one NaN: sign and payload are not part of a value
    try:
        return struct.pack("<" + code, value)
    except OverflowError:  # a finite float64 beyond the largest float32
        return struct.pack("<" + code, copysign(inf, value))


float32 = DType("float32", "float", 4, "f32", "f")
float64 = DType("float64", "float", 8, "f64", "d")
bfloat16 = DType("bfloat16", "float", 2, "bf16", "H")
int32 = DType("int32", "int", 4, "i32", "i")
int64 = DType("int64", "int", 8, "i64", "q")
uint32 = DType("uint32", "int", 4, "u32", "I")
bool_ = DType("bool", "bool", 1, "b8", "?")

ALL = (float32, float64, bfloat16, int32, int64, uint32, bool_)
BY_NAME = {dtype.name: dtype for dtype in ALL}
FLOATS = (float32, float64, bfloat16)
INTS = (int32, int64, uint32)
NUMBERS = FLOATS + INTS


def by_name(name: str) -> DType:
    """The dtype called ``name``. Raises ValueError for a name that is none."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}; the dtypes are {', '.join(BY_NAME)}") from None


_UNEQUAL = {
    frozenset({float32, float64}): float64,
    frozenset({float32, bfloat16}): float32,
    frozenset({float64, bfloat16}): float64,
    frozenset({int32, int64}): int64,
    frozenset({uint32, int64}): int64,
    frozenset({uint32, int32}): int64,
}


def promote(a: DType, b: DType) -> DType:
    """The dtype of a binary operation on two tensors.

    Integers never widen a float (int64 + float32 is float32); bool yields to everything.
    """
    if a is b:
        return a
    if a.kind != b.kind:
        order = ("bool", "int", "float")
        return a if order.index(a.kind) > order.index(b.kind) else b
    return _UNEQUAL[frozenset({a, b})]


_INT_RANGES = {
    int32: range(-(2**31), 2**31),
    int64: range(-(2**63), 2**63),
    uint32: range(2**32),
}


def scalar_dtype(dtype: DType, value: float) -> DType:
    """The dtype that a Python number takes beside a tensor: the tensor's unless its own kind is wider.

    Raises ValueError for an integer outside the range of an integer dtype.
    """
    if isinstance(value, float):
        return dtype if dtype.is_float else float32
    if isinstance(value, bool):
        return dtype
    if dtype.is_int and value not in _INT_RANGES[dtype]:
        raise ValueError(f"{value} is outside the range of {dtype}; cast the tensor first")
    return int64 if dtype is bool_ else dtype
