"""The graph: one immutable node class and one table of primitives, which is filled when this package is imported."""

from engine.core import ops as ops
