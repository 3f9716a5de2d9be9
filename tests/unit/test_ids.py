"""Identifiers: form, order, uniqueness."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ids import ALPHABET, is_id, new_id


def number(identifier: str) -> int:
    value = 0
    for digit in identifier.partition("_")[2]:
        value = value * 32 + ALPHABET.index(digit)
    return value


def test_an_id_is_a_version_7_uuid_with_the_time_in_front() -> None:
    before = time.time_ns() // 1_000_000
    value = number(new_id("job"))
    after = time.time_ns() // 1_000_000
    assert before <= value >> 80 <= after
    assert value >> 76 & 15 == 7
    assert value >> 62 & 3 == 2


def test_ids_made_later_sort_later() -> None:
    made = []
    for _ in range(50):
        made.append(new_id("job"))
        waited = time.time_ns()
        while time.time_ns() - waited < 5_000:
            pass
    assert made == sorted(made)


def test_ids_differ() -> None:
    assert len({new_id("x") for _ in range(10_000)}) == 10_000


def test_the_alphabet_sorts_as_its_numbers_do() -> None:
    assert list(ALPHABET) == sorted(ALPHABET)
    assert len(set(ALPHABET)) == 32


@pytest.mark.parametrize("prefix", ["job", "model", "file"])
def test_own_ids_are_recognised(prefix: str) -> None:
    assert is_id(new_id(prefix), prefix)
    assert not is_id(new_id(prefix), "other")


@given(st.text(max_size=40))
def test_other_texts_are_not(text: str) -> None:
    assert not is_id(text, "job")


@pytest.mark.parametrize("change", ["upper", "shorter", "longer", "newline", "beyond"])
def test_near_misses_are_not(change: str) -> None:
    good = new_id("job")
    bad = {
        "upper": good.upper(),
        "shorter": good[:-1],
        "longer": good + "0",
        "newline": good + "\n",
        "beyond": "job_z" + good[5:],  # more than 128 bits
    }[change]
    assert not is_id(bad, "job")
