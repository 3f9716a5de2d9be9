"""Plans against one node a kernel: the same bits for random graphs of every primitive, at all sizes and
threads.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given as draw
from hypothesis import settings
from hypothesis import strategies as st
from plan_graphs import Pool, compare, looped, verified

from engine.autodiff.differentiate import differentiate
from engine.compiler.plan import Plan
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import ALL, FLOATS, DType, bool_, float32, float64, int32, int64, uint32
from engine.core.node import Node
from engine.devices.cpu import CpuDevice
from engine.devices.toolchain import find_toolchain

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice(threads=2)
SIZES = (0, 1, 2, 3, 5, 17, 33, 64, 65, 130)
DTYPES = {
    "float32": (float32, float32, float32, bool_),
    "float64": (float64, float64, int64, bool_),
    "integers": (int32, int64, float32, bool_),
    "mixed": (float32, float64, int32, uint32, int64, bool_),
    "all": ALL,
}


def grown(seed: int, family: str, steps: int, leading: object = None) -> tuple[Pool, list[Node]]:
    random = np.random.default_rng(seed)
    sizes = [int(n) for n in random.choice(SIZES, 3, p=[0.04] + [0.96 / 9] * 9)]
    if leading is not None:
        sizes = [leading, int(random.choice((1, 3, 33))), int(random.choice((2, 5)))]
    pool = Pool(random, tuple(sizes), DTYPES[family])
    pool.grow(steps)
    count = int(random.integers(1, 5))
    late = pool.nodes[-min(len(pool.nodes), 12) :]
    targets = [late[int(i)] for i in random.permutation(len(late))[:count]]
    return pool, targets


def check(pool: Pool, targets: list[Node], sizes: list[dict[str, int]], device: CpuDevice = CPU) -> None:
    verified(targets)
    plan = Plan(pool.leaves, targets, device)
    text = plan.source()
    for own in sizes:
        compare(plan, pool.leaves, targets, device, pool.random, own)
    assert plan.source() == text


@pytest.mark.parametrize("family", DTYPES)
@settings(max_examples=3, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_random_graphs(family: str, seed: int) -> None:
    check(*grown(seed, family, 20), [{}])


@pytest.mark.slow
@pytest.mark.parametrize("family", DTYPES)
@settings(max_examples=150)
@draw(seed=st.integers(0, 2**32 - 1))
def test_many_random_graphs(family: str, seed: int) -> None:
    check(*grown(seed, family, 40), [{}])


@settings(max_examples=3, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_one_plan_serves_every_leading_size(seed: int) -> None:
    check(*grown(seed, "float32", 20, symbol("rows")), [{"rows": n} for n in (0, 1, 5, 33, 1000)])


@pytest.mark.slow
@pytest.mark.parametrize("family", DTYPES)
@settings(max_examples=60)
@draw(seed=st.integers(0, 2**32 - 1))
def test_many_plans_serve_every_leading_size(family: str, seed: int) -> None:
    check(*grown(seed, family, 30, symbol("rows")), [{"rows": n} for n in (0, 1, 5, 33, 1000)])


@pytest.mark.parametrize(
    ("family", "steps", "seed"),
    [
        pytest.param("float64", 30, 722495, id="a row's value written where other chunks still read"),
        pytest.param("all", 30, 2989, id="the first elements of more, taken for all"),
        pytest.param("integers", 40, 3792497226, id="the one row of a reduction, cut into units of a chain"),
    ],
)
def test_graphs_that_found_faults(family: str, steps: int, seed: int) -> None:
    check(*grown(seed, family, steps, symbol("rows")), [{"rows": n} for n in (0, 1, 5, 33, 1000)])


def with_gradients(seed: int, steps: int) -> tuple[Pool, list[Node]]:
    pool, targets = grown(seed, "float32", steps)
    smooth = [node for node in targets if node.dtype in FLOATS]
    leaves = [leaf for leaf in pool.leaves if leaf.dtype is float32]
    gradients = differentiate(smooth, leaves) if smooth else []
    return pool, [*targets, *gradients]


@settings(max_examples=4, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_gradients_of_random_graphs(seed: int) -> None:
    check(*with_gradients(seed, 15), [{}])


@pytest.mark.slow
@settings(max_examples=150)
@draw(seed=st.integers(0, 2**32 - 1))
def test_gradients_of_many_random_graphs(seed: int) -> None:
    check(*with_gradients(seed, 25), [{}])


@pytest.mark.parametrize("seed", [pytest.param(242480, id="a chain that took in another's last part")])
def test_gradients_that_found_faults(seed: int) -> None:
    check(*with_gradients(seed, 25), [{}])


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    device = CpuDevice(threads=threads)
    try:
        rows, columns = 257, 300
        x, w = b.input((rows, columns), float32), b.input((columns,), float32)
        y = b.tanh(b.mul(x, b.broadcast(w, x.shape)))
        total = b.sum(y, (0, 1))
        pool = Pool(np.random.default_rng(threads), (3, 4, 5), (float32,))
        pool.leaves = [x, w]
        check(pool, [y, total, *differentiate([total, b.sum(y, (1,))], [x, w])], [{}], device)
    finally:
        CPU.native.set_threads(CPU.threads)


def long_chain(length: int) -> tuple[Node, Node, Node]:
    x, y = b.input((64,), float32), b.input((64,), float32)
    node = x
    for k in range(length):
        node = (b.neg, b.abs, lambda v: b.add(v, y), b.tanh, lambda v: b.mul(v, y))[k % 5](node)
    return x, y, node


@pytest.mark.slow
def test_a_chain_of_100_000_nodes() -> None:
    x, y, node = long_chain(100_000)
    compare(Plan([x, y], [node], CPU), [x, y], [node], CPU, np.random.default_rng(1), {})


def test_a_chain_of_1_000_nodes() -> None:
    x, y, node = long_chain(1000)
    compare(Plan([x, y], [node], CPU), [x, y], [node], CPU, np.random.default_rng(1), {})


def test_a_sum_of_300_terms() -> None:
    terms = [b.input((100,), float32) for _ in range(300)]
    total = terms[0]
    for term in terms[1:]:
        total = b.add(total, term)
    compare(Plan(terms, [total], CPU), terms, [total], CPU, np.random.default_rng(1), {})


@pytest.mark.parametrize("shape", [(65536,), (65537,), (300, 333), (2, 100, 1001)])
@pytest.mark.parametrize("dtype", [float32, float64])
def test_many_elements_to_one_value(shape: tuple[int, ...], dtype: DType) -> None:
    """A kernel whose chunks are blocks of the tree, and one that ends it."""
    x, y = b.input(shape, dtype), b.input(shape, dtype)
    axes = tuple(range(len(shape)))
    e = b.exp(x)
    total = b.sum(b.mul(e, y), axes)
    others = [b.reduce(y, "max", axes), b.mul(b.reduce(y, "min", axes), b.reduce(x, "prod", axes))]
    pool = Pool(np.random.default_rng(1), (3, 4, 5), (dtype,))
    pool.leaves = [x, y]
    check(pool, [total, *others, e, b.sub(x, b.expand(total, axes, shape))], [{}])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [float32, float64])
def test_results_that_go_past_the_caches(dtype: DType) -> None:
    """Rows of whole vectors, and rows that begin anywhere."""
    x, y = b.input((2050, 1024), dtype), b.input((1500, 1399), dtype)
    targets = [b.add(x, x), b.pad(b.neg(y), b.constant(1, dtype), (0, 0), (0, 2))]
    pool = Pool(np.random.default_rng(1), (3, 4, 5), (dtype,))
    pool.leaves = [x, y]
    check(pool, targets, [{}])


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["gcc -O3", "gcc -mno-avx512f", "clang", f"{sys.executable} -m ziglang cc"],
    ids=lambda text: text.split()[-1],
)
def test_compilers_and_targets(command: str) -> None:
    toolchain = find_toolchain({"GRADMILL_CC": command})
    if toolchain is None:
        pytest.skip(f"{command} does not build working code here")
    device = CpuDevice(threads=2, toolchain=toolchain)
    for seed in range(12):
        pool, targets = grown(seed, "float32" if seed % 2 else "all", 30)
        plan, other = Plan(pool.leaves, targets, CPU), Plan(pool.leaves, targets, device)
        assert plan.source() == other.source()
        compare(other, pool.leaves, targets, CPU, pool.random, {})


@pytest.mark.parametrize("shape", [(70, 4), (4, 70), (3, 5, 12), (2, 3, 7), (1,)])
def test_random_words_are_computed_where_they_are_read(shape: tuple[int, ...]) -> None:
    """Blocks side by side, words a row apart, words in any order: no step but one kernel."""
    key, ordinal = b.input((2,), uint32), b.input((), uint32)
    bits = b.random_bits(key, ordinal, shape)
    slices = [b.take(bits, len(shape) - 1, k, 1) for k in range(shape[-1])]
    words = [b.shr(own, b.full(own.shape, uint32, 1)) for own in slices]
    flipped = b.cast(b.flip(bits, len(shape) - 1), float64)
    total = flipped
    for word in words:
        total = b.add(total, b.cast(b.broadcast(word, shape), float64))
    pool = Pool(np.random.default_rng(1), (3, 4, 5), (float64,))
    pool.leaves = [key, ordinal]
    check(pool, [total, b.cast(bits, float64), b.sum(total, tuple(range(len(shape))))], [{}])


def with_loops(seed: int, nests: bool = False) -> tuple[Pool, list[Node]]:
    """Two loops in a row over one shape, what surrounds them, and gradients through both."""
    random = np.random.default_rng(seed)
    dtype = (float32, float64)[seed % 2]
    sizes = tuple(int(n) for n in random.choice(SIZES[1:], 3))
    pool = Pool(random, sizes, (dtype, dtype, dtype, bool_))
    pool.grow(3)
    while sum(node.op == "item" for node in pool.nodes) < 2:
        node = looped(pool, nests)
        if node is not None:
            pool.nodes.append(node)
    pool.grow(4)
    smooth = [node for node in pool.nodes[-8:] if node.dtype is dtype and node.inputs][:3]
    leaves = [leaf for leaf in pool.leaves if leaf.dtype is dtype]
    return pool, [*smooth, *differentiate(smooth, leaves)] if smooth else pool.nodes[-3:]


@settings(max_examples=2, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_gradients_of_random_loops(seed: int) -> None:
    check(*with_loops(seed), [{}])


@settings(max_examples=3, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_gradients_of_random_loops_in_loops(seed: int) -> None:
    check(*with_loops(seed, nests=True), [{}])


@pytest.mark.slow
@settings(max_examples=15)
@draw(seed=st.integers(0, 2**32 - 1), nests=st.booleans())
def test_gradients_of_many_random_loops(seed: int, nests: bool) -> None:
    pool, targets = with_loops(seed, nests)
    check(pool, targets, [{}])
    compare(Plan(pool.leaves, targets, CPU, remat=0), pool.leaves, targets, CPU, pool.random, {})
