"""Which release this is, and whose numbers its engine gives."""

from __future__ import annotations

from importlib.metadata import version

from engine.numerics import NUMERICS_VERSION

ENGINE_VERSION = version("gradmill")

__all__ = ["ENGINE_VERSION", "NUMERICS_VERSION"]
