"""Black-Scholes-Merton: European options, and the lognormal pieces that other formulas are made of.

Sources: F. Black and M. Scholes, J. Political Economy 81 (1973); R. Merton, Bell J. Economics 4 (1973);
F. Black, J. Financial Economics 3 (1976). Rates, yields and volatility may be piecewise: only their integrals
enter. Cash dividends are escrowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log, sqrt

from engine.pricing.analytic.method import Method
from engine.pricing.numerics.normal import cdf, density
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Digital, European, Gap, Quanto


def forward(spec: Spec, asset: int = 0) -> float:
    """The forward price of an asset at expiry; dividends in cash are taken off the first asset's spot."""
    spot = spec.market.spots[asset]
    if spec.market.dividends:
        spot = spec.market.escrowed(spec.expiry)
    return spot * exp(spec.market.carry(asset, 0.0, spec.expiry))


def deviation(spec: Spec, asset: int = 0) -> float:
    """The standard deviation of the log return to expiry."""
    return sqrt(spec.market.variance(asset, 0.0, spec.expiry))


def distances(mean: float, strike: float, s: float) -> tuple[float, float]:
    """d1 and d2 of Black's formula, for mean > 0, strike > 0 and s > 0."""
    ratio = mean / strike
    d2 = (log(ratio) if 0.0 < ratio < inf else log(mean) - log(strike)) / s - 0.5 * s
    return d2 + s, d2


def black(kind: str, mean: float, strike: float, s: float) -> float:
    """The undiscounted value of max(X - strike, 0) (put: max(strike - X, 0)).

    X is lognormal with the given mean and log deviation ``s``; mean, strike and s may be 0.
    """
    sign = 1.0 if kind == "call" else -1.0
    if mean <= 0.0 or strike <= 0.0 or s <= 0.0:
        return max(sign * (mean - strike), 0.0)
    d1, d2 = distances(mean, strike, s)
    return sign * (mean * cdf(sign * d1) - strike * cdf(sign * d2))


def european(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, European)
    value = black(product.type, forward(spec), product.strike, deviation(spec))
    return spec.market.discount(spec.expiry) * value


def european_greeks(spec: Spec) -> Mapping[str, float]:
    """Merton's Greeks; none where a curve bends, cash dividends are paid, or the law is degenerate."""
    product, market, time = spec.product, spec.market, spec.expiry
    assert isinstance(product, European)
    constant = market.rate.is_constant and market.yields[0].is_constant and market.vols[0].is_constant
    s = deviation(spec)
    if not constant or market.dividends or s <= 0.0 or product.strike <= 0.0 or spec.spot <= 0.0:
        return {}
    sign = 1.0 if product.type == "call" else -1.0
    spot, rate, dividend, vol = (
        spec.spot,
        market.rate.at(0.0),
        market.yields[0].at(0.0),
        market.vols[0].at(0.0),
    )
    d1, d2 = distances(forward(spec), product.strike, s)
    held = spot * exp(-dividend * time)
    owed = product.strike * market.discount(time)
    vega = held * density(d1) * sqrt(time)
    in_held, in_owed = sign * held * cdf(sign * d1), sign * owed * cdf(sign * d2)
    return {
        "delta": in_held / spot,
        "gamma": vega / (spot * spot * s * sqrt(time)),
        "vega": vega,
        "theta": -0.5 * vega * vol / time + dividend * in_held - rate * in_owed,
        "rho": time * in_owed,
        "div_rho": -time * in_held,
        "vanna": -vega * d2 / (spot * s),
        "volga": vega * d1 * d2 / vol,
    }


def digital(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Digital)
    mean = forward(spec)
    value = in_the_money(product.type, mean, product.strike, deviation(spec), product.pays == "asset")
    return spec.market.discount(spec.expiry) * product.payout * value


def in_the_money(kind: str, mean: float, strike: float, s: float, asset: bool) -> float:
    """P(X > strike) (put: X < strike), or the mean of X there if ``asset``, for a lognormal X."""
    sign = 1.0 if kind == "call" else -1.0
    amount = mean if asset else 1.0
    if mean <= 0.0 or strike <= 0.0 or s <= 0.0:
        return amount if sign * (mean - strike) > 0.0 else 0.0
    d1, d2 = distances(mean, strike, s)
    return amount * cdf(sign * (d1 if asset else d2))


def digital_payoff(product: Digital, mean: float, chance: float, held: float) -> float:
    """What one unit pays on average, from P(S > strike) and the means of S there and everywhere."""
    if product.pays == "asset":
        return held if product.type == "call" else mean - held
    return chance if product.type == "call" else 1.0 - chance


def gap(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Gap)
    sign = 1.0 if product.type == "call" else -1.0
    mean, s = forward(spec), deviation(spec)
    held = in_the_money(product.type, mean, product.trigger, s, True)
    chance = in_the_money(product.type, mean, product.trigger, s, False)
    return spec.market.discount(spec.expiry) * sign * (held - product.strike * chance)


def quanto(spec: Spec) -> float:
    product, market, time = spec.product, spec.market, spec.expiry
    assert isinstance(product, Quanto)
    drift = product.foreign_rate * time - market.yields[0].integral(0.0, time)
    drift -= product.fx_correlation * product.fx_vol * market.vols[0].integral(0.0, time)
    mean = spec.spot * exp(drift)
    return product.fx * market.discount(time) * black(product.type, mean, product.strike, deviation(spec))


_BINARY = "Rubinstein, Reiner (1991): Unscrambling the binary code"

METHODS = (
    Method(
        European,
        BlackScholes,
        "closed form",
        "Black, Scholes (1973), Merton (1973)",
        european,
        greeks=european_greeks,
    ),
    Method(
        Digital,
        BlackScholes,
        "closed form",
        "Rubinstein, Reiner (1991): Unscrambling the binary code",
        digital,
    ),
    Method(Gap, BlackScholes, "closed form", "Rubinstein, Reiner (1991): Unscrambling the binary code", gap),
    Method(Quanto, BlackScholes, "closed form", "Reiner (1992): Quanto mechanics", quanto),
)
