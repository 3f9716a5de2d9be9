"""C that joins printed kernels with the prebuilt product: epilogues, and chains over units of a batch.

The product is called by an address among the words, so that a plan's text need not contain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PRODUCT_BUFFERS = 3  # out, a, b
PRODUCT_WORDS = 27  # a gm_dot


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


@dataclass(frozen=True, slots=True)
class ChainPart:
    """A kernel of that name, of one row or of rows, with so many buffers and words; without one, products."""

    kernel: str | None
    one_row: bool = False
    buffers: int = PRODUCT_BUFFERS
    words: int = PRODUCT_WORDS


def print_chain(name: str, parts: Sequence[ChainPart]) -> str:
    """Parts one after the other for each unit.

    ``dims`` are {units, units a chunk, then for each part an address (0 for kernels) and its rows, products
    or elements a unit, then the dims of each part}.
    """
    lines = [
        f"void {name}(void **bufs, const int64_t *d, int64_t chunk) {{",
        "    const int64_t u0 = chunk * d[1], u1 = u0 + d[1] < d[0] ? u0 + d[1] : d[0];",
        "    for (int64_t u = u0; u < u1; u++) {",
    ]
    buffer, word = 0, 2 + 2 * len(parts)
    for k, part in enumerate(parts):
        address, size = f"d[{2 + 2 * k}]", f"d[{3 + 2 * k}]"
        start, end, own = f"u * {size}", f"(u + 1) * {size}", f"bufs + {buffer}, d + {word}"
        if part.kernel is None:
            lines.append(f"        ((gm_products)(intptr_t){address})({own}, {start}, {end});")
        elif part.one_row:
            lines.append(f"        {part.kernel}_rows({own}, chunk, 0, 1, {start}, {end});")
        else:
            lines.append(f"        {part.kernel}_rows({own}, chunk, {start}, {end}, 0, d[{word + 1}]);")
        buffer += part.buffers
        word += part.words
    return "\n".join([*lines, "    }", "}", ""])
