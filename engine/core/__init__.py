"""The graph: one immutable node class and one table of primitives."""
