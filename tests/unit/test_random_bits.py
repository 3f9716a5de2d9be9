"""Random bits: the published answers of Philox, and the same words however a stream is cut."""

from __future__ import annotations

import functools
from typing import Any

import cffi
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_build import build_library
from native_math import VARIANTS

MASK = 2**32 - 1
Stream = tuple[int, int, int, int]  # two words of key, ordinal, turn
TEXT = """
#include "random.h"
void words(uint32_t *out, int64_t first, int64_t n, const uint32_t *key, uint32_t ordinal, uint32_t turn) {
    random_words(out, first, n, key, ordinal, turn);
}
"""


@functools.cache
def library(variant: str) -> tuple[cffi.FFI, Any]:
    build, extra = VARIANTS[variant]
    ffi = cffi.FFI()
    ffi.cdef("void words(void *out, int64_t first, int64_t n, void *key, uint32_t ordinal, uint32_t turn);")
    return ffi, ffi.dlopen(str(build_library(TEXT, build, *extra)))


@pytest.fixture(params=list(VARIANTS))
def variant(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    library(name)  # skips where the compiler is missing
    return name


def words(variant: str, first: int, count: int, stream: Stream) -> list[int]:
    """Words from C, with guards around them that must survive."""
    ffi, functions = library(variant)
    *key, ordinal, turn = stream
    out = np.full(count + 2, 77, np.uint32)
    at = ffi.from_buffer(out[1:])
    functions.words(at, first, count, ffi.from_buffer(np.array(key, np.uint32)), ordinal, turn)
    assert out[0] == out[-1] == 77
    return [int(word) for word in out[1:-1]]


def philox(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """Ten rounds of Philox 4x32, as the paper's figure 2 and table 2 have them."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k, q & MASK, (p >> 32) ^ d ^ m, p & MASK
        k, m = (k + 0x9E3779B9) & MASK, (m + 0xBB67AE85) & MASK
    return a, b, c, d


def test_the_first_block_is_the_published_answer(variant: str) -> None:
    assert words(variant, 0, 4, (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_the_plain_definition_gives_the_published_answers() -> None:
    assert philox((MASK,) * 4, (MASK, MASK)) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    digits_of_pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    answer = (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
    assert philox(digits_of_pi, (0xA4093822, 0x299F31D0)) == answer


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.one_of(st.integers(0, 300), st.integers(4 * 2**32 - 200, 4 * 2**32 + 10), st.integers(0, 2**62)),
    count=st.integers(0, 200),
    stream=st.tuples(*[st.integers(0, MASK)] * 4),
)
def test_any_stretch_of_a_stream_is_words_of_its_blocks(
    variant: str, first: int, count: int, stream: Stream
) -> None:
    expected = []
    for i in range(first, first + count):
        counter = (i // 4 & MASK, i // 4 >> 32, *stream[2:])
        expected.append(philox(counter, stream[:2])[i % 4])
    assert words(variant, first, count, stream) == expected


def test_bits_are_fair_and_streams_differ(variant: str) -> None:
    count = 1 << 14
    stream = np.array(words(variant, 0, count, (1, 2, 0, 0)), np.uint32)
    ones = np.unpackbits(stream.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(32 * count)
    for other in (words(variant, 0, count, (1, 2, 1, 0)), words(variant, 0, count, (1, 2, 0, 1))):
        assert abs((stream == np.array(other)).mean()) < 1e-3
