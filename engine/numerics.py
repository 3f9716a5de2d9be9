"""The version of the engine's numbers: whoever continues what another release began compares it first."""

from __future__ import annotations

NUMERICS_VERSION = "3"  # grows with every change that gives any computation other bits than before
