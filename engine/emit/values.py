"""What a kernel's values are in C: vectors, of which a step of elements has one or two.

Where elements of 4 and of 8 bytes meet, a step has one vector of the former and two of the latter: value 7 is
then ``v7_0`` and ``v7_1``. A bool is a mask in lanes of what was compared; readers of other lanes widen or
narrow it. What is the same for all elements of a row is one vector, whatever its lanes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from engine.compiler.loopir import Constant, Kernel
from engine.core.dtype import DType, bool_, float32, float64
from engine.emit.c import LANES_4, LANES_8, Lane

HEAD_WORDS = 4
COUNTS = {4: "LF", 8: "LD"}
"""C's names for how many lanes of so many bytes a vector has."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a value appears: its dtype, the bytes of a lane, and whether one vector holds all its elements."""

    dtype: DType
    size: int
    single: bool = False


def word_offsets(kernel: Kernel) -> list[int]:
    """Where the words of each buffer and of each counter begin, and where the last ones end."""
    offsets = [HEAD_WORDS + kernel.rank]
    for buffer in kernel.buffers:
        offsets.append(offsets[-1] + kernel.rank + 2 + 2 * len(buffer.windows) + 2 * buffer.rows)
    for _ in kernel.counters:
        offsets.append(offsets[-1] + kernel.rank + 2)
    return offsets


class Values:
    """The values of ``kernel`` that have been printed so far."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.forms: dict[int, Form] = {}
        self.words = word_offsets(kernel)[:-1]
        self.unroll = 1
        """How many vectors of the smallest lanes a step has."""

    def vectors(self, size: int) -> int:
        """How many vectors a step has of lanes of ``size`` bytes."""
        return self.unroll * size // self.kernel.lanes

    @property
    def width(self) -> str:
        """C's text for the number of elements in a step."""
        own = COUNTS[self.kernel.lanes]
        return own if self.unroll == 1 else f"({self.unroll} * {own})"

    def lane(self, dtype: DType, size: int | None = None) -> Lane:
        if dtype is bool_:
            return (LANES_4 if (size or self.kernel.lanes) == 4 else LANES_8)[dtype]
        return (LANES_4 if dtype.size == 4 else LANES_8)[dtype]

    def count(self, dtype: DType) -> str:
        """C's name for the number of lanes in a vector of ``dtype``."""
        return COUNTS[self.size_of(dtype)]

    def single(self, value: int, dtype: DType) -> None:
        """Declares a value that is one vector."""
        self.forms[value] = Form(dtype, self.size_of(dtype), single=True)

    def whole(self, value: int, dtype: DType) -> None:
        """Declares a value with all vectors of a step."""
        self.forms[value] = Form(dtype, self.size_of(dtype))

    def name(self, value: int, part: int = 0) -> str:
        """The vector of a value that holds the step's part ``part``."""
        form = self.forms[value]
        return f"v{value}" if form.single or self.vectors(form.size) == 1 else f"v{value}_{part}"

    def names(self, value: int, dtype: DType) -> list[str]:
        """The vectors of a value as lanes of ``dtype``."""
        return [self.name(value, part) for part in range(self.vectors(self.size_of(dtype)))]

    def size_of(self, dtype: DType) -> int:
        return self.kernel.lanes if dtype is bool_ else dtype.size

    def _mask(self, value: int, size: int, part: int) -> str:
        """A bool as a mask of lanes of ``size`` bytes."""
        own = self.forms[value].size
        if own == size:
            return self.name(value, part)
        if own == 4:
            return f"cvt_i32_i64({'high' if part % 2 else 'low'}_i32({self.name(value, part // 2)}))"
        low, high = self.name(value, 2 * part), self.name(value, 2 * part + 1)
        return f"join_i32(cvt_i64_i32({low}), cvt_i64_i32({high}))"

    def operand(self, value: int, size: int, part: int) -> str:
        """A value as the operand of a line in lanes of ``size`` bytes."""
        if self.forms[value].dtype is bool_:
            return self._mask(value, size, part)
        return self.name(value, part)

    def everywhere(self, dtype: DType, scalar: str) -> str:
        """One number in all lanes."""
        if dtype is bool_:
            return f"set1_{'i32' if self.kernel.lanes == 4 else 'i64'}({scalar} ? -1 : 0)"
        return f"set1_{self.lane(dtype).suffix}({scalar})"


def literal(constant: Constant) -> str:
    """A constant as C: floats in hexadecimal, so that no digit is lost."""
    dtype = constant.dtype
    (value,) = struct.unpack(f"<{dtype.struct}", constant.raw)
    if dtype not in (float32, float64):
        return f"(-{2**63 - 1} - 1)" if value == -(2**63) else str(int(value))
    suffix = "f" if dtype is float32 else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    return f"{value.hex()}{suffix}"


def neutral(kind: str, dtype: DType) -> str:
    """What changes nothing when it is combined, not even the sign of a zero."""
    inf = "__builtin_inff()" if dtype is float32 else "__builtin_inf()"
    return {"sum": "-0.0f", "prod": "1", "max": f"-{inf}", "min": inf}[kind]


def indent(lines: Iterable[str], depth: int = 1) -> list[str]:
    return ["    " * depth + line for line in lines]
