"""Monte Carlo: paths as recorded graphs, sums in a fixed tree, an error beside every number."""
