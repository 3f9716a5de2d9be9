"""Barriers, touches and autocallables at dates on paths that survive: prices, Greeks, and their errors."""

from __future__ import annotations

from math import exp, sqrt
from statistics import NormalDist, fmean, stdev
from typing import Any

import pytest

from engine.core.dtype import float64
from engine.pricing import price
from engine.pricing.analytic.exact import exact
from engine.pricing.cost import cost_of
from engine.pricing.montecarlo.program import program_of
from engine.pricing.montecarlo.survival import surviving
from engine.pricing.result import Result
from engine.pricing.spec import Spec, SpecError, read_spec
from engine.record import Graph
from engine.tensor import Tensor

MARKET: dict[str, Any] = {"S": 100, "T": 1, "r": 0.05, "q": 0.01, "vol": 0.2}
CALL: dict[str, Any] = {**MARKET, "instrument": "barrier", "type": "call", "K": 100}
DATES = {"kind": "discrete", "n": 12}
FIRST = ("delta", "vega", "theta", "rho", "div_rho")
SECOND = ("gamma", "vanna", "volga")
FORGE = {
    **CALL,
    "q": 0,
    "barrier": {"level": 130, "type": "up-out"},
    "monitoring": {"kind": "discrete", "n": 50},
}
BENDING = {
    "r": {"until": [0.3], "values": [0.05, 0.02]},
    "vol": {"until": [0.4, 0.7], "values": [0.2, 0.3, 0.25]},
}
"""A market that changes, with Greeks by parallel moves."""


def barrier(kind: str, level: float, option: str = "call", **rebate: Any) -> dict[str, Any]:
    return {
        **CALL,
        "type": option,
        "barrier": {"level": level, "type": kind, **rebate},
        "monitoring": DATES,
    }


def touch(level: float, direction: str, **more: Any) -> dict[str, Any]:
    about = {"instrument": "touch", "level": level, "direction": direction, "payout": 10}
    return {**MARKET, **about, "monitoring": DATES, **more}


def corridor(**more: Any) -> dict[str, Any]:
    levels = {"lower": 85, "upper": 130, **more}
    return {**CALL, "instrument": "double_barrier", "barrier": levels, "monitoring": DATES}


NOTE = {
    **MARKET,
    "instrument": "autocallable",
    "observations": {"n": 4},
    "call_level": 105,
    "coupon": 0.03,
    "protection": 80,
    "reference": 100,
    "notional": 100,
}
CONTRACTS: dict[str, dict[str, Any]] = {
    "up and out": barrier("up-out", 130),
    "up and out, a put": barrier("up-out", 120, "put"),
    "up and in": barrier("up-in", 130),
    "up and in, a rebate": barrier("up-in", 115, rebate=4),
    "down and out": {**barrier("down-out", 90), **BENDING},
    "down and out, rebate at a hit": barrier("down-out", 95, rebate=5),
    "down and out, rebate at expiry": barrier("down-out", 95, rebate=5, rebate_timing="expiry"),
    "down and in, a put": barrier("down-in", 90, "put"),
    "strike beyond the level": {**barrier("up-in", 95, "put"), "K": 105},
    "today's spot counts": {**barrier("down-out", 90), "monitoring": {**DATES, "include_t0": True}},
    "begins outside": {**barrier("up-out", 130), "S": 133},
    "some dates": {
        **barrier("up-out", 130),
        "monitoring": {"kind": "discrete", "times": [0.1, 0.35, 0.7]},
    },
    "corridor": corridor(),
    "into a corridor": {**corridor(type="in", rebate=3), **BENDING},
    "corridor, rebate at a hit": corridor(rebate=3),
    "touched above": touch(120, "up"),
    "touched below, paid at expiry": touch(85, "down", timing="expiry"),
    "not touched": touch(120, "up", touch="no"),
    "autocallable": NOTE,
    "autocallable, later expiry": {**NOTE, "observations": {"times": [0.25, 0.5, 0.8]}},
}


def spec_of(request: dict[str, Any], *greeks: str, **mc: Any) -> Spec:
    settings = {"paths": 30_000, "seed": 11, "smoothing": "conditional", **mc}
    return read_spec({**request, "greeks": list(greeks), "method": "monte_carlo", "mc": settings})


def priced(request: dict[str, Any], *greeks: str, **mc: Any) -> Result:
    found = price(spec_of(request, *greeks, **mc))
    assert isinstance(found, Result)
    return found


def misses(found: Result) -> dict[str, float]:
    """How far the price and each Greek lie from the exact ones, in standard errors."""
    known = found.closed_form
    assert known is not None
    far = {"price": (found.price - known.value) / found.se}
    for name, greek in found.greeks.items():
        value = known.greeks[name].value
        assert greek.value is not None and value is not None and greek.se > 0.0, name
        far[name] = (greek.value - value) / greek.se
    return far


