"""Numerical building blocks of closed forms: normal laws, quadrature, roots."""

from __future__ import annotations
