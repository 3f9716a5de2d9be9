"""Gradmill's tensor engine, written from first principles.

The public names are loaded on first use, so that importing a light part of the package, such as
``engine.models.config``, loads no compiler, no tensors and no C.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine import nn as nn
    from engine import optim as optim
    from engine.core.dtype import bfloat16 as bfloat16
    from engine.core.dtype import bool_ as bool_
    from engine.core.dtype import float32 as float32
    from engine.core.dtype import float64 as float64
    from engine.core.dtype import int32 as int32
    from engine.core.dtype import int64 as int64
    from engine.core.dtype import uint32 as uint32
    from engine.parameters import Parameters as Parameters
    from engine.random import Generator as Generator
    from engine.random import manual_seed as manual_seed
    from engine.random import rand as rand
    from engine.random import randn as randn
    from engine.record import Graph as Graph
    from engine.tensor import Tensor as Tensor
    from engine.tensor import arange as arange
    from engine.tensor import cat as cat
    from engine.tensor import enable_grad as enable_grad
    from engine.tensor import eye as eye
    from engine.tensor import full as full
    from engine.tensor import linspace as linspace
    from engine.tensor import no_grad as no_grad
    from engine.tensor import one_hot as one_hot
    from engine.tensor import ones as ones
    from engine.tensor import ones_like as ones_like
    from engine.tensor import stack as stack
    from engine.tensor import where as where
    from engine.tensor import zeros as zeros
    from engine.tensor import zeros_like as zeros_like
    from engine.tensor.check import grad_check as grad_check
    from engine.tracing import Turn as Turn
    from engine.tracing import compile as compile
    from engine.tracing import cond as cond
    from engine.tracing import loop as loop

_MODULES = {
    "engine.tensor.check": ("grad_check",),
    "engine.core.dtype": ("bfloat16", "bool_", "float32", "float64", "int32", "int64", "uint32"),
    "engine.tracing": ("Turn", "compile", "cond", "loop"),
    "engine.parameters": ("Parameters",),
    "engine.record": ("Graph",),
    "engine.random": ("Generator", "manual_seed", "rand", "randn"),
    "engine.tensor": (
        *("Tensor", "arange", "cat", "enable_grad", "eye", "full", "linspace", "no_grad", "one_hot", "ones"),
        *("ones_like", "stack", "where", "zeros", "zeros_like"),
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_PACKAGES = ("nn", "optim")

__all__ = [*_HOMES, *_PACKAGES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"engine.{name}")
    if name not in _HOMES:
        raise AttributeError(f"engine has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
