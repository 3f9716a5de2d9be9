"""What fusion makes of known graphs: how many kernels, why others stay apart, and in how many visits."""

from __future__ import annotations

import pytest

from engine.autodiff.differentiate import differentiate
from engine.autodiff.merge import merge
from engine.compiler.cluster import Cluster, Finish, Place, Single
from engine.compiler.fuse import MOST_NODES, Fusion
from engine.compiler.lower import Lowered, lower
from engine.compiler.simplify import simplify
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import DType, float32, float64, int64
from engine.core.node import Node

ROWS = symbol("rows")


def fused(targets: list[Node]) -> Fusion:
    order, leaders = merge(targets)
    return Fusion(order, leaders, targets)


def lowered(fusion: Fusion, targets: list[Node]) -> list[Lowered]:
    stored = {fusion.read(target).source for target in targets}
    for step in fusion.steps:
        stored.update(access.source for access in step.accesses if fusion.home.get(access.source) is not step)
    return [lower(step, fusion, stored) for step in fusion.steps if not isinstance(step, Single)]


def kernels(targets: list[Node]) -> int:
    """Launches a run: one kernel over many buffers of one level is one; what depends on no input is none."""
    targets = simplify(targets)
    fusion = fused(targets)
    steps = [step for step in fusion.steps if not isinstance(step, Single)]
    singles = sum(isinstance(step, Single) and not step.fixed for step in fusion.steps)
    printed = zip(steps, lowered(fusion, targets), strict=True)
    return singles + len({(own.kernel, step.level) for step, own in printed if not step.fixed})


def leaf(*shape: object, dtype: DType = float32) -> Node:
    return b.input(tuple(shape), dtype)


def spread(x: Node, like: Node) -> Node:
    return b.expand(x, (like.rank - 1,), like.shape)


def mean(x: Node) -> Node:
    return b.mul(b.sum(x, (x.rank - 1,)), b.full(x.shape[:-1], x.dtype, 1 / 128))


def layer_norm(x: Node, gain: Node, bias: Node) -> Node:
    d = b.sub(x, spread(mean(x), x))
    deviation = b.sqrt(b.add(mean(b.mul(d, d)), b.full(x.shape[:-1], x.dtype, 1e-5)))
    scaled = b.mul(d, spread(b.div(b.ones_like(deviation), deviation), x))
    return b.add(b.mul(scaled, b.broadcast(gain, x.shape)), b.broadcast(bias, x.shape))


def softmax(x: Node) -> Node:
    e = b.exp(b.sub(x, spread(b.reduce(x, "max", (x.rank - 1,)), x)))
    return b.div(e, spread(b.sum(e, (x.rank - 1,)), x))


@pytest.mark.parametrize("rows", [7, ROWS], ids=["static", "symbolic"])
def test_a_chain_of_elementwise_primitives_is_one_kernel(rows: object) -> None:
    x, y, z = (leaf(rows, 33) for _ in range(3))
    assert kernels([b.mul(b.max(b.add(x, y), b.zeros_like(x)), z)]) == 1


@pytest.mark.parametrize("rows", [7, ROWS], ids=["static", "symbolic"])
def test_softmax_is_one_kernel_each_way(rows: object) -> None:
    x, seed = leaf(rows, 128), leaf(rows, 128)
    y = softmax(x)
    gradients = differentiate([y], [x], [seed])
    assert kernels([y]) == 1
    assert kernels(gradients) == 1
    assert kernels([y, *gradients]) == 1


@pytest.mark.parametrize("rows", [(32, 32), (ROWS, 32)], ids=["static", "symbolic"])
def test_layer_norm_is_one_kernel_each_way(rows: tuple[object, ...]) -> None:
    """And one more that ends the sums over all rows of any number of layers."""
    x, seed = leaf(*rows, 128), leaf(*rows, 128)
    gain, bias = leaf(128), leaf(128)
    y = layer_norm(x, gain, bias)
    assert kernels([y]) == 1
    assert kernels(differentiate([y], [x], [seed])) == 1
    fusion = fused(simplify(differentiate([y], [x, gain, bias], [seed])))
    assert [type(step) for step in fusion.steps if not step.fixed] == [Cluster, Finish, Finish]


