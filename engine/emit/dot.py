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
    """A kernel of that name, of one row or of rows, with so many buffers and words; without one, products.

    ``inner`` are the buffers that only parts of the chain use.
    """

    kernel: str | None
    inner: tuple[int, ...]
    one_row: bool = False
    buffers: int = PRODUCT_BUFFERS
    words: int = PRODUCT_WORDS


def print_chain(name: str, parts: Sequence[ChainPart]) -> str:
    """Parts one after the other for each unit.

    ``dims`` are {units, units a chunk, then for each part an address (0 for kernels) and its rows, products
    or elements a unit, for each inner buffer two for gm_own, then the dims of each part}.
    """
    starts = [sum(part.buffers for part in parts[:k]) for k in range(len(parts) + 1)]
    inner = [start + own for start, part in zip(starts, parts, strict=False) for own in part.inner]
    word = 2 + 2 * len(parts)
    lines = [
        f"void {name}(void **bufs, const int64_t *d, int64_t chunk) {{",
        "    _Alignas(64) char own[GM_OWN_BYTES];",
        f"    void *b[{starts[-1]}];",
        f"    for (int k = 0; k < {starts[-1]}; k++) b[k] = bufs[k];",
        "    const int64_t u0 = chunk * d[1], u1 = u0 + d[1] < d[0] ? u0 + d[1] : d[0];",
        "    for (int64_t u = u0; u < u1; u++) {",
        *[f"        b[{k}] = gm_own(own, bufs[{k}], d + {word + 2 * at}, u);" for at, k in enumerate(inner)],
    ]
    word += 2 * len(inner)
    for k, part in enumerate(parts):
        address, size = f"d[{2 + 2 * k}]", f"d[{3 + 2 * k}]"
        start, end, own = f"u * {size}", f"(u + 1) * {size}", f"b + {starts[k]}, d + {word}"
        if part.kernel is None:
            lines.append(f"        ((gm_products)(intptr_t){address})({own}, {start}, {end});")
        elif part.one_row:
            lines.append(f"        {part.kernel}_rows({own}, chunk, 0, 1, {start}, {end});")
        else:
            lines.append(f"        {part.kernel}_rows({own}, chunk, {start}, {end}, 0, d[{word + 1}]);")
        word += part.words
    return "\n".join([*lines, "    }", "}", ""])
