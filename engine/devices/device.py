"""What a device is, and which one is used."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias

from engine.core.dtype import DType
from engine.devices.array import Array
from engine.devices.reference import ReferenceDevice
from engine.errors import DeviceError

_log = logging.getLogger("engine")

Numerics: TypeAlias = Literal["any", "exact"]
"""Which devices may compute: all of them, or only those that keep the exactness contract."""


class Device(Protocol):
    """Computes one primitive at a time on arrays in host memory.

    ``exact`` says that results have the bits which the graph defines. ``run`` takes the inputs of one node,
    whatever their strides, and the node's attributes, static shape and dtype; it returns a fresh array or a
    view of an input.
    """

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool: ...

    def run(
        self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Array], shape: tuple[int, ...], dtype: DType
    ) -> Array: ...

    def run_region(self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Array]) -> tuple[Array, ...]:
        """All results of a loop or a condition."""


def check_numerics(numerics: Numerics, device: Device) -> None:
    """Raises DeviceError for a device that ``numerics`` does not allow, ValueError for another word."""
    if numerics not in ("any", "exact"):
        raise ValueError(f"numerics is {numerics!r}; it must be 'any' or 'exact'")
    if numerics == "exact" and not device.exact:
        raise DeviceError(
            f"numerics is 'exact', and the {device.name} device has other bits; use one that is exact, such "
            "as cpu, which needs a C compiler"
        )


@cache
def default_device() -> Device:
    """The cpu device where a C compiler is found, else the pure-Python reference, with one notice."""
    from engine.devices.cpu import CpuDevice

    try:
        return CpuDevice()
    except DeviceError as error:
        _log.warning("%s Computing in pure Python instead: correct, but fit for tiny models only.", error)
        return ReferenceDevice()


_chosen: ContextVar[Device | None] = ContextVar("device", default=None)


def current_device() -> Device:
    """The innermost ``use_device``'s, else the default."""
    return _chosen.get() or default_device()


@contextmanager
def use_device(device: Device) -> Iterator[Device]:
    """Inside the block, values are computed on ``device``."""
    token = _chosen.set(device)
    try:
        yield device
    finally:
        _chosen.reset(token)
