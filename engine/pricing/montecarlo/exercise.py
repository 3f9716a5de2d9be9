"""Early exercise by least squares (Longstaff and Schwartz 2001), the rule learnt on paths of its own.

Backwards from the last date, what holding on is worth is regressed on polynomials of the assets over the
paths that are in the money. The rule is then fixed: pricing paths, drawn from another stream, follow it, so
the price is that of a rule that anyone could follow and is biased low, never high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations_with_replacement
from math import ceil, sqrt
from typing import Any

from engine.core.dtype import float64
from engine.pricing.montecarlo.blocks import BLOCK
from engine.pricing.montecarlo.dividends import has_dividends, paid_on
from engine.pricing.montecarlo.draws import key_of
from engine.pricing.montecarlo.factors import draw_factors
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.models import dynamics_of, needs_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import Path, discounts
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Simulation, Spec
from engine.pricing.spec import products as p
from engine.record import Graph
from engine.tensor import Tensor, cat, stack, where

STREAM = 2
PATHS = 2**16  # from which the rule is learnt
DEGREE = 4  # of the polynomials in one asset; 3 in several
_SINGULAR = 1e-11


def exercised(path: Path, product: Any) -> Tensor:
    """What the contract pays when it is exercised by the rule, discounted, [blocks, paths]."""
    spec = path.numbers.spec
    gains = _gain(path, product)
    held = _polynomial(path, _features(path), len(grid_of(spec).contract))
    ends = (gains > held) & (gains > 0.0)
    count = ends.astype(gains.dtype)
    total = count if count.shape[1] == 1 else count.cumsum(1)
    first = where(ends & (total == 1.0), 1.0, 0.0)
    factors = discounts(path.numbers, path.shifts, "exercise", lambda own: grid_of(own).contract)
    value = (first * gains * factors).sum(1)
    if not isinstance(product, p.American):
        return value
    spot = path.number("spot today", lambda own: own.market.spots[0])
    today = _option(product, path.shifts.moved(spot, "spot"), path.number("strike", _strike))
    today = today.squeeze(1) if today.ndim == 3 else today
    at_once = path.number("exercise at once", lambda own: float(rule_of(own)[0]))
    return today * at_once + value * (1.0 - at_once)


def _strike(spec: Spec) -> float:
    return float(spec.product.strike)  # type: ignore[attr-defined]


def _option(product: Any, spots: Tensor, strike: Tensor) -> Tensor:
    is_call = isinstance(product, p.MaxCall) or product.type == "call"
    return (spots - strike if is_call else strike - spots).relu()


def _gain(path: Path, product: Any) -> Tensor:
    """What exercising would pay at each date, [blocks, dates, paths]."""
    return _option(product, _sorted(path)[0], path.number("strike", _strike))


def _sorted(path: Path) -> list[Tensor]:
    """The assets from the largest down, at each date and path; the two largest of many.

    On the date of a dividend the asset is what it is after it is paid; but at any time is also just before.
    """
    found = [path.spots(asset) for asset in range(len(path.logs))]
    product: Any = path.numbers.spec.product
    if has_dividends(path.numbers.spec) and isinstance(product, p.American) and product.type == "call":
        found[0] = found[0] + paid_on(path.numbers, "exercise", lambda spec: grid_of(spec).contract)
    for end in range(len(found) - 1, 0, -1):
        for k in range(end):
            found[k], found[k + 1] = found[k].maximum(found[k + 1]), found[k].minimum(found[k + 1])
    return found[:3]


def _features(path: Path) -> list[Tensor]:
    """Assets over the strike, less 1: numbers of order 1."""
    scale = path.number("feature scale", _scale)
    return [(x * scale - 1.0).detach() for x in _sorted(path)]


def _scale(spec: Spec) -> float:
    return 1.0 / (_strike(spec) or max(spec.market.spots) or 1.0)


def _monomials(assets: int) -> list[tuple[int, ...]]:
    """Products of features by their numbers: () is 1, (0, 0, 1) the first squared times the second."""
    kept = min(assets, 3)
    degree = DEGREE if kept == 1 else 3
    return [own for k in range(degree + 1) for own in combinations_with_replacement(range(kept), k)]


def _basis(features: Sequence[Tensor]) -> list[Tensor]:
    """All monomials but the constant."""
    found: dict[tuple[int, ...], Tensor] = {}
    for own in _monomials(len(features))[1:]:
        head = found.get(own[:-1])
        found[own] = features[own[-1]] if head is None else head * features[own[-1]]
    return list(found.values())


def _polynomial(path: Path, features: Sequence[Tensor], dates: int) -> Tensor:
    """What holding on is worth at each date, by the rule: [blocks, dates, paths]."""

    def coefficient(k: int) -> Any:
        return lambda own: [row[k] for row in rule_of(own)[1]]

    total = path.numbers.column("held 0", coefficient(0), dates) + features[0] * 0.0
    for k, x in enumerate(_basis(features), 1):
        total = total + x * path.numbers.column(f"held {k}", coefficient(k), dates)
    return total


# ---- learning the rule


def rule_of(spec: Spec) -> tuple[bool, tuple[tuple[float, ...], ...]]:
    """Whether to exercise at once, and the coefficients of each date; they depend on no number of paths."""
    settings: Simulation = spec.simulation or Simulation()
    own = Simulation(
        seed=settings.seed,
        steps=settings.steps,
        calibration_paths=settings.calibration_paths or PATHS,
        normals=settings.normals,
    )
    return _learnt(replace(spec, simulation=own, greeks=(), convergence=False, method="auto"))


@lru_cache(maxsize=32)
def _learnt(spec: Spec) -> tuple[bool, tuple[tuple[float, ...], ...]]:
    spots, gains = _calibration_paths(spec)
    times = grid_of(spec).contract
    width = len(_monomials(spec.market.assets))
    rows: list[tuple[float, ...]] = [(0.0,) * width]  # at the last date nothing is left to hold on to
    last = len(times) - 1
    value = gains[last]
    for date in range(last - 1, -1, -1):
        value = value * (spec.market.discount(times[date + 1]) / spec.market.discount(times[date]))
        features = [x[date] * _scale(spec) - 1.0 for x in spots]
        basis = [Tensor.ones(features[0].shape[0], dtype=float64), *_basis(features)]
        inside = (gains[date] > 0.0).astype(float64)
        row = _least_squares(basis, value, inside)
        rows.append(row)
        held = basis[0] * row[0]
        for x, coefficient in zip(basis[1:], row[1:], strict=True):
            held = held + x * coefficient
        value = where((gains[date] > held) & (gains[date] > 0.0), gains[date], value)
    held_now = float(value.mean()) * spec.market.discount(times[0])
    return _intrinsic(spec) >= held_now, tuple(reversed(rows))


def _intrinsic(spec: Spec) -> float:
    product: Any = spec.product
    strike, spot = _strike(spec), max(spec.market.spots)
    is_call = isinstance(product, p.MaxCall) or product.type == "call"
    return max(spot - strike if is_call else strike - spot, 0.0)


def _calibration_paths(spec: Spec) -> tuple[list[list[Tensor]], list[Tensor]]:
    """The sorted assets at each date, and what exercising would pay there: one number a path."""
    settings: Any = spec.simulation
    needs = needs_of(spec)
    group = needs.layout.group
    graph = Graph()
    with graph:
        numbers = Numbers(graph, spec, float64)
        blocks = graph.symbol("blocks")
        zero = graph.input("zero", (blocks, 1, 1), float64)
        factors = draw_factors(numbers, settings, blocks, needs)
        path = dynamics_of(spec).simulate(numbers, factors, Shifts())
        outputs = [*[x + zero for x in _sorted(path)], _gain(path, spec.product) + zero]
    plan = graph.compile(outputs)
    feeds = numbers.feeds(spec, plan.names)
    found: list[list[Tensor]] = []
    for first in range(0, ceil(settings.calibration_paths / BLOCK), group):
        count = min(group, ceil(settings.calibration_paths / BLOCK) - first)
        zeros = Tensor.zeros(count, 1, 1, dtype=float64)
        for part in range(needs.layout.parts):
            key = key_of(settings.seed, STREAM, first // group * needs.layout.parts + part)
            found.append(plan.run({**feeds, "key": key, "zero": zeros}))
    joined = [cat(list(parts), 0) for parts in zip(*found, strict=True)]
    dates = joined[0].shape[1]
    by_date = [[x[:, date].reshape(-1) for date in range(dates)] for x in joined]
    return by_date[:-1], by_date[-1]


def _least_squares(basis: Sequence[Tensor], y: Tensor, weights: Tensor) -> tuple[float, ...]:
    """The coefficients that fit y by normal equations, over what has weight; 0 for what adds nothing."""
    columns = stack([x * weights for x in basis], 0)
    gram = (columns @ columns.T).tolist()
    right = (columns @ (y * weights).reshape(-1, 1)).reshape(-1).tolist()
    return _solved(gram, right)


def _solved(matrix: list[list[float]], right: list[float]) -> tuple[float, ...]:
    """Cholesky, in which a column that depends on those before it is left out."""
    n = len(right)
    lower = [[0.0] * n for _ in range(n)]
    for j in range(n):
        pivot = matrix[j][j] - sum(lower[j][k] ** 2 for k in range(j))
        if pivot <= _SINGULAR * matrix[j][j]:
            continue
        lower[j][j] = sqrt(pivot)
        for i in range(j + 1, n):
            lower[i][j] = (matrix[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))) / lower[j][j]
    half = [0.0] * n
    for i in range(n):
        if lower[i][i]:
            half[i] = (right[i] - sum(lower[i][k] * half[k] for k in range(i))) / lower[i][i]
    result = [0.0] * n
    for i in reversed(range(n)):
        if lower[i][i]:
            result[i] = (half[i] - sum(lower[k][i] * result[k] for k in range(i + 1, n))) / lower[i][i]
    return tuple(result)
