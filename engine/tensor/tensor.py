"""The eager Tensor: every public name of the eager front end, each defined in the module of its idea."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from engine.core.dtype import DType, bfloat16, bool_, float32, int64, uint32
from engine.devices.array import Array
from engine.devices.dense import dense
from engine.devices.device import current_device
from engine.errors import DTypeError, GradientError
from engine.tensor import arithmetic, cell, functional, indexing, movement, reductions, text
from engine.tensor import backward as gradients
from engine.tensor.cell import Cell, current_trace, is_recording, meet, wrap
from engine.tensor.host import array_of
from engine.tensor.promotion import as_tensor, cast, constant

__all__ = ["Tensor"]


class Tensor(Cell):
    """An array of numbers that remembers how it was computed, so that ``backward`` can find gradients.

    ``data`` is a number, nested lists, another Tensor, or anything that exports a buffer; it is copied.
    Floats become float32, ints int64 and bools bool, unless ``dtype`` says otherwise. Operations never change
    a Tensor; ``x[i] = v`` and ``x += y`` rebind it to a new value.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __array_ufunc__ = None  # NumPy leaves mixed operations to us

    def __init__(self, data: Any, dtype: DType | None = None, requires_grad: bool = False) -> None:
        if isinstance(data, Cell):
            meet(data)
        value = data._value if isinstance(data, Cell) else array_of(data, dtype)
        self._grad = None
        self._set(value)
        if dtype is not None and dtype is not value.dtype:
            self._set(cast(wrap(value), dtype)._value)
        self.requires_grad = requires_grad

    # ---- history

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient may be asked for: of a leaf by choice, of a result because an operand does."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if flag and not self.dtype.is_float:
            raise DTypeError(f"{self.dtype} has no gradient; only float tensors can require one")
        if not flag and not self.is_leaf:
            raise GradientError("a result requires a gradient because its operands do; use detach()")
        self._requires_grad = flag

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` found, itself differentiable; None before."""
        trace = current_trace.get()
        if trace is not None:
            trace.meet_grad(self, written=False)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and value.shape != self.shape:
            raise ValueError(f"a gradient of shape {value.shape} does not fit a tensor of shape {self.shape}")
        trace = current_trace.get()
        if trace is not None:
            trace.meet_grad(self, written=True)
        self._grad = value

    backward = gradients.backward
    detach = cell.detach
    clone = cell.clone

    def requires_grad_(self, flag: bool = True) -> Tensor:
        """Sets ``requires_grad`` and returns this tensor."""
        self.requires_grad = flag
        return self

    def zero_grad(self) -> None:
        """Forgets the gradient."""
        self.grad = None

    def assign(self, value: Tensor) -> None:
        """Rebinds this tensor to another value of the same shape and dtype.

        Raises RuntimeError for a leaf that requires a gradient, outside ``no_grad``.
        """
        if self._requires_grad and self.is_leaf and is_recording():
            raise GradientError(
                "a leaf that requires a gradient must not change while history is recorded; "
                "change it under no_grad()"
            )
        if value.shape != self.shape:
            raise ValueError(f"a value of shape {value.shape} cannot replace one of shape {self.shape}")
        value = cast(value, self.dtype)
        meet(self)
        meet(value)
        if self.is_leaf and not is_recording():
            self._set(value._value, None, self._requires_grad)
        else:
            self._set(value._value, value._node, value._requires_grad)

    # ---- making

    @staticmethod
    def of_array(value: Array) -> Tensor:
        """A Tensor around an array that nobody writes to any more; no copy."""
        return wrap(value)

    @staticmethod
    def full(shape: int | Sequence[int], value: float, dtype: DType | None = None) -> Tensor:
        """``value`` everywhere; its dtype is that of ``value`` unless given."""
        if dtype is None:
            dtype = bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else float32
        return constant(value, dtype, movement.shape_of((shape,))).fresh()

    @staticmethod
    def zeros(*shape: int | Sequence[int], dtype: DType = float32, requires_grad: bool = False) -> Tensor:
        return constant(0, dtype, movement.shape_of(shape)).fresh(requires_grad)

    @staticmethod
    def ones(*shape: int | Sequence[int], dtype: DType = float32, requires_grad: bool = False) -> Tensor:
        return constant(1, dtype, movement.shape_of(shape)).fresh(requires_grad)

    def fresh(self, requires_grad: bool = False) -> Tensor:
        """The same value as a leaf of its own."""
        meet(self)
        result = wrap(self._value)
        result.requires_grad = requires_grad
        return result

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        return _unpickle, (type(self), self.tobytes(), self.shape, self.dtype, self._requires_grad)

    def __copy__(self) -> Tensor:
        return _unpickle(type(self), self.tobytes(), self.shape, self.dtype, self._requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.__copy__()

    # ---- reading

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def size(self, axis: int | None = None) -> int | tuple[int, ...]:
        """The shape, or its size along one axis."""
        return self.shape if axis is None else self.shape[movement.axis_of(axis, self.ndim)]

    def tolist(self) -> Any:
        """Nested lists of Python numbers; one number for shape ()."""
        return self._dense().tolist()

    def item(self) -> float:
        """The only element as a Python number. Raises ValueError if there are more, or none."""
        if self.numel() != 1:
            raise ValueError(
                f"a tensor of shape {self.shape} has {self.numel()} elements; item() takes exactly one"
            )
        number: float = self.reshape(()).tolist()
        return number

    def tobytes(self) -> bytes:
        """The elements in row-major order, little-endian."""
        return self._dense().tobytes()

    def _dense(self) -> Array:
        """The value row by row; rearranged by the device where it is not."""
        return self._value if self._value.is_contiguous else dense(self._value, current_device())

    @property
    def data(self) -> memoryview:
        """A read-only view of the elements with shape and format; bfloat16 shows its 16 bits."""
        raw: Any = memoryview(self.tobytes())
        view: memoryview = raw.cast(self.dtype.struct)
        return raw.cast(self.dtype.struct, self.shape) if self.numel() and self.shape else view

    def __buffer__(self, flags: int) -> memoryview:
        return self.data

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """What NumPy reads: a read-only copy of the elements; bfloat16 becomes float32."""
        source = cast(self.detach(), float32) if self.dtype is bfloat16 else self
        kind = {"float": "f", "bool": "b"}.get(source.dtype.kind, "u" if source.dtype is uint32 else "i")
        order = "|" if source.dtype.size == 1 else "<"
        return {
            "version": 3,
            "shape": source.shape,
            "typestr": f"{order}{kind}{source.dtype.size}",
            "data": source.tobytes() or b"\0" * 8,
        }

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ValueError(
                f"the truth of a tensor of shape {self.shape} is ambiguous: it has {self.numel()} elements; "
                "use any() or all()"
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.is_float or self.shape:
            raise TypeError(f"a {self.dtype} tensor of shape {self.shape} is not an index")
        return int(self.item())

    __repr__ = text.describe
    __format__ = text.format_

    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        """Whether |x - other| ≤ atol + rtol·|other| everywhere, after broadcasting; NaN is never close."""
        b = as_tensor(other)
        near = abs(self - b) <= abs(b) * rtol + atol
        return bool((near | (self == b)).all())

    # ---- dtypes

    astype = arithmetic.astype
    to = arithmetic.astype

    # ---- elementwise

    __neg__ = neg = arithmetic.neg
    __abs__ = abs = arithmetic.abs_
    __invert__ = arithmetic.invert
    __add__ = arithmetic.add
    __radd__ = arithmetic.radd
    __sub__ = arithmetic.sub
    __rsub__ = arithmetic.rsub
    __mul__ = arithmetic.mul
    __rmul__ = arithmetic.rmul
    __truediv__ = arithmetic.div
    __rtruediv__ = arithmetic.rdiv
    __floordiv__ = arithmetic.floordiv
    __rfloordiv__ = arithmetic.rfloordiv
    __mod__ = arithmetic.mod
    __rmod__ = arithmetic.rmod
    __pow__ = pow = arithmetic.power
    __rpow__ = arithmetic.rpow
    __and__ = arithmetic.and_
    __rand__ = arithmetic.rand_
    __or__ = arithmetic.or_
    __ror__ = arithmetic.ror
    __xor__ = arithmetic.xor
    __rxor__ = arithmetic.rxor
    __lshift__ = arithmetic.lshift
    __rlshift__ = arithmetic.rlshift
    __rshift__ = arithmetic.rshift
    __rrshift__ = arithmetic.rrshift
    __lt__ = arithmetic.lt
    __le__ = arithmetic.le
    __gt__ = arithmetic.gt
    __ge__ = arithmetic.ge
    __eq__ = arithmetic.eq  # type: ignore[assignment]
    __ne__ = arithmetic.ne  # type: ignore[assignment]
    sign = arithmetic.sign
    exp = arithmetic.exp
    log = arithmetic.log
    log1p = arithmetic.log1p
    expm1 = arithmetic.expm1
    sin = arithmetic.sin
    cos = arithmetic.cos
    tanh = arithmetic.tanh
    erf = arithmetic.erf
    sqrt = arithmetic.sqrt
    floor = arithmetic.floor
    ceil = arithmetic.ceil
    round = arithmetic.rint
    maximum = arithmetic.maximum
    minimum = arithmetic.minimum
    atan2 = arithmetic.atan2
    clamp = arithmetic.clamp
    masked_fill = arithmetic.masked_fill
    relu = arithmetic.relu
    isnan = arithmetic.isnan
    isfinite = arithmetic.isfinite

    # ---- movement

    reshape = movement.reshape
    flatten = movement.flatten
    transpose = movement.transpose
    permute = movement.permute
    broadcast_to = movement.broadcast_to
    unsqueeze = movement.unsqueeze
    squeeze = movement.squeeze
    flip = movement.flip
    split = movement.split
    pad = movement.pad
    repeat = movement.repeat
    matmul = movement.matmul
    dot = movement.dot
    __getitem__ = indexing.get

    def __matmul__(self, other: Any) -> Tensor:
        return movement.matmul(self, as_tensor(other))

    def __rmatmul__(self, other: Any) -> Tensor:
        return movement.matmul(as_tensor(other), self)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.assign(indexing.put(self, index, value))

    @property
    def T(self) -> Tensor:  # noqa: N802  the name that everybody knows
        """The last two axes exchanged."""
        return movement.transpose(self)

    def select_batch(self, index: int) -> Tensor:
        """``x[index]``."""
        return indexing.get(self, index)

    @staticmethod
    def stack_batch(tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of one shape joined along a new first axis."""
        return movement.stack(tensors)

    @staticmethod
    def concat_columns(tensors: Sequence[Tensor]) -> Tensor:
        """Tensors joined along their last axis."""
        return movement.cat(tensors, -1)

    # ---- reductions

    sum = reductions.sum_
    prod = reductions.prod
    max = reductions.max_
    min = reductions.min_
    any = reductions.any_
    all = reductions.all_
    mean = reductions.mean
    var = reductions.var
    std = reductions.std
    argmax = reductions.argmax
    argmin = reductions.argmin
    cumsum = reductions.cumsum
    cumprod = reductions.cumprod

    # ---- compositions

    softmax = functional.softmax
    log_softmax = functional.log_softmax
    logsumexp = functional.logsumexp
    sigmoid = functional.sigmoid
    softplus = functional.softplus
    logsigmoid = functional.logsigmoid
    silu = functional.silu
    gelu = functional.gelu
    gelu_exact = functional.gelu_exact
    layernorm = functional.layernorm
    rmsnorm = functional.rmsnorm
    tril = functional.tril
    triu = functional.triu
    causal_mask = functional.causal_mask


def _unpickle(
    kind: type[Tensor], raw: bytes, shape: tuple[int, ...], dtype: DType, requires_grad: bool
) -> Tensor:
    result = kind.__new__(kind)
    result._grad = None
    result._set(Array.from_bytes(raw, shape, dtype), None, requires_grad)
    return result


def _rebinding(operation: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Any], Tensor]:
    """The in-place form of an operator."""

    def rebind(x: Tensor, other: Any) -> Tensor:
        x.assign(operation(x, other))
        return x

    return rebind


for _name, _operation in {
    "__iadd__": arithmetic.add,
    "__isub__": arithmetic.sub,
    "__imul__": arithmetic.mul,
    "__itruediv__": arithmetic.div,
    "__ifloordiv__": arithmetic.floordiv,
    "__imod__": arithmetic.mod,
    "__ipow__": arithmetic.power,
    "__iand__": arithmetic.and_,
    "__ior__": arithmetic.or_,
    "__ixor__": arithmetic.xor,
}.items():
    setattr(Tensor, _name, _rebinding(_operation))

Cell.result = Tensor
