"""Host memory and strided arrays, shared by all devices that compute on the host."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NoReturn

from cffi import FFI

from engine.core.dtype import DType, bfloat16, bfloat16_bits, bool_

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
KEPT_BYTES = 512 << 20  # freed memory held for reuse; what exceeds it goes back to the system
HUGE_PAGE, FROM_BYTES = 2 << 20, 4 << 20  # blocks of at least so many bytes ask for pages of this size
MADV_HUGEPAGE = 14  # Linux

ffi = FFI()
ffi.cdef("""
    int posix_memalign(void **, size_t, size_t);
    int madvise(void *, size_t, int);
    void free(void *);
""")
_libc = ffi.dlopen(None)
_BYTES = ffi.typeof("char *")


class _Pool:
    """Free blocks for reuse, a list a size class: a power of two or one of the three steps above it."""

    def __init__(self) -> None:
        self.kept = 0  # bytes in the lists
        self.classes: dict[int, tuple[int, list[int]]] = {}

    def fresh(self, size: int) -> int:
        out, is_large = ffi.new("void **"), size >= FROM_BYTES
        if _libc.posix_memalign(out, HUGE_PAGE if is_large else ALIGNMENT, size):
            raise MemoryError(f"no memory for {size} bytes")
        if is_large and sys.platform == "linux":
            _libc.madvise(out[0], size, MADV_HUGEPAGE)  # a wish: small pages do as well
        return int(ffi.cast("uintptr_t", out[0]))

    def release(self, block: int) -> None:
        _libc.free(ffi.cast("void *", block))


_POOL = _Pool()


@lru_cache(maxsize=4096)
def _size_class(nbytes: int) -> tuple[int, list[int]]:
    """The size of a block that holds ``nbytes``, and the free ones."""
    step = max(ALIGNMENT, 1 << max(nbytes - 1, 0).bit_length() >> 3)
    size = max(-(-nbytes // step) * step, ALIGNMENT)
    return _POOL.classes.setdefault(size, (size, []))


class Storage:
    """A block of host memory at ``address``, aligned to 64 bytes and not cleared.

    The block lives as long as this object or a memoryview from ``buffer``; then it is used again. So there is
    one object a block: copying or pickling one raises TypeError.
    """

    __slots__ = ("_class", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._class = size, free = _size_class(nbytes)
        try:
            self.address = free.pop()
            _POOL.kept -= size
        except IndexError:
            self.address = 0
            self.address = _POOL.fresh(size)

    def __del__(self) -> None:
        size, free = self._class
        if not self.address:  # there was no memory
            return
        if _POOL.kept + size <= KEPT_BYTES:
            _POOL.kept += size
            free.append(self.address)
        else:
            _POOL.release(self.address)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a block of memory cannot be copied or pickled; an Array can")

    def view(self) -> memoryview:
        """The bytes, writable, for as long as the caller holds this object."""
        return memoryview(ffi.buffer(ffi.cast(_BYTES, self.address), self.nbytes))

    def buffer(self) -> memoryview:
        """The bytes, writable."""
        pointer = ffi.cast("void *", self.address)
        # the release does nothing, but as long as the view needs it, it needs this object
        return memoryview(ffi.buffer(ffi.gc(pointer, lambda _, held=self: None), self.nbytes))


class Array:
    """Elements of one dtype at ``offset + Σ index·stride`` of a storage; offset and strides count elements.

    Arrays are values: whoever makes one fills it, and after that nobody writes to it, so views are safe.
    """

    __slots__ = ("dtype", "offset", "shape", "storage", "strides")

    def __init__(
        self, storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType
    ) -> None:
        self.storage = storage
        self.offset = offset
        self.shape = shape
        self.strides = strides
        self.dtype = dtype

    def __reduce__(self) -> tuple[Callable[..., Array], tuple[Any, ...]]:
        return Array.from_bytes, (self.tobytes(), self.shape, self.dtype)

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: DType) -> Array:
        """A contiguous array whose elements are to be written."""
        return Array(Storage(prod(shape) * dtype.size), 0, shape, contiguous_strides(shape), dtype)

    @staticmethod
    def from_bytes(raw: bytes | bytearray | memoryview, shape: tuple[int, ...], dtype: DType) -> Array:
        """A copy of row-major little-endian elements. Raises ValueError for a wrong number of bytes."""
        result = Array.empty(shape, dtype)
        if len(raw) != result.storage.nbytes:
            raise ValueError(f"{len(raw)} bytes for {dtype}{shape}, which takes {result.storage.nbytes}")
        result.storage.view()[:] = raw
        return result

    @staticmethod
    def from_list(values: Sequence[float], shape: tuple[int, ...], dtype: DType) -> Array:
        """Row-major numbers, each rounded to ``dtype``; integers wrap. ``values`` is flat."""
        result = Array.empty(shape, dtype)
        if len(values) != result.size:
            raise ValueError(f"{len(values)} values for shape {shape}, which takes {result.size}")
        result.fill(values)
        return result

    def fill(self, values: Sequence[float]) -> None:
        """Writes row-major numbers into a fresh contiguous array."""
        self.storage.view()[:] = memoryview(_packed(values, self.dtype)).cast("B")

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, whatever the storage holds besides."""
        return prod(self.shape) * self.dtype.size

    @property
    def address(self) -> int:
        """Where element 0 lies."""
        return self.storage.address + self.offset * self.dtype.size

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps; strides of axes of size 1 and of empty arrays do not matter."""
        if 0 in self.shape:
            return True
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if stride != expected and size != 1:
                return False
            expected *= size
        return True

    def elements(self) -> memoryview:
        """The whole storage as items of this dtype, bfloat16 as its 16 bits."""
        items: memoryview = self.storage.buffer().cast(self.dtype.struct)  # type: ignore[call-overload]
        return items

    def offsets(self) -> Sequence[int]:
        """The position in ``elements`` of each element, in row-major order."""
        if self.is_contiguous:
            return range(self.offset, self.offset + self.size)
        return strided_offsets(self.offset, self.shape, self.strides)

    def flat(self) -> list[Any]:
        """The stored items in row-major order: numbers, and for bfloat16 its 16 bits."""
        items: memoryview = self.storage.view().cast(self.dtype.struct)  # type: ignore[call-overload]
        if self.is_contiguous:
            return items[self.offset : self.offset + self.size].tolist()
        return [items[position] for position in strided_offsets(self.offset, self.shape, self.strides)]

    def tobytes(self) -> bytes:
        """Row-major little-endian elements."""
        if self.is_contiguous:
            start = self.offset * self.dtype.size
            return bytes(self.storage.view()[start : start + self.nbytes])
        return array(self.dtype.struct.replace("?", "B"), self.flat()).tobytes()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; one number for shape ()."""
        values = self.flat()
        if self.dtype is bfloat16:
            values = [bfloat16.decode(bits.to_bytes(2, "little")) for bits in values]
        for axis in range(len(self.shape) - 1, 0, -1):
            size = self.shape[axis]
            values = [values[i * size : (i + 1) * size] for i in range(prod(self.shape[:axis]))]
        return values if self.shape else values[0]

    def __repr__(self) -> str:
        return f"<Array {self.dtype}{list(self.shape)}>"


@lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def strided_offsets(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """``offset + Σ index·stride`` for each index in row-major order."""
    positions = [offset]
    for size, stride in zip(shape, strides, strict=True):
        steps = range(0, size * stride, stride) if stride else (0,) * size
        positions = [position + step for position in positions for step in steps]
    return positions


def _packed(values: Sequence[float], dtype: DType) -> bytes | array[Any]:
    if dtype is bool_:
        return bytes(map(bool, values))
    if dtype is bfloat16:
        return array("H", map(bfloat16_bits, values))
    try:
        return array(dtype.struct, values)
    except (OverflowError, TypeError):  # integers out of range, or floats given for integers
        return b"".join(map(dtype.encode, values))


# ---- movement without copying


def view(op: str, attrs: tuple[Any, ...], x: Array) -> Array | None:
    """What a movement primitive or marker makes of ``x`` without a copy; None where that takes one."""
    move = _VIEWS.get(op)
    return move(x, *attrs) if move else None


def _same(x: Array) -> Array:
    return x


def _transpose(x: Array, perm: tuple[int, ...]) -> Array:
    shape, strides = x.shape, x.strides
    return Array(
        x.storage,
        x.offset,
        tuple([shape[axis] for axis in perm]),
        tuple([strides[axis] for axis in perm]),
        x.dtype,
    )


def _broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    lead = len(shape) - len(x.shape)
    strides = [
        stride if size == new else 0
        for size, stride, new in zip(x.shape, x.strides, shape[lead:], strict=True)
    ]
    return Array(x.storage, x.offset, shape, (*(0,) * lead, *strides), x.dtype)


def _slice(x: Array, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    offset = x.offset
    if 0 not in sizes:
        for start, stride in zip(starts, x.strides, strict=True):
            offset += start * stride
    strides = tuple([stride * step for stride, step in zip(x.strides, steps, strict=True)])
    return Array(x.storage, offset, sizes, strides, x.dtype)


def _reshape(x: Array, shape: tuple[int, ...]) -> Array | None:
    if x.is_contiguous:
        return Array(x.storage, x.offset, shape, contiguous_strides(shape), x.dtype)
    strides = reshaped_strides(x.shape, x.strides, shape)
    return None if strides is None else Array(x.storage, x.offset, shape, strides, x.dtype)


def reshaped_strides(
    old: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides that read a non-empty ``old`` as ``new``, or None where no strides do.

    Neighbouring axes that step as one (outer stride = inner size times inner stride) form runs; each run has
    to be cut into consecutive new axes whose sizes multiply to its size.
    """
    runs: list[list[int]] = []  # [size, innermost stride]
    for size, stride in zip(old, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    result = [0] * len(new)
    axis = len(new) - 1
    for run_size, run_stride in reversed(runs):
        left, stride = run_size, run_stride
        while left > 1:
            size = new[axis]
            if left % size:
                return None
            result[axis] = stride
            stride *= size
            left //= size
            axis -= 1
    return tuple(result)


_VIEWS: dict[str, Callable[..., Array | None]] = {
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "reshape": _reshape,
    "detach": _same,
    "pass_grad": _same,
    "keep": _same,
}
