"""Exact prices at the ends of what a request may hold, against formulas in sixty digits; American options
under rates that bend or are negative, against trees; what is refused there, and Greeks that are null."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pricing_requests import CONTINUOUS, answer, value

from engine.pricing import price
from engine.pricing.analytic import exact, free_boundary
from engine.pricing.analytic.exact import known
from engine.pricing.analytic.free_boundary import Put
from engine.pricing.analytic.method import UnknownError
from engine.pricing.deterministic import value as certain_value
from engine.pricing.numerics.normal import cdf
from engine.pricing.spec import Curve, SpecError, read_spec

NAMES = (
    "european",
    "digital",
    "exchange",
    "displaced",
    "chooser",
    "touch",
    "barrier",
    "double_barrier",
    "lookback",
    "best_of",
    "worst_of",
)


def _missed(name: str, seed: int, count: int) -> list[tuple[float, dict[str, Any]]]:
    """The requests whose price is off by more than 1e-10 of what they can be worth, or below 0."""
    pytest.importorskip("mpmath")
    from pricing_oracles import JUMPING, ORACLES, Law, random_request

    rng, missed = random.Random(seed), []
    for _ in range(count):
        request = random_request(rng, name)
        found = exact(read_spec(request), ())
        if found is None:
            continue
        law = Law(request)
        expected, most = ORACLES[name](law)
        slack = 1e-10 + (2e-15 / float(min(law.deviations)) if name in JUMPING else 0.0)
        error = abs(found.value - expected) / most if most > 1e-300 else 0.0
        if not math.isfinite(found.value) or found.value < 0.0 or error > slack:
            missed.append((float(error), request))
    return missed


@pytest.mark.parametrize("name", NAMES)
def test_prices_are_right_at_extremes(name: str) -> None:
    assert not _missed(name, 11, 2 if name in ("best_of", "worst_of") else 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_prices_are_right_at_extremes_sweep(name: str) -> None:
    assert not _missed(name, 12, 40 if name in ("best_of", "worst_of") else 1500)


# ---- American options


def _curve(*values: float) -> Curve:
    return Curve((0.25, 0.6), values) if len(values) == 3 else Curve((), values)


def _qdfp(contract: Put) -> float:
    """QuantLib's price by its integral equation, of a put of whole days under constant rates."""
    ql = pytest.importorskip("QuantLib")
    today, days = ql.Date(2, 1, 2024), ql.Actual365Fixed()
    ql.Settings.instance().evaluationDate = today
    rate, dividend = (
        ql.YieldTermStructureHandle(ql.FlatForward(today, curve.at(0.0), days))
        for curve in (contract.rate, contract.dividend)
    )
    vol = ql.BlackConstantVol(today, ql.NullCalendar(), contract.vol.at(0.0), days)
    spot = ql.QuoteHandle(ql.SimpleQuote(contract.spot))
    process = ql.BlackScholesMertonProcess(spot, dividend, rate, ql.BlackVolTermStructureHandle(vol))
    exercise = ql.AmericanExercise(today, today + round(365 * contract.expiry))
    option = ql.VanillaOption(ql.PlainVanillaPayoff(ql.Option.Put, contract.strike), exercise)
    option.setPricingEngine(ql.QdFpAmericanEngine(process, ql.QdFpAmericanEngine.highPrecisionScheme()))
    return float(option.NPV())


def _tree(contract: Put, steps: int) -> float:
    """A tree of the Brownian motion under constant volatility: one step by Black, then means of two."""
    dt = contract.expiry / steps
    h = contract.vol.at(0.0) * math.sqrt(dt)

    def discounted(time: float, y: Any) -> tuple[float, Any]:
        discount = math.exp(-contract.rate.integral(0.0, time))
        growth = contract.carry(0.0, time) - 0.5 * contract.variance(0.0, time)
        return discount * contract.strike, discount * contract.spot * np.exp(growth + y)

    y = h * np.arange(1 - steps, steps, 2.0)
    owed, held = discounted(contract.expiry, y)
    held *= math.exp(0.5 * h * h)
    d = (np.log(held / owed) / h + 0.5 * h).tolist()
    values = owed * np.array([cdf(h - x) for x in d]) - held * np.array([cdf(-x) for x in d])
    for k in range(steps - 1, -1, -1):
        if k < steps - 1:
            values, y = 0.5 * (values[1:] + values[:-1]), y[1:] - h
        owed, held = discounted(k * dt, y)
        values = np.maximum(values, owed - held)
    return float(values[0])


