"""Prices of options and their Greeks: exact where a formula is known, simulated with errors where not.

``engine.pricing.spec`` is light; the functions here load tensors and C on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.pricing.pricer import combine as combine
    from engine.pricing.pricer import price as price
    from engine.pricing.pricer import price_shard as price_shard

_NAMES = ("combine", "price", "price_shard")

__all__ = [*_NAMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"engine.pricing has no {name!r}; it has {', '.join(_NAMES)}")
    value = getattr(import_module("engine.pricing.pricer"), name)
    globals()[name] = value
    return value
