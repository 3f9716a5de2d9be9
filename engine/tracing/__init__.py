"""Functions of Tensors traced into plans (``compile``), and into the bodies of loops and conditions."""

from engine.tracing.compiled import Compiled, compile
from engine.tracing.regions import Looped, Turn, cond, loop

__all__ = ["Compiled", "Looped", "Turn", "compile", "cond", "loop"]