# ---- normals that survive


@pytest.mark.parametrize(
    ("lower", "upper"), [(None, 0.4), (-1.3, None), (-0.7, 1.1), (3.0, None), (None, -4.0)]
)
def test_normals_are_drawn_from_the_law_between_two_levels(lower: float | None, upper: float | None) -> None:
    """Their distribution function there is that of all normals, and so are its two derivatives."""
    law = NormalDist()
    low, high = (0.0 if lower is None else law.cdf(lower)), (1.0 if upper is None else law.cdf(upper))
    z = [-3.1, -1.0, -0.2, 0.0, 0.9, 2.7]
    levels = [None if x is None else Tensor(x, float64) for x in (lower, upper)]
    chance, kept = surviving(Tensor(z, float64), *levels)
    assert float(chance) == pytest.approx(high - low, rel=1e-10)
    for own, drawn in zip(z, kept.tolist(), strict=True):
        assert law.cdf(drawn) == pytest.approx(low + law.cdf(own) * (high - low), rel=1e-9)


def test_the_normal_that_survives_has_the_derivatives_of_the_inverse_distribution() -> None:
    graph = Graph()
    with graph:
        level = graph.input("level", (), float64)
        kept = surviving(Tensor(0.3, float64), None, level)[1]
        first = graph.differentiate(kept, level)
        second = graph.differentiate(first, level)

    def values(at: float) -> list[float]:
        found = graph.interpret([kept, first, second], {"level": Tensor(at, float64)})
        return [float(x) for x in found]

    h = 1e-5
    for at in (-2.0, 0.1, 1.5):
        left, own, right = (values(at + step) for step in (-h, 0.0, h))
        assert own[1] == pytest.approx((right[0] - left[0]) / (2 * h), rel=1e-7)
        assert own[2] == pytest.approx((right[1] - left[1]) / (2 * h), rel=1e-7)


# ---- prices and Greeks


def test_forges_barrier_and_its_vega() -> None:
    """Its own flag of a breach had no derivative through the level: 0, where the answer is -25.70."""
    found = priced(FORGE, "delta", "vega", paths=100_000)
    assert found.closed_form is not None
    assert found.closed_form.value == pytest.approx(3.821887242, abs=1e-8)
    vega = found.closed_form.greeks["vega"].value
    assert vega == pytest.approx(-25.70, abs=5e-3)
    assert max(map(abs, misses(found).values())) < 3.5
    assert found.greeks["vega"].method == "pathwise, given survival"


@pytest.mark.parametrize("name", ["down and out, rebate at a hit", "into a corridor"])
def test_prices_and_first_greeks_are_the_exact_ones_within_their_errors(name: str) -> None:
    assert max(map(abs, misses(priced(CONTRACTS[name], "delta", "vega", "rho")).values())) < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTRACTS)
def test_all_greeks_of_all_contracts_are_the_exact_ones_within_their_errors(name: str) -> None:
    found = priced(CONTRACTS[name], *FIRST, *SECOND, paths=60_000)
    assert max(map(abs, misses(found).values())) < 3.5, misses(found)


@pytest.mark.slow
@pytest.mark.parametrize("spot", [129.0, 129.99, 131.0])
def test_greeks_near_the_level_have_errors_that_stay_small(spot: float) -> None:
    """A likelihood ratio's delta has a spread of the price over a step's deviation; here it is far less."""
    request = {**FORGE, "S": spot}
    found = priced(request, "delta", "gamma", "vega", paths=60_000)
    plain = priced(request, "delta", "gamma", "vega", paths=60_000, smoothing="none")
    assert max(map(abs, misses(found).values())) < 3.5
    for name in found.greeks:
        assert found.greeks[name].se < plain.greeks[name].se / 2.5, name


def test_errors_are_smaller_than_those_of_likelihood_ratios() -> None:
    """At Forge's barrier: delta by a factor of 3, vega by 5, in as many paths."""
    smooth, plain = (priced(FORGE, "delta", "vega", smoothing=how) for how in ("conditional", "none"))
    for name, factor in (("delta", 3.0), ("vega", 5.0)):
        assert smooth.greeks[name].se * factor < plain.greeks[name].se, name
        assert plain.greeks[name].method == "likelihood ratio"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["up and out", "down and in, a put", "touched above", "autocallable"])
