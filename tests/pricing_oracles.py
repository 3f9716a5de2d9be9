"""Prices in sixty digits, by formulas and integrals of their own, and random contracts at extremes.

An oracle takes a request and gives the price and the most that such a contract can be worth, which is what
errors are measured by.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import mpmath
from mpmath import exp, log, mp, mpf, ncdf, npdf, sqrt

mp.dps = 60
Request = dict[str, Any]
INF = mpmath.inf


class Law:
    """The numbers of a request in many digits; lists have one item for each asset."""

    def __init__(self, request: Request) -> None:
        def each(name: str) -> list[Any]:
            value = request.get(name, 0.0)
            return [mpf(x) for x in value] if isinstance(value, list) else [mpf(value)]

        self.request, self.type = request, request.get("type")
        self.spots, self.vols, self.yields = each("S"), each("vol"), each("q")
        self.time, self.rate = mpf(request["T"]), mpf(request["r"])
        self.strike = mpf(request["K"]) if "K" in request else None
        self.discount = exp(-self.rate * self.time)
        self.spot, self.vol = self.spots[0], self.vols[0]
        self.forwards = [
            s * exp((self.rate - q) * self.time) for s, q in zip(self.spots, self.yields, strict=True)
        ]
        self.deviations = [v * sqrt(self.time) for v in self.vols]
        self.forward, self.s = self.forwards[0], self.deviations[0]
        self.variance = self.s**2
        self.drift = (self.rate - self.yields[0]) * self.time - self.variance / 2

    def most(self, forward: Any = None) -> Any:
        """The discounted forward for a call, the discounted strike for a put."""
        return self.discount * ((forward or self.forward) if self.type == "call" else self.strike)


def black(kind: str, mean: Any, strike: Any, s: Any) -> Any:
    if min(mean, strike, s) <= 0:
        return max((mean - strike) * (1 if kind == "call" else -1), mpf(0))
    d = log(mean / strike) / s + s / 2
    if kind == "call":
        return mean * ncdf(d) - strike * ncdf(d - s)
    return strike * ncdf(s - d) - mean * ncdf(-d)


def beyond(kind: str, mean: Any, strike: Any, s: Any, asset: bool) -> Any:
    d = log(mean / strike) / s + (s if asset else -s) / 2
    return (mean if asset else 1) * ncdf(d if kind == "call" else -d)


def european(law: Law) -> tuple[Any, Any]:
    return law.discount * black(law.type, law.forward, law.strike, law.s), law.most()


def digital(law: Law) -> tuple[Any, Any]:
    asset = law.request["pays"] == "asset"
    value = law.discount * beyond(law.type, law.forward, law.strike, law.s, asset)
    return value, law.discount * (law.forward if asset else 1)


def exchange(law: Law) -> tuple[Any, Any]:
    (s1, s2), rho = law.deviations, mpf(law.request["corr"])
    s = sqrt(max(s1**2 + s2**2 - 2 * rho * s1 * s2, mpf(0)))
    return law.discount * black("call", *law.forwards, s), law.discount * law.forward


def displaced(law: Law) -> tuple[Any, Any]:
    shift = mpf(law.request["model"]["params"]["shift"])
    value = law.discount * black(law.type, law.forward + shift, law.strike + shift, law.s)
    return value, law.most() + law.discount * abs(shift)


def chooser(law: Law) -> tuple[Any, Any]:
    early = law.vol * sqrt(mpf(law.request["t_choose"]))
    value = black("call", law.forward, law.strike, law.s) + black("put", law.forward, law.strike, early)
    return law.discount * value, law.discount * (law.forward + law.strike)


def hit(distance: Any, drift: Any, variance: Any) -> Any:
    """P that a motion reaches a level, by reflection."""
    if distance < 0:
        distance, drift = -distance, -drift
    s = sqrt(variance)
    return ncdf((drift - distance) / s) + exp(2 * drift * distance / variance) * ncdf((-distance - drift) / s)


def touch(law: Law) -> tuple[Any, Any]:
    distance = log(mpf(law.request["level"]) / law.spot)
    most = max(law.discount, mpf(1))
    if distance == 0 or (distance > 0) != (law.request["direction"] == "up"):
        return (mpf(1) if law.request["timing"] == "hit" else law.discount), most
    if law.request["timing"] == "expiry":
        return law.discount * hit(distance, law.drift, law.variance), most
    drift = law.drift if distance > 0 else -law.drift
    root = sqrt(mpmath.mpc(drift**2 + 2 * law.rate * law.time * law.variance))

    def part(sign: int) -> Any:
        tail = mpmath.erfc((sign * root + abs(distance)) / law.s / sqrt(mpf(2))) / 2
        return exp((drift + sign * root) * abs(distance) / law.variance) * tail

    return mpmath.re(part(1) + part(-1)), most


def between(law: Law, levels: tuple[Any, Any], ends: tuple[Any, Any], tilt: int) -> Any:
    """The mean of exp(tilt x) over paths that stay between ``levels`` and end between ``ends``, by images."""
    lower, upper = levels
    low, high = max(ends[0], lower), min(ends[1], upper)
    if low >= high:
        return mpf(0)
    starts = [(1, mpf(0))]
    if mpmath.isinf(lower) != mpmath.isinf(upper):
        starts.append((-1, 2 * (upper if mpmath.isinf(lower) else lower)))
    elif not mpmath.isinf(lower):
        wide = upper - lower
        last = 2 + int(20 * law.s / (2 * wide))
        starts = [(1, 2 * wide * n) for n in range(-last, last + 1)]
        starts += [(-1, 2 * upper - start) for _, start in starts]
    total = mpf(0)
    for sign, start in starts:
        scale = law.drift * start / law.variance + tilt * (start + law.drift + law.variance / 2)
        scaled = [(x - start - law.drift - tilt * law.variance) / law.s for x in (low, high)]
        x, y = (-scaled[1], -scaled[0]) if scaled[0] > 0 else scaled
        total += sign * exp(scale) * ((ncdf(y) if y != INF else 1) - (ncdf(x) if x != -INF else 0))
    return total


def _out(law: Law, lower: Any, upper: Any) -> Any:
    at = log(law.strike / law.spot)
    ends = (at, INF) if law.type == "call" else (-INF, at)
    held, owed = (between(law, (lower, upper), ends, tilt) for tilt in (1, 0))
    return law.discount * (law.spot * held - law.strike * owed) * (1 if law.type == "call" else -1)


def barrier(law: Law) -> tuple[Any, Any]:
    terms = law.request["barrier"]
    up, out = terms["type"].startswith("up"), terms["type"].endswith("out")
    distance = log(mpf(terms["level"]) / law.spot)
    plain, most = european(law)
    if (distance <= 0) if up else (distance >= 0):
        return (mpf(0) if out else plain), most
    value = _out(law, -INF if up else distance, distance if up else INF)
    return (value if out else plain - value), most


def double_barrier(law: Law) -> tuple[Any, Any]:
    terms = law.request["barrier"]
    value = _out(law, log(mpf(terms["lower"]) / law.spot), log(mpf(terms["upper"]) / law.spot))
    return (value if terms["type"] == "out" else european(law)[0] - value), european(law)[1]


def lookback(law: Law) -> tuple[Any, Any]:
    """Goldman, Sosin, Gatto and Conze, Viswanathan: with the division by r - q, in enough digits for it."""
    fixed = law.strike is not None
    of_maximum = (law.type == "call") == fixed
    pick = max if of_maximum else min
    known = pick(law.spot, mpf(law.request.get("extreme", law.spot)))
    level = pick(known, law.strike) if fixed else known
    extreme = level + (1 if of_maximum else -1) * law.spot * _passed(law, log(level / law.spot), of_maximum)
    value = abs(extreme - (law.strike if fixed else law.forward))
    most = extreme if of_maximum else law.strike if fixed else law.forward
    return law.discount * value, law.discount * most


def _passed(law: Law, level: Any, of_maximum: bool) -> Any:
    """By how much the maximum passes exp(level), on average, in spots; or the minimum."""
    sign, s = (1 if of_maximum else -1), law.s
    growth = law.drift + law.variance / 2
    growth = growth if abs(growth) > mpf(10) ** -28 else mpf(10) ** -28
    drift, power = growth - law.variance / 2, 2 * growth / law.variance
    direct = exp(growth) * ncdf(sign * (growth + law.variance / 2 - level) / s)
    direct -= exp(level) * ncdf(sign * (drift - level) / s)
    mirrored = exp(growth) * ncdf(sign * (drift + law.variance - level) / s)
    mirrored -= exp(power * level) * ncdf(-sign * (drift + level) / s)
    return sign * (direct + mirrored / power)


def _over_first(law: Law, value: Callable[[Any, Any, Any], Any]) -> Any:
    """The mean of value(S1, mean of S2, deviation of S2) over the first asset, on panels about its kinks."""
    (f1, f2), (s1, s2), rho = law.forwards, law.deviations, mpf(law.request["corr"])
    rest = s2 * sqrt(max(1 - rho**2, mpf(0)))
    last = 10 + max(s1, s2)
    cuts = [last * k / 24 for k in range(-24, 25)]

    def at(z: Any) -> Any:
        first, second = f1 * exp(s1 * z - s1**2 / 2), f2 * exp(rho * s2 * z - (rho * s2) ** 2 / 2)
        return npdf(z) * value(first, second, rest)

    slope = s1 - rho * s2
    kinks = [(log(f2 / f1) + (s1**2 - (rho * s2) ** 2) / 2) / slope] if slope else []
    kinks += [(log(law.strike / f1) + s1**2 / 2) / s1]
    kinks += [(log(law.strike / f2) + (rho * s2) ** 2 / 2) / (rho * s2)] if rho else []
    for kink in (k for k in kinks if abs(k) < last):
        cuts += [kink, *(kink + sign * mpf(10) ** -k for sign in (-1, 1) for k in range(9))]
    return mpmath.quad(at, sorted({c for c in cuts if abs(c) <= last}), maxdegree=3)


def extreme_of_two(law: Law) -> tuple[Any, Any]:
    strike, kind, best = law.strike, law.type, law.request["instrument"] == "best_of"

    def value(first: Any, second: Any, rest: Any) -> Any:
        def option(level: Any) -> Any:
            return black(kind, second, level, rest)

        inside = first > strike if kind == "call" else first < strike
        if best == (kind == "call"):  # what the first asset pays, and what the second adds to it
            return abs(first - strike) + option(first) if inside else option(strike)
        return option(strike) - option(first) if inside else mpf(0)

    pick = sum if best else min
    return law.discount * _over_first(law, value), law.most(pick(law.forwards))


ORACLES: dict[str, Callable[[Law], tuple[Any, Any]]] = {
    "european": european,
    "digital": digital,
    "exchange": exchange,
    "displaced": displaced,
    "chooser": chooser,
    "touch": touch,
    "barrier": barrier,
    "double_barrier": double_barrier,
    "lookback": lookback,
    "best_of": extreme_of_two,
    "worst_of": extreme_of_two,
}
JUMPING = ("digital", "touch", "barrier", "double_barrier")
"""Contracts whose price is as steep at a level as the spot moves little: the rounding of the spot shows."""


def random_request(rng: random.Random, name: str) -> Request:
    """A contract ``name`` on spots of 1e-12 to 1e12, rates of up to 5000 %, volatilities of 1e-8 to 10."""
    several = 2 if name in ("exchange", "best_of", "worst_of") else 1
    market = _market(rng, several)
    spot, s = market["S"], market["vol"]
    spot, s = (spot[0], s[0]) if several == 2 else (spot, s)
    s *= math.sqrt(market["T"])
    drift = (market["r"] - (market["q"][0] if several == 2 else market["q"])) * market["T"]

    def near() -> float:
        """A level to which the spot may come, or any."""
        if rng.random() < 0.2:
            return 10 ** rng.uniform(-12, 12)
        reach = drift * rng.random() ** 0.3 + rng.gauss(0, 2) * s
        return min(max(spot * math.exp(max(min(reach, 200), -200)), 1e-12), 1e12)

    always = {"kind": "continuous"}
    request = {**market, "instrument": name, "type": rng.choice(["call", "put"]), "K": near()}
    if name == "digital":
        request["pays"] = rng.choice(["cash", "asset"])
    elif name == "chooser":
        request["t_choose"] = market["T"] * rng.random()
        del request["type"]
    elif name == "displaced":
        request |= {"instrument": "european", "model": {"name": name, "params": {"shift": near()}}}
    elif name == "touch":
        request |= {
            "level": near(),
            "direction": rng.choice(["up", "down"]),
            "payout": 1,
            "monitoring": always,
        }
        request["timing"] = rng.choice(["hit", "expiry"])
        del request["type"], request["K"]
    elif name == "barrier":
        kind = rng.choice(["up-out", "up-in", "down-out", "down-in"])
        request |= {"barrier": {"level": near(), "type": kind}, "monitoring": always}
    elif name == "double_barrier":
        wide, part = s * 10 ** rng.uniform(-0.5, 1), rng.uniform(0.05, 0.95)
        lower, upper = spot * math.exp(-min(wide * part, 99)), spot * math.exp(min(wide * (1 - part), 99))
        upper = min(max(upper, lower * (1.0 + 1e-12)), 1e15)
        terms = {"lower": lower, "upper": upper, "type": rng.choice(["out", "in"])}
        request |= {"barrier": terms, "monitoring": always}
    elif name == "lookback":
        request |= {"monitoring": always} | ({"extreme": near()} if rng.random() < 0.4 else {})
        if rng.random() < 0.5:
            del request["K"]
    elif name == "exchange":
        del request["type"], request["K"]
    return request


def _market(rng: random.Random, assets: int) -> Request:
    time = 10 ** (rng.uniform(-9, 2) if rng.random() < 0.6 else rng.uniform(-2, 1.3))

    def rate() -> float:
        if rng.random() < 0.6:
            return rng.choice([0.0, rng.uniform(-0.1, 0.15)])
        return rng.choice([-1, 1]) * min(50.0, 90.0 / time, 10 ** rng.uniform(-6, 1.7))

    def vol() -> float:
        return min(
            10 ** (rng.uniform(-8, 1) if rng.random() < 0.5 else rng.uniform(-1.5, 0.3)), 50 / math.sqrt(time)
        )

    market = {"T": time, "r": rate(), "allow_extreme": True}
    if assets == 1:
        return market | {"S": 10 ** rng.uniform(-12, 12), "q": rate(), "vol": vol()}
    rho = rng.choice([0.0, rng.uniform(-0.99, 0.99), 1 - 10 ** rng.uniform(-6, -1)])
    market |= {"q": [rate(), rate()], "vol": [vol(), vol()], "corr": rho}
    first = 10 ** rng.uniform(-12, 12)
    reach = (market["q"][1] - market["q"][0]) * time + rng.gauss(0, 1) * max(market["vol"]) * math.sqrt(time)
    return market | {"S": [first, min(max(first * math.exp(max(min(reach, 99), -99)), 1e-12), 1e12)]}
