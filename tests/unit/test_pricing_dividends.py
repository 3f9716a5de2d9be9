"""Cash dividends in contracts on a path: what is watched is what moves and the value of dividends to come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest

from engine.pricing import price
from engine.pricing.result import Result
from engine.pricing.spec import SpecError, read_spec

PAID = [[0.15, 2.0], [0.5, 4.0], [1.0, 3.0], [1.2, 9.0]]
MARKET: dict[str, Any] = {"S": 100.0, "T": 1.0, "r": 0.05, "q": 0.01, "vol": 0.25, "dividends": PAID}
OPTION: dict[str, Any] = {**MARKET, "type": "call", "K": 95}
GREEKS = ("delta", "vega", "theta", "rho", "div_rho")
TIMES = [0.25, 1.0]
AT_TIMES = {"kind": "discrete", "times": TIMES}
H = 0.25  # the first of the two dates


def priced(request: dict[str, Any], *greeks: str, **mc: Any) -> Result:
    settings = {"paths": 60_000, "seed": 21, **mc}
    found = price(read_spec({**request, "greeks": list(greeks), "method": "monte_carlo", "mc": settings}))
    assert isinstance(found, Result)
    return found


def check(found: Result, value: float, greeks: dict[str, float] | None = None, slack: float = 0.0) -> None:
    assert abs(found.price - value) <= 3.5 * found.se + slack + 1e-9, (found.price, value, found.se)
    for name, expected in (greeks or {}).items():
        own = found.greeks[name]
        assert own.value is not None, name
        assert abs(own.value - expected) <= 3.5 * own.se + 1e-6 * abs(expected), (name, own, expected)


# ---- a European option seen through contracts on a path

WRAPPED: dict[str, dict[str, Any]] = {
    "a mean of one fixing": {
        **OPTION,
        "instrument": "asian",
        "averaging": {"kind": "arithmetic", "times": [1.0]},
    },
    "a level far away": {
        **OPTION,
        "instrument": "barrier",
        "barrier": {"level": 1e6, "type": "up-out"},
        "monitoring": {"kind": "discrete", "n": 6},
    },
    "an extreme of one date": {
        **OPTION,
        "instrument": "lookback",
        "monitoring": {"kind": "discrete", "times": [1.0]},
    },
    "an expression": {
        **MARKET,
        "instrument": "custom",
        "payoff": "max(last(S) - K, 0)",
        "constants": {"K": 95},
        "monitoring": {"kind": "discrete", "n": 3},
    },
    "one exercise": {**OPTION, "instrument": "bermudan", "exercise": {"times": [1.0]}},
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_european_option_in_another_guise_has_its_price_and_greeks(name: str) -> None:
    greeks = ("delta", "theta", "rho")
    plain = price(read_spec({**OPTION, "instrument": "european", "greeks": list(greeks)}))
    assert isinstance(plain, Result) and plain.se == 0.0
    known = {greek: plain.greeks[greek].value or 0.0 for greek in greeks}
    check(priced(WRAPPED[name], *greeks), plain.price, known)


# ---- two dates, by quadrature

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
REACH = 8.0
Pays = Callable[[float, float, np.ndarray], np.ndarray]
"""Of today's spot, that at the first date, and those at expiry."""


class World:
    """A market of constant numbers with dividends, as integrals see it; ``later`` moves all dates away."""

    def __init__(
        self, spot: float = 100.0, vol: float = 0.25, r: float = 0.05, q: float = 0.01, later: float = 0.0
    ) -> None:
        self.spot, self.vol, self.r, self.q = spot, vol, r, q
        self.first, self.end = H + later, 1.0 + later
        self.paid = [(t + later, amount) for t, amount in PAID if t <= 1.0]
        self.moving = spot - self.to_come(0.0)

    def to_come(self, time: float) -> float:
        return sum(amount * exp(-self.r * (t - time)) for t, amount in self.paid if t > time + 1e-12)

    def after(self, x: Any, span: float, z: Any) -> Any:
        drift = self.r - self.q - 0.5 * self.vol**2
        return x * np.exp(drift * span + self.vol * sqrt(span) * z)

    def places(self, x: float, span: float, levels: Sequence[float]) -> list[float]:
        """The normals at which what moves reaches levels."""
        drift = (self.r - self.q - 0.5 * self.vol**2) * span
        found = [(log(level / x) - drift) / (self.vol * sqrt(span)) for level in levels if level > 0.0]
        return sorted(z for z in found if -REACH < z < REACH)

    def value(self, pays: Pays, first: Sequence[float], last: Callable[[float], Sequence[float]]) -> float:
        """The mean of what is paid, by panels between levels: ``first`` of the asset, then ``last``."""
        span, total = self.end - self.first, 0.0
        paid = self.to_come(self.first)
        for z, weight in _panels(self.places(self.moving, self.first, [level - paid for level in first])):
            x = float(self.after(self.moving, self.first, z))
            inner = _panels(self.places(x, span, last(x + paid)))
            ends = self.after(x, span, np.array([own for own, _ in inner]))
            mean = float(pays(self.spot, x + paid, ends) @ np.array([own for _, own in inner]))
            total += weight * mean
        return total