def test_the_spread_of_estimates_is_the_error_that_is_stated(name: str) -> None:
    """40 seeds: the spread of 40 estimates is within 3.5 of its own errors, which are 1 / √78 of it."""
    greeks = ("delta", "vega", "rho")
    runs = [priced(CONTRACTS[name], *greeks, seed=seed, paths=8_000) for seed in range(40)]
    known = runs[0].closed_form
    assert known is not None
    series = {"price": ([run.price for run in runs], [run.se for run in runs], known.value)}
    for greek in greeks:
        own = [run.greeks[greek] for run in runs]
        series[greek] = ([x.value or 0.0 for x in own], [x.se for x in own], known.greeks[greek].value or 0.0)
    for what, (values, errors, value) in series.items():
        assert stdev(values) / fmean(errors) == pytest.approx(1.0, abs=3.5 / sqrt(78)), what
        assert abs(fmean(values) - value) < 3.5 * fmean(errors) / sqrt(40), what


def test_in_and_out_add_up_to_the_plain_option_on_the_same_draws() -> None:
    out, into = (priced(barrier(kind, 90), control_variate="none") for kind in ("down-out", "down-in"))
    plain = priced(barrier("down-out", 1e-6), control_variate="none")
    assert out.price + into.price == pytest.approx(plain.price, rel=1e-10)
    again = priced(barrier("down-in", 1e-6), control_variate="none")
    assert again.price == pytest.approx(0.0, abs=1e-9) and again.se < 1e-9


def test_the_plain_option_as_control_leaves_little_where_levels_are_far() -> None:
    far = barrier("down-out", 70)
    with_control, without = (priced(far, control_variate=how) for how in ("auto", "none"))
    assert with_control.method.endswith("control variate: the plain option")
    assert with_control.se * 50 < without.se
    assert max(map(abs, misses(with_control).values())) < 3.5


# ---- how it is asked for


def test_smoothing_is_automatic_where_greeks_are_asked_for() -> None:
    def value(*greeks: str, **mc: Any) -> float:
        return priced(FORGE, *greeks, paths=8_192, **mc).price

    assert value(smoothing="auto") == value(smoothing="none")
    assert value("delta", smoothing="auto") == value("delta", smoothing="conditional")
    assert value("delta", smoothing="auto") != value("delta", smoothing="none")


@pytest.mark.parametrize(
    "request_",
    [
        {**MARKET, "instrument": "european", "type": "call", "K": 100},
        {**CALL, "barrier": {"level": 130, "type": "up-out"}, "monitoring": {"kind": "continuous"}},
        {**CALL, "barrier": {"level": 130, "type": "up-out"}, "monitoring": {"kind": "discrete", "n": 1}},
    ],
)
def test_what_cannot_be_smoothed_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"mc\.smoothing"):
        priced(request_)


@pytest.mark.parametrize(
    "settings",
    [
        {"antithetic": True},
        {"qmc": "sobol", "bridge": "brownian"},
        {"moment_matching": True, "paths": 65_536},
        {"normals": "inverse"},
        {"precision": "float32"},
    ],
)
def test_other_draws_survive_as_well(settings: dict[str, Any]) -> None:
    found = priced(CONTRACTS["corridor, rebate at a hit"], "delta", "theta", **settings)
    assert max(map(abs, misses(found).values())) < 3.5


def test_arrays_have_the_paths_of_a_walk() -> None:
    """Mirrored pairs need arrays; without the mirror the same draws come one date after the other."""
    walked = priced(FORGE, "delta", control_variate="none", paths=4_096)
    pairs = priced(FORGE, "delta", control_variate="none", paths=8_192, antithetic=True)
    assert abs(walked.price - pairs.price) < 3.5 * walked.se
    described: Any = program_of(spec_of(FORGE)).runner.run
    text = described.__self__.describe({"blocks": 1})
    assert "loop of 24 turns" in text and "(nested)" not in text


# ---- models whose steps are normal, given what else is drawn


def without_vol(request: dict[str, Any], name: str, **params: float) -> dict[str, Any]:
    own = {key: value for key, value in request.items() if key != "vol"}
    return {**own, "model": {"name": name, "params": params}}


