"""Side-by-side measurements against peers; never imported by the product."""
