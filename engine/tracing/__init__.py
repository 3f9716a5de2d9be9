"""``compile``: functions of Tensors traced into plans."""

from engine.tracing.compiled import Compiled, compile

__all__ = ["Compiled", "compile"]