def test_hestons_paths_survive_as_black_scholes_ones_where_the_variance_stands_still() -> None:
    request = CONTRACTS["down and out, rebate at a hit"]
    still = without_vol(request, "heston", v0=0.04, kappa=1.0, theta=0.04, xi=1e-4, rho=-0.5)
    known = exact(spec_of(request, "delta"), ("delta",))
    found = priced(still, "delta")
    assert known is not None and known.greeks["delta"].value is not None
    assert abs(found.price - known.value) < 3.5 * found.se
    own = found.greeks["delta"]
    assert own.value is not None and abs(own.value - known.greeks["delta"].value) < 3.5 * own.se
    assert own.method == "pathwise, given survival"


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_",
    [
        without_vol(CONTRACTS["up and out"], "heston", v0=0.04, kappa=1.5, theta=0.05, xi=0.4, rho=-0.6),
        {
            **CONTRACTS["into a corridor"],
            "vol": 0.15,
            "r": 0.05,
            "model": {"name": "merton", "params": {"lam": 0.8, "mu_j": -0.1, "sigma_j": 0.15}},
        },
    ],
)
def test_other_models_have_the_price_and_greeks_of_plain_paths(request_: dict[str, Any]) -> None:
    smooth, plain = (
        priced(request_, "delta", "rho", "theta", smoothing=how, paths=120_000)
        for how in ("conditional", "none")
    )
    assert abs(smooth.price - plain.price) < 3.5 * sqrt(smooth.se**2 + plain.se**2)
    for name, own in smooth.greeks.items():
        other = plain.greeks[name]
        assert own.value is not None and other.value is not None
        assert abs(own.value - other.value) < 3.5 * sqrt(own.se**2 + other.se**2), name
    assert smooth.greeks["delta"].se * 1.7 < plain.greeks["delta"].se
    assert smooth.se * 1.2 < plain.se


AT_EXPIRY = {
    "digital": {"instrument": "digital", "type": "call", "K": 105, "payout": 10},
    "asset or nothing": {"instrument": "digital", "type": "put", "K": 105, "pays": "asset"},
    "gap": {"instrument": "gap", "type": "put", "K": 105, "trigger": 95},
    "one barrier date": {
        "instrument": "barrier",
        "type": "call",
        "K": 100,
        "barrier": {"level": 130, "type": "up-out"},
        "monitoring": {"kind": "discrete", "n": 1},
    },
}


QUICK = [("digital", "heston"), ("gap", "merton")]
PAIRS = [
    pytest.param(name, model, marks=() if (name, model) in QUICK else pytest.mark.slow)
    for name in AT_EXPIRY
    for model in ("heston", "merton")
]


@pytest.mark.parametrize(("name", "model"), PAIRS)
def test_what_a_single_date_decides_is_taken_by_its_mean_given_all_else(name: str, model: str) -> None:
    request = {**MARKET, **AT_EXPIRY[name]}
    if model == "heston":
        request = without_vol(request, model, v0=0.04, kappa=1.5, theta=0.05, xi=0.4, rho=-0.6)
    else:
        request["model"] = {"name": model, "params": {"lam": 0.8, "mu_j": -0.1, "sigma_j": 0.15}}
    greeks = ("delta", "rho", "theta", "gamma")
    smooth, plain = (priced(request, *greeks, paths=20_000, smoothing=how) for how in ("auto", "none"))
    assert smooth.se * 2 < plain.se
    known = smooth.closed_form
    if known is not None:
        assert abs(smooth.price - known.value) < 3.5 * smooth.se
    for greek, own in smooth.greeks.items():
        other = plain.greeks[greek]
        assert own.method == "pathwise, given what else is drawn" and other.method == "likelihood ratio"
        assert own.value is not None and other.value is not None
        assert abs(own.value - other.value) < 3.5 * sqrt(own.se**2 + other.se**2), greek
        assert own.se * 1.5 < other.se, greek


def test_an_autocallable_that_is_observed_today_may_end_today() -> None:
    """And later dates know that they are not the first."""
    note = {**NOTE, "vol": 0.01, "r": 0.3, "q": 0, "observations": {"times": [0, 0.5, 1]}}
    for spot, expected in ((106.0, 103.0), (100.0, 106.0 * exp(-0.15)), (85.0, 109.0 * exp(-0.3))):
        found = priced({**note, "S": spot}, smoothing="auto", paths=4_096)
        assert found.price == pytest.approx(expected, rel=1e-9), spot


def test_what_smoothing_costs_is_known_before() -> None:
    def seconds(*greeks: str, smoothing: str) -> float:
        return cost_of(spec_of(FORGE, *greeks, smoothing=smoothing, paths=10**8)).seconds

    price_alone, first, second = ((), ("delta",), ("delta", "gamma"))
    assert seconds(*price_alone, smoothing="none") < seconds(*price_alone, smoothing="conditional")
    assert seconds(*price_alone, smoothing="conditional") < seconds(*first, smoothing="auto")
    assert seconds(*first, smoothing="auto") < seconds(*second, smoothing="auto")


def test_a_level_that_today_has_passed_ends_the_contract_today() -> None:
    dead = {**barrier("down-out", 105, rebate=5), "monitoring": {**DATES, "include_t0": True}}
    found = priced(dead)
    assert found.price == pytest.approx(5.0, abs=1e-12) and found.se < 1e-12
    later = {**dead, "barrier": {**dead["barrier"], "rebate_timing": "expiry"}}
    assert priced(later).price == pytest.approx(5.0 * exp(-0.05), abs=1e-12)
