"""Prices of options and their Greeks: closed forms, lattices and quadratures."""

from __future__ import annotations