def _limit_of_trees(contract: Put) -> float:
    return 2.0 * _tree(contract, 4000) - _tree(contract, 2000)


@pytest.mark.parametrize(
    ("spot", "rate", "dividend", "vol"),
    [(100, 0.05, 0.0, 0.2), (85, 0.05, 0.0, 0.2), (110, 0.02, 0.08, 0.5), (100, 0.1, 0.1, 1.5)],
)
def test_finite_differences_agree_with_an_integral_equation(
    spot: float, rate: float, dividend: float, vol: float
) -> None:
    contract = Put(spot, 100.0, 1.0, _curve(rate), _curve(dividend), _curve(vol))
    expected = _qdfp(contract)
    scale = max(expected, 100.0 * min(vol, 1.0))
    assert free_boundary.put(contract) == pytest.approx(expected, abs=1e-6 * scale)


@pytest.mark.parametrize(
    ("rates", "yields"),
    [
        ((0.08, 0.01, 0.05), (0.0,)),
        ((0.01, 0.06, -0.03), (0.02,)),
        ((0.05,), (0.09, -0.04, 0.02)),
        ((-0.02, 0.07, 0.04), (-0.05, 0.06, 0.0)),
    ],
)
def test_rates_that_bend_agree_with_a_tree(rates: tuple[float, ...], yields: tuple[float, ...]) -> None:
    contract = Put(95.0, 100.0, 1.0, _curve(*rates), _curve(*yields), _curve(0.25))
    assert free_boundary.put(contract) == pytest.approx(_limit_of_trees(contract), abs=1e-4)


@pytest.mark.parametrize(("rate", "dividend", "vol"), [(-0.01, -0.04, 0.1), (-0.03, -0.045, 0.25)])
def test_two_boundaries_agree_with_a_tree(rate: float, dividend: float, vol: float) -> None:
    """A put with yield < rate < 0 is exercised in between two levels (Battauz, De Donno, Sbuelz 2015)."""
    contract = Put(97.0, 100.0, 2.0, _curve(rate), _curve(dividend), _curve(vol))
    found = free_boundary.put(contract)
    assert found == pytest.approx(_limit_of_trees(contract), abs=1e-4)
    assert found > value("european", type="put", S=97, T=2, r=rate, q=dividend, vol=vol) + 1e-3


def test_pieces_that_are_equal_are_none() -> None:
    """Out of the money, and in it."""
    for spot in (110, 88):
        halves = {"until": [0.5], "values": [0.05, 0.05]}
        steps, whole = (value("american", type="put", S=spot, r=r) for r in (halves, 0.05))
        assert steps == pytest.approx(whole, abs=2e-6 * 100)


def test_a_call_is_a_put_whose_rates_change_places() -> None:
    rate, dividend = {"until": [0.3], "values": [0.06, -0.01]}, {"until": [0.7], "values": [0.02, 0.05]}
    call = value("american", type="call", S=95, K=105, r=rate, q=dividend)
    put = value("american", type="put", S=105, K=95, r=dividend, q=rate)
    assert call == pytest.approx(put, rel=1e-13)


def test_many_dates_come_up_to_any_time() -> None:
    """Dates at which both curves are looked at, and at which an option is worth less than at any time."""
    terms = {"type": "put", "S": 104, "r": {"until": [0.5], "values": [0.07, 0.02]}, "q": 0.01}
    few, many = (value("bermudan", exercise={"n": n}, **terms) for n in (32, 64))
    found = value("american", **terms)
    assert few < many < found
    assert found == pytest.approx(2.0 * many - few, abs=2e-3)


def test_a_bermudan_put_on_what_rises_faster_than_cash_is_stopped() -> None:
    """Without interest, a spot that rises is worth stopping before: at 2 dates, the first."""
    terms = {"S": 80, "K": 170, "T": 4, "r": 0, "q": -0.05, "vol": 0.01}
    found = value("bermudan", type="put", exercise={"n": 2}, **terms)
    assert found == pytest.approx(170 - 80 * math.exp(0.1), abs=1e-6)
    calm = read_spec({"instrument": "bermudan", "type": "put", "exercise": {"n": 2}, **terms, "vol": 0})
    assert found == pytest.approx(certain_value(calm), abs=1e-6)


def test_dates_between_which_cash_gains_and_loses_have_no_recursion() -> None:
    """There exercise may be best between two levels, which the recursion over one doesn't see."""
    terms = {"S": 90, "K": 100, "T": 1, "vol": 0.2, "r": {"until": [0.5], "values": [0.05, -0.08]}}
    request = {"instrument": "bermudan", "type": "put", "exercise": {"n": 8}, **terms}
    assert exact(read_spec(request), ()) is None


