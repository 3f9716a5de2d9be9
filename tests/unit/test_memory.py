"""Arena offsets: what is in use at one time shares no bytes, unless one takes over from the other."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compiler.memory import ALIGNMENT, Block, Takeover, overlapping, place


def block(nbytes: int, first: int, last: int) -> Block:
    return Block(nbytes, first=first, last=last)


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 12), st.integers(0, 6)), max_size=40))
def test_blocks_in_use_together_lie_apart(rows: list[tuple[int, int, int]]) -> None:
    blocks = [block(nbytes, first, first + length) for nbytes, first, length in rows]
    end = place(blocks, [], 128)
    assert not [pair for pair in overlapping(blocks, []) if pair[0].nbytes and pair[1].nbytes]
    assert all(own.offset % ALIGNMENT == 0 and own.offset + own.nbytes <= end for own in blocks if own.nbytes)
    assert all(own.offset >= 128 for own in blocks if own.nbytes)


@given(st.lists(st.integers(1, 4000), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_an_heir_lies_where_its_former_lay(sizes: list[int], random: object) -> None:
    """A chain in which each buffer is read only by the launch that writes the next."""
    largest = max(sizes)
    chain = [block(largest - k, k, k + 1) for k in range(len(sizes))]
    takeovers = [Takeover(a, b) for a, b in pairwise(chain)]
    end = place(chain, takeovers)
    assert {own.offset for own in chain} == {0}
    assert end == -(-largest // ALIGNMENT) * ALIGNMENT
    assert not overlapping(chain, takeovers)


def test_without_takeovers_a_chain_takes_turns_in_two_places() -> None:
    chain = [block(640, k, k + 1) for k in range(10)]
    assert place(chain, []) == 2 * 640


def test_a_buffer_that_is_read_later_is_not_taken_over() -> None:
    former, heir = block(640, 0, 5), block(640, 1, 2)
    place([former, heir], [Takeover(former, heir)])
    assert former.offset != heir.offset


def test_only_one_heir_takes_a_place() -> None:
    former, one, two = block(64, 0, 1), block(64, 1, 2), block(64, 1, 2)
    takeovers = [Takeover(former, one), Takeover(former, two)]
    place([former, one, two], takeovers)
    assert one.offset != two.offset


def test_an_heir_must_fit() -> None:
    former, heir = block(64, 0, 1), block(640, 1, 2)
    place([former, heir], [Takeover(former, heir)])
    assert former.offset != heir.offset


@pytest.mark.parametrize(("count", "most"), [(8, 8 * 64)])
def test_gaps_are_filled(count: int, most: int) -> None:
    """Short buffers fit beside a long one where earlier ones have ended."""
    long = block(64 * (count - 1), 0, 20)
    short = [block(64, k, k) for k in range(20)]
    assert place([long, *short], []) == most
