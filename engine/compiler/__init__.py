"""From a graph to a plan of few fused kernels with the bits of the per-node executor."""