def _panels(cuts: Sequence[float]) -> list[tuple[float, float]]:
    """Nodes of the normal law between cuts, with weights."""
    edges = [-REACH, *cuts, REACH]
    found = []
    for left, right in pairwise(edges):
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            z = middle + half * node
            found.append((z, half * weight * exp(-0.5 * z * z) / sqrt(2.0 * np.pi)))
    return found


def option(value: Any, strike: float = 95.0) -> Any:
    return np.maximum(value - strike, 0.0)


class Oracle:
    """A contract with two dates, and what it pays: ``first`` and ``last`` are where that bends or jumps."""

    def __init__(
        self,
        request: dict[str, Any],
        pays: Callable[[World], Pays],
        first: Sequence[float] = (),
        last: Callable[[float], Sequence[float]] = lambda s: (),
    ) -> None:
        self.request, self.pays, self.first, self.last = request, pays, first, last

    def value(self, **moved: float) -> float:
        world = World(**moved)
        return world.value(self.pays(world), self.first, self.last)

    def greeks(self) -> dict[str, float]:
        found = {}
        for name, field, at, h in (
            ("delta", "spot", 100.0, 0.01),
            ("vega", "vol", 0.25, 1e-4),
            ("rho", "r", 0.05, 1e-5),
            ("div_rho", "q", 0.01, 1e-5),
            ("theta", "later", 0.0, 1e-5),
        ):
            up, down = self.value(**{field: at + h}), self.value(**{field: at - h})
            found[name] = (up - down) / (2.0 * h) * (-1.0 if name == "theta" else 1.0)
        return found


def at_end(pays: Callable[[float, float, Any], Any]) -> Callable[[World], Pays]:
    """What is paid at expiry."""
    return lambda world: lambda s0, s1, s2: exp(-world.r * world.end) * pays(s0, s1, s2)


def _barrier(kind: str, level: float, **rebate: Any) -> dict[str, Any]:
    about = {"level": level, "type": kind, **rebate}
    return {**OPTION, "instrument": "barrier", "barrier": about, "monitoring": AT_TIMES}


def _hit(amount: float, level: float) -> Callable[[World], Pays]:
    """An option that ends at ``level`` or above, paying an amount then."""

    def pays(world: World) -> Pays:
        at_first, at_last = (exp(-world.r * time) for time in (world.first, world.end))
        return lambda s0, s1, s2: (
            np.full_like(s2, at_first * amount)
            if s1 >= level
            else at_last * np.where(s2 >= level, amount, option(s2))
        )

    return pays


def _called(world: World) -> Pays:
    first, end = (exp(-world.r * time) for time in (world.first, world.end))
    return lambda s0, s1, s2: (
        np.full_like(s2, first * 103.0)
        if s1 >= 104.0
        else end * np.where(s2 >= 104.0, 106.0, np.where(s2 >= 85.0, 100.0, s2))
    )


