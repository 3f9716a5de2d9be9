"""What is known of the market today: spots, rates, yields, volatilities, correlation, dividends."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Annotated, NamedTuple

from engine.pricing.numerics.symmetric import Matrix, eigen
from engine.pricing.spec.curve import Curve, product_integral
from engine.pricing.spec.fields import (
    Context,
    Part,
    SpecError,
    curve,
    listing,
    number,
    per_asset,
    rate,
    read_fields,
    require_mapping,
)

HIGHEST_VOL = 100.0
ZERO = Curve((), (0.0,))
_PSD_SLACK = 1e-10
_LARGEST_GROWTH = 100.0
_LARGEST_VARIANCE = 1e4


class Dividend(NamedTuple):
    """``amount`` in cash at ``time``."""

    time: float
    amount: float


def _dividends(value: object, path: str, context: Context) -> tuple[Dividend, ...]:
    pairs = listing(listing(number(), 2, 2))(value, path, context)
    for i, (time, amount) in enumerate(pairs):
        if time <= 0.0:
            raise SpecError(f"{path}[{i}][0]", time, "must be a time after today")
        if amount < 0.0:
            raise SpecError(f"{path}[{i}][1]", amount, "must be at least 0")
    return tuple(sorted((Dividend(time, amount) for time, amount in pairs), key=lambda paid: paid.time))


def _correlation(value: object, path: str, context: Context) -> Matrix:
    n = context.assets
    if isinstance(value, int | float) and n == 2:
        rho = number(-1.0, 1.0)(value, path, context)
        return ((1.0, rho), (rho, 1.0))
    rows: Matrix = listing(listing(number(-1.0, 1.0), n, n), n, n)(value, path, context)
    for i in range(n):
        if rows[i][i] != 1.0:
            raise SpecError(f"{path}[{i}][{i}]", rows[i][i], "must be 1")
        for j in range(i):
            if rows[i][j] != rows[j][i]:
                raise SpecError(
                    f"{path}[{i}][{j}]", rows[i][j], f"must equal its mirror [{j}][{i}], {rows[j][i]:g}"
                )
    least = min(eigen(rows)[0])
    if least < -_PSD_SLACK * n:
        rule = f"must be positive semi-definite; its smallest eigenvalue is {least:.6g}"
        raise SpecError(path, [list(row) for row in rows], rule)
    return rows


@dataclass(frozen=True, slots=True)
class Market:
    """Today's market for the assets of a contract.

    Cash dividends are escrowed: the spot less the present value of those up to T is what the model moves.
    """

    spots: Annotated[tuple[float, ...], Part(per_asset(number(0.0)), "spot of each asset", "S")]
    rate: Annotated[Curve, Part(rate, "continuous rate", "r")] = ZERO
    yields: Annotated[tuple[Curve, ...], Part(per_asset(rate), "continuous yield of each asset", "q")] = ()
    vols: Annotated[
        tuple[Curve, ...], Part(per_asset(curve(0.0, HIGHEST_VOL)), "volatility of each asset", "vol")
    ] = ()
    correlation: Annotated[
        Matrix, Part(_correlation, "correlation matrix, or one number for two assets", "corr")
    ] = ()
    dividends: Annotated[tuple[Dividend, ...], Part(_dividends, "cash dividends [[t, amount], …]")] = ()

    @property
    def assets(self) -> int:
        return len(self.spots)

    def discount(self, time: float) -> float:
        """Today's value of 1 paid at ``time``."""
        return exp(-self.rate.integral(0.0, time))

    def carry(self, asset: int, start: float, end: float) -> float:
        """The integral of r - q: the log growth of the forward."""
        return self.rate.integral(start, end) - self.yields[asset].integral(start, end)

    def variance(self, asset: int, start: float, end: float) -> float:
        """The variance of the log return from ``start`` to ``end`` under the market's volatility."""
        return self.vols[asset].integral_of_square(start, end)

    def covariance(self, i: int, j: int, start: float, end: float) -> float:
        """The covariance of two log returns."""
        return self.correlation[i][j] * product_integral(self.vols[i], self.vols[j], start, end)

    def pays(self, after: float, until: float) -> bool:
        """Whether cash dividends are paid after one time, up to another."""
        return any(after < paid.time <= until and paid.amount > 0.0 for paid in self.dividends)

    def escrowed(self, expiry: float) -> float:
        """The first asset's spot less the present value of cash dividends up to ``expiry``."""
        paid = (d.amount * self.discount(d.time) for d in self.dividends if d.time <= expiry)
        return self.spots[0] - sum(paid)


def _require_moderate(market: Market, expiry: float) -> None:
    """SpecError where rates or volatility over the life lead to numbers beyond those of a double."""
    totals = [("r", market.rate.integral(0.0, expiry))]
    totals += [("q", dividend.integral(0.0, expiry)) for dividend in market.yields]
    for name, total in totals:
        if abs(total) > _LARGEST_GROWTH:
            raise SpecError(
                name, total, f"must lie within -{_LARGEST_GROWTH:g} and {_LARGEST_GROWTH:g} over T"
            )
    for vol in market.vols:
        variance = vol.integral_of_square(0.0, expiry)
        if variance > _LARGEST_VARIANCE:
            raise SpecError("vol", variance, f"must have a square of at most {_LARGEST_VARIANCE:g} over T")


def read_market(values: object, context: Context) -> Market:
    """The market part of a request. Missing yields are 0; several assets need ``corr``."""
    market = read_fields(Market, require_mapping(values, ""), "", context)
    n = context.assets
    if n > 1 and not market.correlation:
        raise SpecError("corr", None, "must be given for several assets")
    if n > 1 and market.dividends:
        raise SpecError("dividends", len(market.dividends), "must be empty for several assets")
    identity = tuple(tuple(float(i == j) for j in range(n)) for i in range(n))
    market = Market(
        market.spots,
        market.rate,
        market.yields or (ZERO,) * n,
        market.vols,
        market.correlation or identity,
        market.dividends,
    )
    _require_moderate(market, context.expiry)
    if market.dividends and market.escrowed(context.expiry) < 0.0:
        rule = f"must leave a spot of at least 0; S less their value is {market.escrowed(context.expiry):.6g}"
        raise SpecError("dividends", [[d.time, d.amount] for d in market.dividends], rule)
    return market
