"""Sobol points with Owen's scrambling.

Direction numbers are our own: primitive polynomials over GF(2) by rising degree, found by the order of x in
their fields, with odd starting numbers from a fixed stream. Scrambling is Owen's nested uniform one, by a
hash that flips each bit by a function of the bits above it (Laine and Karras 2011, with the constants of
Burley, Practical hash-based Owen scrambling, JCGT 9, 2020). Point 0 is kept: scrambled, it is like any other.
"""

from __future__ import annotations

from functools import lru_cache

from engine.core.dim import Dim
from engine.core.dtype import float64, int64, uint32
from engine.pricing.montecarlo.numbers import Numbers
from engine.random import derived_seed
from engine.tensor import Tensor
from engine.tensor.cell import apply

BITS = 32
_HASH = (0x6C50B47C, 0xB82F1E52, 0xC7AFE638, 0x8D22F6E6)
_STARTS = 0x50B01  # the stream of starting numbers


def sobol_uniforms(numbers: Numbers, blocks: Dim, dimensions: int, lanes: int) -> Tensor:
    """float64[blocks, dimensions, lanes] in (0, 1): each block has its replicate's scrambling.

    Inputs: ``first`` uint32[blocks, 1], the number of a block's first point; ``scramble`` uint32[blocks,
    dimensions], the seeds.
    """
    graph = numbers.graph
    first = graph.input("first point", (blocks, 1), uint32)
    scramble = graph.input("scramble", (blocks, dimensions), uint32)
    table = numbers.table(
        "directions", lambda spec: reversed_directions(dimensions), uint32, (BITS, dimensions)
    )
    lane = apply("iota", (), (blocks, lanes), 1, int64).astype(uint32)
    point = (lane + first).unsqueeze(1)
    x: Tensor | None = None
    for bit in range(BITS):
        own = ((point >> bit) & 1) * table[bit].reshape(1, dimensions, 1)
        x = own if x is None else x ^ own
    assert x is not None
    x = x + scramble.unsqueeze(2)
    for factor in _HASH:
        x = x ^ (x * factor)
    return (_reversed(x).astype(float64) + 0.5) * 2.0**-BITS


def _reversed(x: Tensor) -> Tensor:
    """The bits of each word in reverse."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        x = ((x >> shift) & mask) | ((x & mask) << shift)
    return (x >> 16) | (x << 16)


def scramble_seeds(seed: int, replicate: int, dimensions: int) -> list[int]:
    """The scrambling of each dimension of a replicate."""
    base = derived_seed(seed, 1, replicate)
    return [derived_seed(base, dimension) >> 32 for dimension in range(dimensions)]


@lru_cache(maxsize=8)
def reversed_directions(dimensions: int) -> list[int]:
    """[bit, dimension]: the direction numbers with their bits in reverse, lowest first."""
    columns = [[1 << bit for bit in range(BITS)]]
    for dimension, polynomial in enumerate(primitive_polynomials(dimensions - 1), 1):
        columns.append(_directions(polynomial, dimension))
    return [column[bit] for bit in range(BITS) for column in columns]


def _directions(polynomial: int, dimension: int) -> list[int]:
    """m_1, m_2, … of a dimension by the recurrence of its polynomial (Bratley and Fox 1988), as v_i reversed:
    bit j of v_i reversed is bit i - 1 - j of m_i.
    """
    degree = polynomial.bit_length() - 1
    m = [(derived_seed(_STARTS, dimension, i) >> 40 & ((1 << i) - 1)) << 1 | 1 for i in range(degree)]
    m = m[:BITS]
    while len(m) < BITS:
        k = len(m)
        value = m[k - degree] ^ (m[k - degree] << degree)
        for j in range(1, degree):
            if polynomial >> (degree - j) & 1:
                value ^= m[k - j] << j
        m.append(value)
    return [int(f"{value:0{i + 1}b}"[::-1], 2) for i, value in enumerate(m)]


@lru_cache(maxsize=8)
def primitive_polynomials(count: int) -> tuple[int, ...]:
    """The first ``count`` primitive polynomials over GF(2) by degree; bit k is the coefficient of x^k."""
    found: list[int] = []
    degree = 1
    while len(found) < count:
        order = (1 << degree) - 1
        tests = [order // prime for prime in _prime_factors(order)]
        for inner in range(1 << (degree - 1)):
            polynomial = 1 << degree | inner << 1 | 1
            if _power_of_x(order, polynomial) == 1 and all(_power_of_x(e, polynomial) != 1 for e in tests):
                found.append(polynomial)
                if len(found) == count:
                    break
        degree += 1
    return tuple(found)


def _power_of_x(exponent: int, modulus: int) -> int:
    result, base = 1, 2 if modulus.bit_length() > 2 else 1
    while exponent:
        if exponent & 1:
            result = _product(result, base, modulus)
        base = _product(base, base, modulus)
        exponent >>= 1
    return result


def _product(a: int, b: int, modulus: int) -> int:
    degree = modulus.bit_length() - 1
    result = 0
    while b:
        if b & 1:
            result ^= a
        b >>= 1
        a <<= 1
        if a >> degree & 1:
            a ^= modulus
    return result


def _prime_factors(n: int) -> list[int]:
    found, divisor = [], 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            found.append(divisor)
            while n % divisor == 0:
                n //= divisor
        divisor += 1
    return [*found, n] if n > 1 else found