CLIQUET = {**MARKET, "instrument": "cliquet", "resets": {"times": TIMES}, "floor": -0.1, "cap": 0.15}
NOTE = {
    **MARKET,
    "instrument": "autocallable",
    "observations": {"times": TIMES},
    "call_level": 104,
    "coupon": 0.03,
    "protection": 85,
    "reference": 100,
    "notional": 100,
}
ORACLES = {
    "arithmetic mean": Oracle(
        {**OPTION, "instrument": "asian", "averaging": {"kind": "arithmetic", "times": TIMES}},
        at_end(lambda s0, s1, s2: option(0.5 * (s1 + s2))),
        last=lambda s1: (190.0 - s1,),
    ),
    "geometric mean with today": Oracle(
        {
            **OPTION,
            "instrument": "asian",
            "averaging": {"kind": "geometric", "times": TIMES, "include_t0": True},
        },
        at_end(lambda s0, s1, s2: option((s0 * s1 * s2) ** (1.0 / 3.0))),
        last=lambda s1: (95.0**3 / (100.0 * s1),),
    ),
    "largest": Oracle(
        {**OPTION, "instrument": "lookback", "monitoring": AT_TIMES},
        at_end(lambda s0, s1, s2: option(np.maximum(s1, s2))),
        first=(95.0,),
        last=lambda s1: (max(s1, 95.0),),
    ),
    "squared returns": Oracle(
        {**MARKET, "instrument": "variance_swap", "monitoring": AT_TIMES, "notional": 100},
        lambda world: (
            lambda s0, s1, s2: (
                exp(-world.r * world.end) * 100.0 * (log(s1 / s0) ** 2 + np.log(s2 / s1) ** 2) / world.end
            )
        ),
    ),
    "returns between bounds": Oracle(
        CLIQUET,
        at_end(lambda s0, s1, s2: np.clip(s1 / s0 - 1, -0.1, 0.15) + np.clip(s2 / s1 - 1, -0.1, 0.15)),
        first=(90.0, 115.0),
        last=lambda s1: (0.9 * s1, 1.15 * s1),
    ),
    "strike set on the way": Oracle(
        {**MARKET, "instrument": "forward_start", "type": "call", "alpha": 1.0, "t_start": H},
        at_end(lambda s0, s1, s2: np.maximum(s2 - s1, 0.0)),
        last=lambda s1: (s1,),
    ),
    "knocked out": Oracle(
        _barrier("up-out", 120, rebate=3), _hit(3.0, 120.0), first=(120.0,), last=lambda s1: (95.0, 120.0)
    ),
    "knocked in": Oracle(
        _barrier("up-in", 120),
        at_end(lambda s0, s1, s2: option(s2) if s1 >= 120.0 else np.where(s2 >= 120.0, option(s2), 0.0)),
        first=(120.0,),
        last=lambda s1: (95.0, 120.0),
    ),
    "called": Oracle(NOTE, _called, first=(104.0,), last=lambda s1: (85.0, 104.0)),
    "an expression": Oracle(
        {**MARKET, "instrument": "custom", "payoff": "max(first(S), 90) - min(S)", "monitoring": AT_TIMES},
        at_end(lambda s0, s1, s2: max(s1, 90.0) - np.minimum(s1, s2)),
        first=(90.0,),
        last=lambda s1: (s1,),
    ),
}


@pytest.mark.parametrize("name", ORACLES)
def test_contracts_with_two_dates_have_the_price_of_quadrature(name: str) -> None:
    check(priced(ORACLES[name].request), ORACLES[name].value())


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_greeks_follow_the_value_of_dividends_to_come(name: str) -> None:
    """The rate and time move it, and with it what moves today."""
    oracle = ORACLES[name]
    check(priced(oracle.request, *GREEKS, paths=200_000), oracle.value(), oracle.greeks())


def test_the_geometric_mean_of_what_moves_controls_the_arithmetic_one() -> None:
    """The arithmetic mean is that of what moves and the mean of what dividends to come are worth."""
    oracle = ORACLES["arithmetic mean"]
    controlled, plain = (priced(oracle.request, "vega", control_variate=how) for how in ("auto", "none"))
    assert controlled.se * 15 < plain.se and controlled.greeks["vega"].se * 8 < plain.greeks["vega"].se
    check(controlled, oracle.value(), {"vega": oracle.greeks()["vega"]})
    deep = priced({**oracle.request, "K": 1.0})  # less than the dividends are worth: no control
    assert deep.price == pytest.approx(
        exp(-0.05) * 0.5 * (plain_forward(H) + plain_forward(1.0) - 2.0), abs=4 * deep.se
    )


def plain_forward(time: float) -> float:
    world = World()
    return world.moving * exp(0.04 * time) + world.to_come(time)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["knocked out", "called"])
def test_likelihood_ratios_follow_it_as_well(name: str) -> None:
    oracle = ORACLES[name]
    found = priced(oracle.request, *GREEKS, paths=200_000, smoothing="none")
    known = oracle.greeks()
    check(found, oracle.value(), {greek: value for greek, value in known.items() if greek != "rho"})
    rho = found.greeks["rho"]  # paths are held while the levels would move against them
    assert rho.value is None and "dividends to come" in rho.method


@pytest.mark.parametrize("name", ["arithmetic mean", "largest", "squared returns", "knocked in"])
def test_walks_and_arrays_have_the_same_paths(name: str) -> None:
    """Moved draws need arrays; their first half is that of a walk."""
    request = ORACLES[name].request
    pairs = priced(request, control_variate="none", antithetic=True, paths=8_192)
    walk = priced(request, control_variate="none", paths=4_096)
    check(pairs, ORACLES[name].value())
    assert abs(pairs.price - walk.price) < 3.5 * walk.se


@pytest.mark.parametrize(
    "model",
    [
        {"name": "displaced", "params": {"shift": 0.0}},
        {"name": "merton", "params": {"lam": 0.0, "mu_j": 0.0, "sigma_j": 0.1}},
    ],
)
def test_other_models_move_the_asset_less_its_dividends(model: dict[str, Any]) -> None:
    oracle = ORACLES["arithmetic mean"]
    check(
        priced({**oracle.request, "model": model}, "delta"),
        oracle.value(),
        {"delta": oracle.greeks()["delta"]},
    )


# ---- early exercise, by a lattice of what moves