def test_grids_that_do_not_agree_give_no_price_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of few points do not: the layer beside the boundary is thinner than their intervals."""
    monkeypatch.setattr(free_boundary, "_LEVELS", ((40, 10), (80, 20), (160, 40)))
    terms = {"S": 100, "K": 100, "T": 1, "r": {"until": [0.5], "values": [0.5, 0.4]}, "vol": 0.05}
    spec = read_spec({"instrument": "american", "type": "put", **terms})
    with pytest.raises(UnknownError, match="do not settle"):
        known(spec, ())
    assert exact(spec, ()) is None
    with pytest.raises(SpecError, match="do not settle"):
        price(replace(spec, method="closed_form"))


# ---- other extremes


@pytest.mark.parametrize("vol", [0.2, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("type_", ["call", "put"])
def test_a_level_that_is_never_reached_at_dates_is_none(vol: float, type_: str) -> None:
    out = {"level": 1e-45, "type": "down-out"}
    dates = {"kind": "discrete", "n": 2}
    found = value("barrier", type=type_, vol=vol, T=2, barrier=out, monitoring=dates)
    assert found == pytest.approx(value("european", type=type_, vol=vol, T=2), rel=1e-9)


def test_a_basket_with_a_third_asset_of_nothing_is_one_of_two() -> None:
    """One that moves little along the direction of the basket, and much across."""
    pair = {"S": [100, 80], "T": 1, "r": 0.03, "vol": [0.5, 0.3], "corr": -0.25, "weights": [0.5, 0.6]}
    corr = [[1, -0.25, 0], [-0.25, 1, 0], [0, 0, 1]]
    three = pair | {"S": [100, 80, 1e-9], "vol": [0.5, 0.3, 0.01], "corr": corr, "weights": [0.5, 0.6, 1e-9]}
    for type_, strike in (("call", 100), ("put", 100), ("put", 60)):
        requests = ({"instrument": "basket", "type": type_, "K": strike, **more} for more in (pair, three))
        first, second = (exact(read_spec(request), ()) for request in requests)
        assert first is not None and second is not None
        assert first.value == pytest.approx(second.value, abs=2e-7)


def test_heston_keeps_its_skew_in_short_lives() -> None:
    """The implied variance at log strike k is about v0 + rho xi k / 2 in short lives (Lewis 2000, ch. 6)."""
    v0, xi, rho, time = 0.04, 1.0, -0.7, 1e-6
    s = math.sqrt(v0 * time)
    model = {"name": "heston", "params": {"v0": v0, "kappa": 1.0, "theta": v0, "xi": xi, "rho": rho}}
    request = {"instrument": "european", "type": "call", "S": 1, "T": time, "r": 0}
    for k in (-s, s):
        found = exact(read_spec(request | {"K": math.exp(k), "model": model}), ())
        vol = math.sqrt(v0) * (1.0 + 0.25 * rho * xi * k / v0)
        expected = exact(read_spec(request | {"K": math.exp(k), "vol": vol}), ())
        assert found is not None and expected is not None
        plain = exact(read_spec(request | {"K": math.exp(k), "vol": math.sqrt(v0)}), ())
        assert plain is not None
        assert found.value - plain.value == pytest.approx(expected.value - plain.value, rel=5e-3)


def test_greeks_in_the_rounding_of_prices_are_null() -> None:
    terms = {"S": 3e5, "K": 3e5, "T": 1e-9, "r": 0, "vol": 1e-7, "monitoring": CONTINUOUS}
    found = answer("lookback", ("gamma", "volga"), type="call", **terms).greeks
    for name in ("gamma", "volga"):
        assert found[name].value is None
        assert "rounding" in found[name].method


def test_a_rate_moves_by_a_part_of_what_the_spot_does() -> None:
    """A step of the rate once took the forward past the strike of an option that hardly moves."""
    terms = {"type": "put", "S": 100.0, "K": 99.9995, "T": 0.3, "r": 0.0}
    halves = {"until": [0.15], "values": [3e-5, 3e-5]}
    formula = answer("european", ("rho", "theta"), vol=3e-5, **terms).greeks
    found = answer("european", ("rho", "theta"), vol=halves, **terms).greeks
    for name in ("rho", "theta"):
        assert found[name].value == pytest.approx(formula[name].value, rel=1e-4)
