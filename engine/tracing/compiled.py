"""``engine.compile``: a function of Tensors as one plan, with the bits that the function has in eager."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

from engine.compiler.plan import Plan
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import Numerics, check_numerics, current_device
from engine.tensor import Tensor
from engine.tensor.cell import current_trace, is_recording
from engine.tracing.pytree import Structure, flatten
from engine.tracing.signature import Signature, form, signature
from engine.tracing.traced import Traced, trace

_LOCK = threading.RLock()
"""Held in each call: while a function is traced, cells that others may share hold symbols."""

_MOST_MET = 1024  # of one function, before it forgets them

P = ParamSpec("P")
R = TypeVar("R")


def compile(
    function: Callable[P, R], *, remat: int | None = None, numerics: Numerics = "any"
) -> Compiled[P, R]:
    """``function`` as a plan: few kernels, one call, the same bits.

    It takes and gives Tensors, and lists, tuples, dicts and dataclasses of them; it may use modules,
    optimisers, generators and Tensors from outside, call ``backward`` and ``step``, and rebind what it meets
    (``assign``, ``+=``, ``.grad``): each call reads what they hold then, and leaves behind what the function
    would. It runs in Python once for each structure, dtype and rank of its arguments, each mode of its
    modules and each choice of gradients present; its other effects happen then only. Leading sizes of its
    arguments are symbols from 2 on, and one plan serves all that compare alike where the function compares
    sizes, unless it needs them as numbers.
    A value asked for in it (``item()``, ``bool``, printing) is a TracingError. Results have no history.
    With ``remat`` values are computed again until no more than so many bytes of them are kept at once (0: as
    few as possible). Where there is no C compiler the function runs as it is; with ``numerics`` "exact",
    which declines devices with other bits, a call is a DeviceError then. Calls from several threads take
    turns.
    """
    return Compiled(function, remat, numerics)


class Compiled(Generic[P, R]):
    """A function that ``compile`` returned."""

    def __init__(self, function: Callable[P, R], remat: int | None, numerics: Numerics) -> None:
        self._function = function
        self._remat = remat
        self._numerics = numerics
        self._traced: dict[Any, list[Traced]] = {}
        self._met: dict[Any, list[Traced]] = {}  # the same by everything that calls so far were like
        self._symbols: dict[Any, int] = {}  # how many a function can be traced with, where not all
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        device = current_device()
        check_numerics(self._numerics, device)
        if not isinstance(device, CpuDevice) or current_trace.get() is not None:
            return self._function(*args, **kwargs)
        structure, tensors = _taken_apart(args, kwargs)
        about = structure, is_recording(), device
        with _LOCK:
            like = about, form(tensors)
            for traced in self._met.get(like, ()):
                if traced.holds(tensors):
                    return cast(R, traced.run(tensors))
            own = signature(tensors, len(tensors))
            symbols = self._symbols.get((about, own))
            if symbols is not None:
                own = signature(tensors, symbols)
            known = self._traced.setdefault((about, own), [])
            if not any(traced.holds(tensors) for traced in known):
                traced, own = self._trace(about, own, tensors, args, kwargs)
                known = self._traced.setdefault((about, own), [])
                known.append(traced)
            if len(self._met) == _MOST_MET:
                self._met.clear()
            self._met[like] = known
            return cast(R, next(traced for traced in known if traced.holds(tensors)).run(tensors))

    def _trace(
        self, about: Any, own: Signature, tensors: Sequence[Tensor], args: Any, kwargs: Any
    ) -> tuple[Traced, Signature]:
        """The function traced for the symbols of its signature, or for the first, or else for none."""
        widest = about, own
        while True:
            try:
                return trace(self._function, args, kwargs, tensors, own, self._remat), own
            except (ValueError, TypeError, KeyError):
                if not own.leaders:
                    raise
            self._symbols[widest] = fewer = 1 if len(own.leaders) > 1 else 0
            own = signature(tensors, fewer)

    @property
    def plans(self) -> list[Plan]:
        """The plans made so far."""
        return [traced.plan for known in self._traced.values() for traced in known]


def _taken_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Structure, Sequence[Tensor]]:
    """The structure of a call's arguments, and the Tensors in them."""
    if not kwargs and all(isinstance(x, Tensor) for x in args):
        return len(args), args
    return flatten((args, kwargs))
