"""C for elementwise primitives: one kernel an op, printed from the table's expression text.

A kernel runs along the flat result in chunks. Operands that are dense like the result are read in place;
others are staged, a block at a time, by ``native/strided.h``. So a kernel is one loop over explicit vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.core.dtype import DType, bfloat16, bool_, float32, float64, int32, int64, uint32
from engine.core.opdef import OPS

EXPENSIVE = (
    8  # additions an element: from here on the tail shares the loop, so the expression is compiled once
)


@dataclass(frozen=True, slots=True)
class Lane:
    """How an element type appears in a vector loop.

    ``scalar`` is its C type in memory, ``vector`` its type in registers. Functions of ``vec.h`` lead from one
    to the other: ``load`` and ``store`` are their prefixes, ``suffix`` their suffix.
    """

    scalar: str
    vector: str
    suffix: str
    load: str = "ld"
    store: str = "st"


LANES_4 = {
    float32: Lane("float", "vf32", "f32"),
    int32: Lane("int32_t", "vi32", "i32"),
    uint32: Lane("uint32_t", "vu32", "u32"),
    bfloat16: Lane("uint16_t", "vf32", "bf16"),
    bool_: Lane("uint8_t", "vi32", "m32"),
}
LANES_8 = {
    float64: Lane("double", "vf64", "f64"),
    int64: Lane("int64_t", "vi64", "i64"),
    float32: Lane("float", "hf32", "f32", "ldh", "sth"),
    int32: Lane("int32_t", "hi32", "i32", "ldh", "sth"),
    uint32: Lane("uint32_t", "hu32", "u32", "ldh", "sth"),
    bool_: Lane("uint8_t", "vi64", "m64"),
}


def kernel_name(op: str, operands: Sequence[DType], result: DType) -> str:
    """``each_add_f32``; casts and bitcasts name both dtypes: ``each_cast_f32_i64``."""
    name = f"each_{op}_{operands[-1].suffix}"
    return f"{name}_{result.suffix}" if op in ("cast", "bitcast") else name


def expression(op: str, operands: Sequence[DType], result: DType, names: Sequence[str]) -> str:
    """The table's text for ``op`` with ``names`` for its operands; bfloat16 is computed as float32."""
    text = OPS[op].c
    if op in ("cast", "bitcast") and list(operands) == [result]:
        return names[0]
    if text is None:
        raise ValueError(f"{op} is not elementwise: it has no C text")
    return text.format(*names, t=_computed(operands[-1]).suffix, u=_computed(result).suffix)


def elementwise_kernel(op: str, operands: Sequence[DType], result: DType) -> str:
    """The kernel of ``op``: bufs {result, operands …}, dims {elements, chunk size, block size, layout}."""
    lanes, count = _lanes((*operands, result))
    out = lanes[result]
    value = expression(op, operands, result, [f"x{k}" for k in range(len(operands))])
    lines = [f"void {kernel_name(op, operands, result)}(void **bufs, const int64_t *dims, int64_t chunk) {{"]
    for k, dtype in enumerate(operands):
        lines.append(f"    gm_{dtype.size} s{k}[GM_BLOCK] __attribute__((aligned(64)));")
    lines += [
        "    const int64_t first = chunk * dims[1], end = gm_end(dims[0], dims[1], chunk);",
        "    for (int64_t i = first; i < end; i += dims[2]) {",
        "        const int64_t n = end - i < dims[2] ? end - i : dims[2];",
    ]
    for k, dtype in enumerate(operands):
        staged = f"gm_stage_{dtype.size}(bufs[{k + 1}], dims + 3, {k}, first, i, n, s{k})"
        lines.append(f"        const {lanes[dtype].scalar} *p{k} = (const void *){staged};")
    lines += [f"        {out.scalar} *o = ({out.scalar} *)bufs[0] + i;", "        int64_t j = 0;"]
    sources = [lanes[dtype] for dtype in operands]
    loop = _one_loop if OPS[op].cost >= EXPENSIVE else _two_loops
    lines += [f"        {line}" for line in loop(sources, out, value, count)]
    return "\n".join([*lines, "    }", "}", ""])


def translation_unit(kernels: Iterable[str], *headers: str) -> str:
    includes = "".join(f'#include "{header}"\n' for header in headers)
    return includes + "\n" + "\n".join(kernels)


def _two_loops(sources: Sequence[Lane], out: Lane, value: str, count: str) -> list[str]:
    """Whole vectors, then what is left."""
    lines = [f"for (; j + {count} <= n; j += {count}) {{"]
    lines += [f"    {x.vector} x{k} = {x.load}_{x.suffix}(p{k} + j);" for k, x in enumerate(sources)]
    lines += [f"    {out.store}_{out.suffix}(o + j, ({out.vector})({value}));", "}", "if (j < n) {"]
    lines += [f"    {x.vector} x{k} = {x.load}n_{x.suffix}(p{k} + j, n - j);" for k, x in enumerate(sources)]
    return [*lines, f"    {out.store}n_{out.suffix}(o + j, ({out.vector})({value}), n - j);", "}"]


def _one_loop(sources: Sequence[Lane], out: Lane, value: str, count: str) -> list[str]:
    """Whole vectors and what is left in one loop."""
    lines = [f"for (; j < n; j += {count}) {{", "    const int64_t m = n - j;"]
    for k, x in enumerate(sources):
        whole, part = f"{x.load}_{x.suffix}(p{k} + j)", f"{x.load}n_{x.suffix}(p{k} + j, m)"
        lines.append(f"    {x.vector} x{k} = m >= {count} ? {whole} : {part};")
    return [
        *lines,
        f"    {out.vector} y = ({out.vector})({value});",
        f"    if (m >= {count}) {out.store}_{out.suffix}(o + j, y);",
        f"    else {out.store}n_{out.suffix}(o + j, y, m);",
        "}",
    ]


def _lanes(dtypes: Sequence[DType]) -> tuple[dict[DType, Lane], str]:
    """The lanes of a kernel over ``dtypes`` and C's name for their number: the widest fills a vector."""
    return (LANES_8, "LD") if any(dtype.size == 8 for dtype in dtypes) else (LANES_4, "LF")


def _computed(dtype: DType) -> DType:
    return float32 if dtype is bfloat16 else dtype
