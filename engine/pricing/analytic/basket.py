"""Arithmetic baskets: the direction in which the basket moves most in closed form, the rest by quadrature.

Given the factors across that direction the basket is an increasing sum of exponentials of one normal, so the
option is a sum of Black's terms beyond one root. Across, the value is smooth and few Gauss-Hermite nodes do
(J. Choi, Sum of all Black-Scholes-Merton models, J. Futures Markets 38, 2018).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product as cartesian
from math import exp, inf, log, prod, sqrt
from typing import TypeAlias

from engine.pricing.analytic.black import black, forward
from engine.pricing.analytic.geometric import weights_of
from engine.pricing.analytic.method import Method, UnknownError
from engine.pricing.analytic.multi import option_on_sum
from engine.pricing.numerics.normal import cdf
from engine.pricing.numerics.quadrature import hermite
from engine.pricing.numerics.symmetric import eigen
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Basket

_MOST_NODES = 60_000
_MOST_OF_ONE = 120
_MORE = 1.25
_CLOSE = 1e-10
"""How much, of the basket, the values with fewer and with more nodes may differ by."""
_LARGEST_VARIANCE = 200.0
_TINY = 1e-12
_FARTHEST = 40.0


def serves_few(spec: Spec) -> bool:
    """One asset, or two of which not both have a negative weight."""
    product = spec.product
    assert isinstance(product, Basket)
    if product.mean != "arithmetic" or spec.market.assets > 2 or spec.market.dividends:
        return False
    return max(weights_of(spec)) > 0.0


def few(spec: Spec) -> float:
    product, market = spec.product, spec.market
    assert isinstance(product, Basket)
    weights = weights_of(spec)
    mean = sum(w * forward(spec, i) for i, w in enumerate(weights))
    if market.assets == 1:
        value = black(product.type, mean, product.strike, sqrt(market.variance(0, 0.0, spec.expiry)))
    else:
        order = (0, 1) if weights[0] > 0.0 else (1, 0)
        pair = weights[order[0]], weights[order[1]]
        value = option_on_sum(spec, product.type, pair, product.strike, order)
    return market.discount(spec.expiry) * value


def serves_many(spec: Spec) -> bool:
    """Weights of at least 0 on assets none of which falls when the basket rises, and not too many nodes."""
    product = spec.product
    assert isinstance(product, Basket)
    if product.mean != "arithmetic" or spec.market.dividends or min(spec.market.spots) <= 0.0:
        return False
    if min(weights_of(spec)) < 0.0 or max(weights_of(spec)) == 0.0 or product.strike <= 0.0:
        return False
    factors = _Factors(spec)
    moderate = factors.total > 0.0 and max(factors.variances) <= _LARGEST_VARIANCE
    return moderate and min(factors.along) >= 0.0 and factors.are_few(_MORE)


class _Factors:
    """The log returns as ``along`` times one normal plus columns of ``across`` times others."""

    def __init__(self, spec: Spec) -> None:
        market, end = spec.market, spec.expiry
        n = market.assets
        covariance = [[market.covariance(i, j, 0.0, end) for j in range(n)] for i in range(n)]
        self.means = [w * forward(spec, i) for i, w in enumerate(weights_of(spec))]
        mean = sum(self.means)
        shares = [m / mean for m in self.means]
        moved = [sum(row[j] * shares[j] for j in range(n)) for row in covariance]
        self.total = sqrt(max(sum(m * s for m, s in zip(moved, shares, strict=True)), 0.0))
        self.along = [m / self.total if self.total > 0.0 else 0.0 for m in moved]
        rest = tuple(
            tuple(covariance[i][j] - self.along[i] * self.along[j] for j in range(n)) for i in range(n)
        )
        values, vectors = eigen(rest)
        self.across = [
            [sqrt(value) * vectors[i][k] for i in range(n)]
            for k, value in enumerate(values)
            if value > _TINY * self.total**2
        ]
        self.variances = [covariance[i][i] for i in range(n)]

    def counts(self, more: float) -> list[int]:
        """Nodes of each factor across: more for those that move the basket more."""
        return [int(more * (6 + int(14.0 * min(1.5, max(map(abs, column)))))) for column in self.across]

    def are_few(self, more: float) -> bool:
        """Whether so many nodes can be summed over."""
        counts = self.counts(more)
        return prod(counts) <= _MOST_NODES and max(counts, default=0) <= _MOST_OF_ONE

    def points(self, more: float) -> Iterator[tuple[float, list[float]]]:
        """(weight, a_i) such that the basket is sum_i a_i exp(along_i z), over the nodes across."""
        base = [m * exp(-0.5 * v) for m, v in zip(self.means, self.variances, strict=True)]
        for nodes in cartesian(*(hermite(count) for count in self.counts(more))):
            weight = prod(w for _, w in nodes)
            if weight < 1e-20:
                continue
            yield (
                weight,
                [
                    b * exp(sum(column[i] * z for column, (z, _) in zip(self.across, nodes, strict=True)))
                    for i, b in enumerate(base)
                ],
            )


def _root(a: list[float], along: list[float], strike: float, guess: float) -> float:
    """Where sum_i a_i exp(along_i z) = strike, by Newton's method on the logarithm; within 40 deviations."""
    z = guess
    for _ in range(60):
        parts = [x * exp(b * z) for x, b in zip(a, along, strict=True)]
        total = sum(parts)
        slope = sum(b * part for b, part in zip(along, parts, strict=True)) / total
        step = log(total / strike) / slope if slope > 0.0 else inf
        z = max(min(z - step, _FARTHEST), -_FARTHEST)
        if abs(step) < 1e-12 * (1.0 + abs(z)) or (abs(z) == _FARTHEST and step * z < 0.0):
            break
    return z