def test_layers_in_a_row_share_the_end_of_their_sums() -> None:
    x, seed = leaf(64, 128), leaf(64, 128)
    gain, bias = leaf(128), leaf(128)
    y = layer_norm(x, gain, bias)
    assert kernels(differentiate([y], [x, gain, bias], [seed])) == 2


def adam(p: Node, g: Node, m: Node, v: Node, rate: Node) -> list[Node]:
    def times(factor: float, x: Node) -> Node:
        return b.mul(b.full_like(x, factor), x)

    m = b.add(times(0.9, m), times(0.1, g))
    v = b.add(times(0.999, v), times(0.001, b.mul(g, g)))
    step = b.div(
        b.mul(b.broadcast(rate, p.shape) if p.shape else rate, m), b.add(b.sqrt(v), b.full_like(v, 1e-8))
    )
    return [b.sub(p, step), m, v]


def test_adam_over_all_parameters_is_one_kernel() -> None:
    rate = leaf()
    shapes = [(65, 128), (128,), (128, 384), (384,), (128, 65), (65,), (3, 4, 5)]
    targets = [new for shape in shapes for new in adam(*[leaf(*shape) for _ in range(4)], rate)]
    assert kernels(targets) == 1


def test_borders_and_a_copy_join_what_reads_them() -> None:
    """The gradient of a projection cut in three heads' parts: pads, a copy and sums in one kernel."""
    x = leaf(32, 32, 384)
    parts = [b.take(x, 2, 128 * k, 128) for k in range(3)]
    heads = [b.transpose(b.reshape(part, (32, 32, 4, 32)), (0, 2, 1, 3)) for part in parts]
    seeds = [leaf(*head.shape) for head in heads]
    assert kernels(differentiate(heads, [x], seeds)) == 1


def test_a_cheap_value_is_computed_again_rather_than_stored() -> None:
    """Between the two kernels only what the sum over rows needs anew goes through memory."""
    x, w = leaf(64, 128), leaf(128, 128)
    y = b.mul(x, b.full_like(x, 3))
    h = b.dot(b.exp(y), w)
    fusion = fused([b.add(h, y)])
    stored = [node for step in fusion.steps if isinstance(step, Cluster) for node in step.accesses]
    assert y not in {access.source for access in stored}


def test_a_costly_value_is_stored_in_place_of_what_follows_cheaply() -> None:
    """The kernels after the products read tanh, not one more than it and its derivative."""
    x, w = leaf(64, 128), leaf(128, 128)
    t = b.tanh(x)
    more, slope = b.add(t, b.ones_like(t)), b.sub(b.ones_like(t), b.mul(t, t))
    fusion = fused([b.mul(b.mul(b.dot(b.mul(x, more), w), more), slope)])
    stored = {
        access.source
        for step in fusion.steps
        for access in step.accesses
        if fusion.home.get(access.source) is not step
    }
    assert t in stored
    assert not stored & {more, slope}


def test_sums_over_rows_join_a_kernel_along_rows() -> None:
    x = leaf(ROWS, 64)
    y = softmax(x)
    fusion = fused([y, b.sum(y, (0,))])
    (cluster, finish) = fusion.steps
    assert isinstance(cluster, Cluster)
    assert isinstance(finish, Finish)
    assert cluster.by_lanes
    assert cluster.level < finish.level


def test_a_copy_across_rows_that_joins_nothing_stays_apart() -> None:
    x = leaf(64, 100)
    turned = b.reshape(b.swap_last(x), (6400,))
    assert [type(step) for step in fused([turned]).steps] == [Single]
    assert [type(step) for step in fused([b.neg(turned)]).steps] == [Cluster]


