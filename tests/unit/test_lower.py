"""From clusters to loops: stages, what is kept between them, buffers and strides; and the C of one kernel."""

from __future__ import annotations

import pytest

from engine.autodiff.merge import merge
from engine.compiler.cluster import Cluster
from engine.compiler.fuse import Fusion
from engine.compiler.loopir import Apply, Collect, Load, Reduce, Store
from engine.compiler.lower import Lowered, lower
from engine.compiler.verify import verify
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import float32
from engine.core.node import Node
from engine.emit.kernel import print_kernel

RELU = """\
static void kernel_rows(void **bufs, const int64_t *d, int64_t chunk, int64_t r0, int64_t r1, \
int64_t c0, int64_t c1) {
    const vf32 v4 = set1_f32(0x0.0p+0f);
    const int64_t n = d[1];
    const int stream = d[0] * n >= GM_STREAM;
    for (int64_t r = r0; r < r1; r++) {
        const float *p0 = (const float *)bufs[0];
        const float *p1 = (const float *)bufs[1];
        const float *p2 = (const float *)bufs[2];
        float *p3 = (float *)bufs[3];
        {
            int64_t j = c0;
            for (; j + LF <= c1; j += LF) {
                const vf32 v1 = ld_f32(p0 + j);
                const vf32 v2 = ld_f32(p1 + j);
                const vf32 v3 = v1 + v2;
                const vf32 v5 = max_f32(v3, v4);
                const vf32 v6 = ld_f32(p2 + j);
                const vf32 v7 = v5 * v6;
                if (stream) stream_f32(p3 + j, v7); else st_f32(p3 + j, v7);
            }
            if (j < c1) {
                const int64_t m = c1 - j;
                const vf32 v1 = ldn_f32(p0 + j, m);
                const vf32 v2 = ldn_f32(p1 + j, m);
                const vf32 v3 = v1 + v2;
                const vf32 v5 = max_f32(v3, v4);
                const vf32 v6 = ldn_f32(p2 + j, m);
                const vf32 v7 = v5 * v6;
                stn_f32(p3 + j, v7, m);
            }
        }
    }
    if (stream) stream_end();
}
void kernel(void **bufs, const int64_t *d, int64_t chunk) {
    const int64_t rows = d[0], n = d[1];
    const int64_t strips = n > d[3] ? (n + d[3] - 1) / d[3] : 1;
    const int64_t c0 = chunk % strips * d[3], c1 = c0 + d[3] < n ? c0 + d[3] : n;
    const int64_t r0 = chunk / strips * d[2], r1 = r0 + d[2] < rows ? r0 + d[2] : rows;
    kernel_rows(bufs, d, chunk, r0, r1, c0, c1);
}
"""


def leaf(*shape: object) -> Node:
    return b.input(tuple(shape), float32)


def kernels(*targets: Node) -> list[Lowered]:
    fusion = Fusion(*merge(targets), targets)
    clusters = [step for step in fusion.steps if isinstance(step, Cluster)]
    stored = {fusion.read(target).source for target in targets}
    stored |= {a.source for step in fusion.steps for a in step.accesses}
    results = [lower(cluster, fusion, stored) for cluster in clusters]
    for own in results:
        verify("loops", own.kernel)
    return results


def softmax(x: Node) -> Node:
    last = (x.rank - 1,)
    e = b.exp(b.sub(x, b.expand(b.reduce(x, "max", last), last, x.shape)))
    return b.div(e, b.expand(b.sum(e, last), last, x.shape))


def test_the_c_of_a_chain() -> None:
    """Four passes over memory: three loads and a store an element."""
    x, y, z = leaf(1000, 33), leaf(1000, 33), leaf(1000, 33)
    (own,) = kernels(b.mul(b.max(b.add(x, y), b.zeros_like(x)), z))
    (stage,) = own.kernel.stages
    assert [type(line) for line in stage.inner] == [Load, Load, Apply, Apply, Load, Apply, Store]
    assert (own.outer, own.inner) == ((), 33000)
    assert print_kernel(own.kernel, "kernel").strip() == RELU.strip()


