"""Prices without sampling error: closed forms, series, lattices and quadratures."""

from __future__ import annotations

from engine.pricing.analytic.exact import exact

__all__ = ["exact"]