def test_what_waits_joins_its_reader() -> None:
    """A value with one late reader is computed there, not stored early."""
    x, y = leaf(16, 16), leaf(16, 16)
    early = b.neg(x)
    late = b.dot(b.dot(y, y), y)
    fusion = fused([b.add(early, late)])
    (cluster,) = [step for step in fusion.steps if isinstance(step, Cluster)]
    assert [node.op for node in cluster.places] == ["neg", "add"]


def test_side_by_side_kernels_are_united_by_a_reader_of_both() -> None:
    x, y = leaf(8, 33), leaf(8, 33)
    a, c = b.exp(x), b.tanh(y)
    assert kernels([b.add(b.neg(a), b.neg(c)), a, c]) == 1


def test_no_kernel_waits_for_another_in_a_circle() -> None:
    x = leaf(8, 8)
    e = b.exp(x)
    targets = [b.add(b.dot(e, e), e), b.mul(e, b.dot(e, b.neg(e)))]
    fusion = fused(targets)
    done: set[Node] = set()
    for step in fusion.steps:
        for access in step.accesses:
            assert access.source in done or access.source not in fusion.home
        done.update(step.nodes)


def test_refusals_say_why() -> None:
    x = leaf(8, 9)
    fusion = fused([b.mul(b.exp(x), b.swap_last(b.exp(leaf(9, 8)))), b.sum(b.exp(x), (0, 1))])
    assert "their index spaces differ" in {refusal.reason for refusal in fusion.refusals}


def test_elements_of_4_and_8_bytes_share_a_kernel() -> None:
    x, weights = leaf(8, 900), leaf(8, 900, dtype=float64)
    wide = b.mul(b.exp(b.cast(x, float64)), weights)
    small = b.cast(b.lt(wide, b.cast(x, float64)), int64)
    assert kernels([b.sum(wide, (1,)), b.cast(wide, float32), small]) == 1


def test_many_elements_to_one_value_are_two_kernels() -> None:
    """One that all threads work on, and the end of the tree."""
    x = leaf(1000, 1000)
    assert kernels([b.sum(b.mul(x, x), (0, 1)), b.reduce(x, "max", (0, 1)), b.exp(x)]) == 3
    assert kernels([b.sum(b.mul(x, x), (0, 1))]) == 2
    assert kernels([b.sum(leaf(1000), (0,))]) == 1


def test_dtypes_of_one_size_share_a_kernel_with_bools() -> None:
    x = leaf(5, 6, dtype=float64)
    k = leaf(5, 6, dtype=int64)
    positive = b.lt(b.zeros_like(x), x)
    y = b.select(b.and_(positive, b.lt(k, b.cast(x, int64))), b.cast(k, float64), b.sqrt(x))
    assert kernels([y]) == 1


def test_kernels_have_a_limit() -> None:
    node = leaf(64)
    for _ in range(3 * MOST_NODES):
        node = b.sub(b.exp(node), node)
    clusters = fused([node]).steps
    assert all(len(step.nodes) <= MOST_NODES for step in clusters)
    assert len(clusters) == 6


def test_a_sum_of_300_terms_is_few_kernels() -> None:
    terms = [leaf(100) for _ in range(300)]
    total = terms[0]
    for term in terms[1:]:
        total = b.add(total, term)
    assert kernels([total]) <= 4


def joins_of(length: int, monkeypatch: pytest.MonkeyPatch) -> int:
    calls = 0
    join = Fusion._join

    def counted(self: Fusion, *args: object) -> bool:
        nonlocal calls
        calls += 1
        return join(self, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Fusion, "_join", counted)
        node = leaf(16)
        for k in range(length):
            node = b.exp(node) if k % 2 else b.neg(node)
        fused([node])
    return calls


def test_fusion_is_linear_in_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = joins_of(1000, monkeypatch), joins_of(10_000, monkeypatch)
    assert long <= 10.5 * short


def test_places_of_members() -> None:
    x = leaf(6, 32)
    fusion = fused([softmax(x)])
    (cluster,) = fusion.steps
    assert isinstance(cluster, Cluster)
    assert [place for node, place in cluster.places.items() if node.op == "reduce"] == [
        Place.OUTER,
        Place.OUTER,
    ]