def test_dimensions_are_joined_where_all_buffers_allow_it() -> None:
    x, y = leaf(4, 5, 6, 7), leaf(6, 7)
    (own,) = kernels(b.add(x, b.broadcast(y, x.shape)))
    assert (own.outer, own.inner) == ((20,), 42)
    assert [layout.outer for layout in own.layouts] == [(42,), (0,), (42,)]


def test_symbolic_dimensions_are_joined_too() -> None:
    rows = symbol("rows")
    (own,) = kernels(b.exp(leaf(rows, 5, 6)))
    assert (own.outer, own.inner) == ((), rows * 30)


def test_softmax_has_a_stage_for_each_pass() -> None:
    """Maximum; exponentials, kept in scratch; their sum, unrolled; quotients."""
    (own,) = kernels(softmax(leaf(8, 100)))
    kernel = own.kernel
    assert kernel.kind == "rows"
    reduced = [[line.kind for line in stage.inner if isinstance(line, Reduce)] for stage in kernel.stages]
    assert reduced == [["max"], [], ["sum"], []]
    assert [buffer.scratch for buffer in kernel.buffers] == [False, True, False]
    exponentials = [
        line
        for stage in kernel.stages
        for line in stage.inner
        if isinstance(line, Apply) and line.op == "exp"
    ]
    assert len(exponentials) == 1


def test_what_costs_little_is_computed_again_in_the_next_stage() -> None:
    x = leaf(8, 100)
    d = b.sub(x, b.expand(b.sum(x, (1,)), (1,), x.shape))
    (own,) = kernels(b.mul(d, b.expand(b.sum(b.mul(d, d), (1,)), (1,), x.shape)))
    assert not any(buffer.scratch for buffer in own.kernel.buffers)
    subtractions = [
        line
        for stage in own.kernel.stages
        for line in stage.inner
        if isinstance(line, Apply) and line.op == "sub"
    ]
    assert len(subtractions) == 2


def test_a_row_reads_another_once() -> None:
    """A value of a whole row is loaded before the first pass, whatever stage reads it."""
    x, row = leaf(8, 100), leaf(8, 1)
    y = softmax(x)
    (own,) = kernels(b.mul(y, b.broadcast(row, x.shape)))
    first = own.kernel.stages[0].row
    assert [type(line) for line in first] == [Load]
    assert own.kernel.buffers[first[0].buffer].along == "repeat"


def test_columns_and_rows_together_collect_by_lanes() -> None:
    x = leaf(8, 16)
    y = softmax(x)
    (own,) = kernels(y, b.sum(y, (0,)))
    assert own.kernel.kind == "lanes"
    assert len(own.partials) == 1
    assert sum(isinstance(line, Collect) for stage in own.kernel.stages for line in stage.inner) == 1


def test_columns_alone_are_one_stage() -> None:
    (own,) = kernels(b.sum(b.exp(leaf(8, 16)), (0,)))
    assert own.kernel.kind == "columns"
    assert len(own.kernel.stages) == 1


def test_borders_are_windows_onto_what_is_read() -> None:
    x = leaf(4, 6)
    (own,) = kernels(b.neg(b.pad(x, b.constant(2, float32), (1, 0), (0, 3))))
    buffer, layout = own.kernel.buffers[0], own.layouts[0]
    assert buffer.windows == (0, 1)
    assert layout.windows == ((1, 5), (0, 6))
    assert layout.offset == -6


def test_equal_layers_have_equal_kernels() -> None:
    """So that they share one text; sizes and strides are arguments."""
    one, other = kernels(softmax(leaf(8, 100))), kernels(softmax(leaf(symbol("rows"), 7)))
    assert one[0].kernel == other[0].kernel


@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
def test_kernels_name_the_reduction(kind: str) -> None:
    (own,) = kernels(b.reduce(leaf(3, 50), kind, (1,)))
    assert f"GM_{kind.upper()}" in print_kernel(own.kernel, "kernel")
