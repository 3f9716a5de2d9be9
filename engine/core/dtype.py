"""Element types and their promotion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["bool", "int", "float"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    ``size`` is in bytes. ``suffix`` names the type in generated C (``k_exp_f32``). ``struct`` is the
    format character of Python's ``struct`` module; bfloat16 has none and is stored as its upper 16 bits (``H``).
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

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


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