_Terms: TypeAlias = tuple[float, list[float], list[float]]


def _terms(spec: Spec) -> _Terms:
    """The chance of a basket above the strike, the assets' means there, and their means.

    From the first number of nodes that a quarter more agrees with. UnknownError where none does: the value
    across bends as sharply as the basket moves little along.
    """
    factors = _Factors(spec)
    more = 1.0
    found = _summed(spec, factors, more)
    while factors.are_few(more * _MORE):
        more *= _MORE
        finer = _summed(spec, factors, more)
        if abs(_call(spec, finer) - _call(spec, found)) <= _CLOSE * sum(factors.means):
            return found
        found = finer
    raise UnknownError("the assets spread too far for nodes across the direction of the basket")


def _summed(spec: Spec, factors: _Factors, more: float) -> _Terms:
    product = spec.product
    assert isinstance(product, Basket)
    chance, held = 0.0, [0.0] * len(factors.means)
    z = 0.0
    for weight, a in factors.points(more):
        z = _root(a, factors.along, product.strike, z)
        chance += weight * cdf(-z)
        for i, b in enumerate(factors.along):
            held[i] += weight * a[i] * exp(0.5 * b * b) * cdf(b - z)
    return chance, held, factors.means


def _call(spec: Spec, terms: _Terms) -> float:
    product = spec.product
    assert isinstance(product, Basket)
    chance, held, _ = terms
    return sum(held) - product.strike * chance


def many(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Basket)
    terms = _terms(spec)
    call = _call(spec, terms)
    value = call if product.type == "call" else call - sum(terms[2]) + product.strike
    return spec.market.discount(spec.expiry) * max(value, 0.0)


def deltas(spec: Spec) -> Mapping[str, float]:
    """An asset's delta is its discounted mean beyond the strike, for each unit of its spot."""
    product = spec.product
    assert isinstance(product, Basket)
    _, held, means = _terms(spec)
    discount = spec.market.discount(spec.expiry)
    paid = [h if product.type == "call" else h - m for h, m in zip(held, means, strict=True)]
    return {f"delta{i + 1}": discount * p / spec.market.spots[i] for i, p in enumerate(paid)}


_PEARSON = "Pearson (1995): one integral over Black's formula"
_SOURCE = "Choi (2018): Sum of all Black-Scholes-Merton models"

METHODS = (
    Method(
        Basket,
        BlackScholes,
        "quadrature",
        "Pearson (1995): one integral over Black's formula",
        few,
        serves_few,
    ),
    Method(Basket, BlackScholes, "quadrature", _SOURCE, many, serves_many, deltas, step=0.01, rounding=1e-10),
)