def lattice(
    kind: str, strike: float, times: Sequence[float], paid: Sequence[Sequence[float]], steps: int = 2_000
) -> float:
    """A binomial lattice (Cox, Ross, Rubinstein 1979) of what moves, exercised at ``times``, after what is
    paid there; with as many times as steps also just before.
    """
    r, q, vol = 0.05, 0.01, 0.25
    dt, always = 1.0 / steps, len(times) == steps + 1
    up = exp(vol * sqrt(dt))
    chance = (exp((r - q) * dt) - 1.0 / up) / (up - 1.0 / up)
    moving = 100.0 - sum(amount * exp(-r * t) for t, amount in paid)
    dates = {round(time * steps) for time in times}
    value = np.zeros(steps + 1)
    for step in range(steps, -1, -1):
        if step < steps:
            value = exp(-r * dt) * (chance * value[1:] + (1.0 - chance) * value[:-1])
        if step in dates:
            time = step * dt
            early = 1e-9 if always and kind == "call" else -1e-9
            due = sum(amount * exp(-r * (t - time)) for t, amount in paid if t > time - early)
            s = moving * up ** (2.0 * np.arange(step + 1) - step) + due
            value = np.maximum(value, s - strike if kind == "call" else strike - s)
    return float(value[0])


@pytest.mark.parametrize(
    ("kind", "strike", "times", "paid"),
    [
        ("put", 110.0, [0.25, 0.5, 0.75, 1.0], [[0.5, 4.0]]),
        ("call", 90.0, [0.25, 0.45, 0.75, 1.0], [[0.5, 8.0], [0.8, 4.0]]),
    ],
)
def test_a_bermudan_option_sees_the_asset_after_a_dividend(
    kind: str, strike: float, times: list[float], paid: list[list[float]]
) -> None:
    """The rule is learnt, so the price is low by what it lacks: 0.3 % at most."""
    request = {**OPTION, "instrument": "bermudan", "type": kind, "K": strike, "dividends": paid}
    found = priced({**request, "exercise": {"times": times}})
    exact = 2.0 * lattice(kind, strike, times, paid) - lattice(kind, strike, times, paid, 1_000)
    assert exact - 0.003 * exact - 3.5 * found.se < found.price < exact + 3.5 * found.se + 2e-3
    held = lattice(kind, strike, [1.0], paid)
    assert found.price > held + 0.2  # exercise before expiry is worth something


def test_an_american_call_is_exercised_before_a_large_dividend() -> None:
    paid = [[0.5, 12.0]]
    request = {**OPTION, "instrument": "american", "K": 100, "dividends": paid}
    found = priced(request)
    times = [step / 1_000 for step in range(1_001)]
    exact = lattice("call", 100.0, times, paid, 1_000)
    assert 0.99 * exact - 3.5 * found.se < found.price < exact + 3.5 * found.se + 5e-3


# ---- what is certain, and what is refused


def test_certain_paths_pay_their_dividends() -> None:
    """At no volatility a call is exercised before the dividend, a put after."""
    sure = {"S": 100, "K": 90, "T": 1, "r": 0.0, "vol": 0, "dividends": [[0.5, 30]]}
    for kind, expected in (("call", 10.0), ("put", 20.0)):
        found = price(read_spec({**sure, "instrument": "american", "type": kind}))
        assert isinstance(found, Result) and found.price == pytest.approx(expected, abs=1e-12)


def test_an_asset_that_is_all_dividends_is_certain() -> None:
    gone = {**OPTION, "S": 10 * exp(-0.05 * 0.5), "dividends": [[0.5, 10]], "instrument": "asian", "K": 4}
    found = price(read_spec({**gone, "averaging": {"kind": "arithmetic", "times": [0.25, 1.0]}}))
    assert isinstance(found, Result)
    assert found.price == pytest.approx(exp(-0.05) * (5 * exp(-0.05 * 0.25) - 4), rel=1e-9)


@pytest.mark.parametrize(
    "own",
    [
        {"instrument": "barrier", "barrier": {"level": 120, "type": "up-out"}},
        {"instrument": "lookback"},
        {"instrument": "variance_swap", "type": None, "K": 0.04},
        {"instrument": "asian", "averaging": {"kind": "arithmetic", "continuous": True}},
    ],
)
def test_contracts_that_are_watched_always_are_refused(own: dict[str, Any]) -> None:
    request = {**OPTION, **own}
    if "averaging" not in own:
        request["monitoring"] = {"kind": "continuous"}
    if own.get("type", "") is None:
        del request["type"]
    with pytest.raises(SpecError, match=r"dividends.*watched always.*give dates"):
        priced(request)
    late = {**request, "dividends": [[1.5, 5.0]]}  # after expiry: nothing to see
    assert priced(late, paths=2_048).price > 0.0
