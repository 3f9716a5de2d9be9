"""Samplers in eager, in loops and in graphs: one stream, the right distributions."""

from __future__ import annotations

from itertools import permutations
from statistics import NormalDist

import numpy as np
import pytest

from engine import Generator, Graph, Tensor, Turn, cond, float64, loop
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device, use_device
from engine.devices.reference import ReferenceDevice
from engine.normal import inverse_normal
from engine.random import GeneratorState, Sampler

needs_compiler = pytest.mark.skipif(
    not isinstance(current_device(), CpuDevice), reason="plans need a C compiler"
)


@pytest.mark.parametrize("wide", [False, True])
def test_open_numbers_are_never_on_the_border(wide: bool) -> None:
    options = {"dtype": float64} if wide else {}
    drawn = np.asarray(Generator(1).open_uniform(100_000, **options))
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)
    assert drawn.std() == pytest.approx(12**-0.5, abs=0.005)


@pytest.mark.parametrize("wide", [False, True])
def test_normals_by_the_inverse_have_their_moments(wide: bool) -> None:
    options = {"dtype": float64} if wide else {}
    normal = np.asarray(Generator(2).normal(200_000, mean=2.0, std=0.5, by="inverse", **options))
    assert normal.mean() == pytest.approx(2.0, abs=0.005)
    assert normal.std() == pytest.approx(0.5, abs=0.005)
    assert ((normal - 2.0) ** 4).mean() == pytest.approx(3 * 0.5**4, rel=0.05)


def test_the_inverse_normal_equals_the_librarys() -> None:
    places = [1e-300, 1e-16, 1e-9, 0.01, 0.074, 0.3, 0.5, 0.77, 0.93, 1 - 1e-12]
    found = inverse_normal(Tensor(places, float64)).tolist()
    for u, z in zip(places, found, strict=True):
        assert z == pytest.approx(NormalDist().inv_cdf(u), rel=1e-14, abs=1e-16)


def test_permutations_are_permutations_each_as_likely() -> None:
    generator = Generator(3)
    assert generator.permutation(0).tolist() == []
    assert sorted(generator.permutation(500).tolist()) == list(range(500))
    counts = dict.fromkeys(permutations(range(3)), 0)
    for row in loop(6000, lambda turn, _: Turn((), generator.permutation(3)), ()).stacked.tolist():
        counts[tuple(row)] += 1
    assert all(abs(count - 1000) < 130 for count in counts.values())  # 4.5 standard deviations


def draws(generator: Sampler, x: Tensor) -> list[Tensor]:
    """Every sampler, in a graph, a loop and both branches of a condition."""
    path = loop(4, lambda turn, c: Turn(c + generator.normal(*x.shape), generator.uniform(3)), x)
    chosen = cond(x.sum() > 0, lambda: generator.uniform(2), lambda: generator.uniform(2) + 1.0)
    return [
        generator.normal(*x.shape, by="inverse"),
        generator.permutation(x.shape[0]),
        generator.integers(-2, 5, (x.shape[0], 2)),
        path.carries,
        path.stacked,
        chosen,
        generator.bits(2),
    ]


@needs_compiler
def test_graphs_draw_what_eager_draws_and_leave_the_generator_behind_their_calls() -> None:
    graph = Graph()
    with graph:
        targets = draws(graph.generator("noise"), graph.input("x", ("n",)))
    plan = graph.compile(targets)
    x = Tensor([0.5, -1.0, 2.0, 0.25, 3.0])
    fed, eager = Generator(7), Generator(7)
    for _ in range(2):
        drawn = plan.run({"x": x, "noise": fed})
        assert [y.tobytes() for y in drawn] == [y.tobytes() for y in draws(eager, x)]
        assert fed.state == eager.state
    state = GeneratorState(7, 2**32 - 3)  # the ordinal wraps
    assert plan.verify({"x": x, "noise": state})
    with use_device(ReferenceDevice()):
        reference = graph.interpret(targets, {"x": x, "noise": state})
    for got, wanted in zip(plan.run({"x": x, "noise": state}), reference, strict=True):
        np.testing.assert_allclose(got.tolist(), wanted.tolist(), rtol=1e-5, atol=1e-6)
