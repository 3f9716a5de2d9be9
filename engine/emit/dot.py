"""C that joins printed kernels with the prebuilt product: epilogues of a dot, and chains over the units of a batch.

The product is called by an address among the words, so a plan's text does not contain it and builds as fast without.
"""

from __future__ import annotations

PRODUCT_BUFFERS = 3  # out, a, b


def print_fused_dot(name: str, kernel: str) -> str:
    """A product whose epilogue is the kernel of that name. ``dims`` are {address, gm_dot, the kernel's}."""
    return (
        f"void {name}(void **bufs, const int64_t *d, int64_t chunk) {{\n"
        f"    ((gm_fused_dot)(intptr_t)d[0])(bufs, d + 1, chunk, {kernel}_rows);\n"
        "}\n"
    )


def fused_dot_name(kernel: str) -> str:
    """The function that ``print_fused_dot`` prints for a kernel."""
    return f"dot_{kernel}"
