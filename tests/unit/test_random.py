"""Random tensors: one stream for one seed, the right distributions."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from engine import Generator, Tensor, float64, manual_seed, rand, randn
from engine.random import GeneratorState


def test_each_call_is_the_next_one_whatever_its_shape() -> None:
    one, other = Generator(5), Generator(5)
    first = one.bits(3)
    other.bits(100, 2)
    assert one.bits(4).tolist() == other.bits(2, 2).flatten().tolist()
    one.state = GeneratorState(5, 0)
    assert one.bits(3).tolist() == first.tolist()
    assert one.state == GeneratorState(5, 1)


def test_seeds_are_checked() -> None:
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match="from 0 up to"):
            Generator(seed)
    assert Generator(2**64 - 1).bits(2).tolist() != Generator(2**32 - 1).bits(2).tolist()


def test_the_published_words_of_philox() -> None:
    """Philox 4x32-10 of an all-zero key and counter begins so (Random123's known answers)."""
    assert Generator(0).bits(4).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("wide", [False, True])
def test_moments(wide: bool) -> None:
    options = {"dtype": float64} if wide else {}
    uniform = np.asarray(Generator(1).uniform(200_000, low=-1.0, high=3.0, **options))
    assert uniform.min() >= -1.0 and uniform.max() < 3.0
    assert uniform.mean() == pytest.approx(1.0, abs=0.01)
    assert uniform.std() == pytest.approx(4 / np.sqrt(12), abs=0.01)
    normal = np.asarray(Generator(2).normal(200_000, mean=2.0, std=0.5, **options))
    assert normal.mean() == pytest.approx(2.0, abs=0.005)
    assert normal.std() == pytest.approx(0.5, abs=0.005)
    assert ((normal - 2.0) ** 4).mean() == pytest.approx(3 * 0.5**4, rel=0.05)


def test_integers_cover_their_range_evenly() -> None:
    drawn = Generator(3).integers(-2, 3, (50_000,))
    counts = np.bincount(np.array(drawn) + 2)
    assert len(counts) == 5
    assert abs(counts / 10_000 - 1).max() < 0.05
    with pytest.raises(ValueError, match=r"from 3 below 3: there must be from 1 to 2\*\*31"):
        Generator(0).integers(3, 3, (1,))


def test_the_default_generator_starts_anew_with_its_seed() -> None:
    manual_seed(11)
    first = (rand(2, 3).tolist(), randn(4).tolist())
    manual_seed(11)
    assert (rand(2, 3).tolist(), randn(4).tolist()) == first
    assert isinstance(rand(0), Tensor)


def test_a_copy_goes_on_alike_and_apart() -> None:
    generator, fresh = Generator(7), Generator(7)
    assert generator.bits(3).tolist() == fresh.bits(3).tolist()
    copied = deepcopy(generator)
    expected = fresh.bits(5).tolist()
    assert copied.bits(5).tolist() == expected
    assert generator.bits(5).tolist() == expected
