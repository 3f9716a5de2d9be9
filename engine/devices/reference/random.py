"""Philox 4x32-10: four random words from a counter of four words and a key of two.

Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
"""

from __future__ import annotations

MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and √3 - 1: what a round adds to the key
ROUNDS = 10


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        left, right = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = right >> 32 ^ c1 ^ k0, right & MASK, left >> 32 ^ c3 ^ k1, left & MASK
        k0, k1 = k0 + WEYL[0] & MASK, k1 + WEYL[1] & MASK
    return c0, c1, c2, c3


def random_words(key: tuple[int, int], ordinal: int, turn: int, count: int) -> list[int]:
    """``count`` words of call ``ordinal`` in a loop's ``turn``: word i is word i mod 4 of block i div 4."""
    words: list[int] = []
    for block in range(-(-count // 4)):
        words.extend(philox((block & MASK, block >> 32, ordinal, turn), key))
    return words[:count]
