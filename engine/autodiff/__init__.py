"""Gradients as a graph transform: one rule a primitive, one walk over the graph."""

import engine.core  # noqa: F401  the table refers to the rules, so it has to be the one that imports them
