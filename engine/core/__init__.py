"""The graph: one immutable node class and one table of primitives, filled when this package is imported."""

from engine.core import ops as ops
