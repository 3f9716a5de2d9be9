"""Runs of random plans: states that go on, buffers that share an arena, several threads, one step after the
other.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given as draw
from hypothesis import settings
from hypothesis import strategies as st
from plan_graphs import Pool, canonical, fill

from engine.autodiff.differentiate import differentiate
from engine.compiler.interpret import interpret
from engine.compiler.memory import overlapping
from engine.compiler.plan import Plan
from engine.core import build as b
from engine.core.dtype import ALL, bool_, float32
from engine.core.node import Node
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.toolchain import find_toolchain

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice(threads=2)
SIZES = (1, 2, 3, 5, 17, 33, 64, 65)


def grown(
    seed: int, steps: int, every_dtype: bool = False
) -> tuple[Pool, list[Node], list[tuple[Node, Node]]]:
    """A graph, some targets of it, and states: leaves that some node of their shape and dtype replaces."""
    random = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in random.choice(SIZES, 3))
    pool = Pool(random, sizes, ALL if every_dtype else (float32, float32, float32, bool_))
    pool.grow(steps)
    late = pool.nodes[-8:]
    targets = [late[int(i)] for i in random.permutation(len(late))[:2]]
    states = []
    for leaf in pool.leaves:
        alike = [node for node in pool.nodes if (node.shape, node.dtype) == (leaf.shape, leaf.dtype)]
        if leaf.dtype is float32 and random.random() < 0.7:
            new = alike[int(random.integers(len(alike)))]
            states.append((leaf, new if random.random() < 0.5 else b.add(leaf, b.tanh(new))))
    return pool, targets, states


def values_of(pool: Pool) -> dict[Node, Array]:
    return {leaf: fill(pool.random, leaf.shape, leaf.dtype, special=False) for leaf in pool.leaves}  # type: ignore[arg-type]


def bits(arrays: list[Array]) -> list[bytes]:
    return [canonical(x) for x in arrays]


def check_session(seed: int, steps: int, every_dtype: bool = False) -> None:
    pool, targets, states = grown(seed, steps, every_dtype)
    plan = Plan(pool.leaves, targets, CPU, states=states)
    binding = plan.bind({})
    assert not overlapping(binding.arena_blocks(), binding.takeovers)
    values = values_of(pool)
    olds, news = [old for old, _ in states], [new for _, new in states]
    session = plan.session({old: values[old] for old in olds})
    before = bits(list(values.values()))
    held: list[tuple[Array, bytes]] = []
    now = dict(values)
    for turn in range(4):
        wanted = bits(interpret([*targets, *news], now, CPU, {}))
        results = session.run({leaf: now[leaf] for leaf in pool.leaves if leaf not in olds})
        assert bits(results) == wanted[: len(targets)], turn
        replaced = [session.read(old) for old in olds]
        assert bits(replaced) == wanted[len(targets) :], turn
        if turn % 2:  # else nobody holds them, and the next run may write in place
            held += [(x, canonical(x)) for x in [*results, *replaced]]
        fresh = [Array.from_bytes(x.tobytes(), x.shape, x.dtype) for x in replaced]
        now |= dict(zip(olds, fresh, strict=True))
        del results, replaced
    assert all(canonical(x) == raw for x, raw in held)
    assert bits(list(values.values())) == before


@settings(max_examples=15, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_sessions_of_random_graphs(seed: int) -> None:
    check_session(seed, 15)


@pytest.mark.slow
@settings(max_examples=300)
@draw(seed=st.integers(0, 2**32 - 1), every_dtype=st.booleans())
def test_sessions_of_many_random_graphs(seed: int, every_dtype: bool) -> None:
    check_session(seed, 30, every_dtype)


def check_rematerialised(seed: int, steps: int, every_dtype: bool = False) -> None:
    pool, targets, _ = grown(seed, steps, every_dtype)
    smooth = [node for node in targets if node.dtype is float32]
    leaves = [leaf for leaf in pool.leaves if leaf.dtype is float32]
    targets += differentiate(smooth, leaves) if smooth else []
    plain, again = Plan(pool.leaves, targets, CPU), Plan(pool.leaves, targets, CPU, remat=0)
    binding = again.bind({})
    assert not overlapping(binding.arena_blocks(), binding.takeovers)
    feeds = values_of(pool)
    assert bits(again.run(feeds)) == bits(plain.run(feeds))


@settings(max_examples=8, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_values_that_are_computed_again_have_the_same_bits(seed: int) -> None:
    check_rematerialised(seed, 15)


@pytest.mark.slow
@settings(max_examples=150)
@draw(seed=st.integers(0, 2**32 - 1), every_dtype=st.booleans())
def test_values_of_many_graphs_that_are_computed_again(seed: int, every_dtype: bool) -> None:
    check_rematerialised(seed, 30, every_dtype)


@settings(max_examples=6, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_threads_share_a_random_plan(seed: int) -> None:
    pool, targets, _ = grown(seed, 25)
    plan = Plan(pool.leaves, targets, CPU)
    feeds = [values_of(pool) for _ in range(4)]
    wanted = [bits(interpret(targets, own, CPU, {})) for own in feeds]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(5):
            if bits(plan.run(feeds[k])) != wanted[k]:
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(len(feeds))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@settings(max_examples=10, derandomize=True)
@draw(seed=st.integers(0, 2**32 - 1))
def test_launches_one_by_one_give_the_same(seed: int) -> None:
    """What a profile runs, waves cut into launches, is the plan."""
    pool, targets, _ = grown(seed, 20)
    plan = Plan(pool.leaves, targets, CPU)
    feeds = values_of(pool)
    first = bits(plan.run(feeds))
    plan.profile(feeds, repeats=1)
    assert bits(plan.run(feeds)) == first
    assert plan.verify(feeds)
