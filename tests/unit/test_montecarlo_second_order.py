"""Greeks that take the density of paths: second derivatives, and derivatives of payoffs that jump, by model.

Oracles are differences of exact prices, closed forms written here, Black-Scholes for a local volatility that
is flat, and central differences of simulated prices with common random numbers.
"""

from __future__ import annotations

from math import exp, isfinite, log, sqrt
from statistics import NormalDist
from typing import Any

import pytest

from engine.pricing import price
from engine.pricing.result import Result
from engine.pricing.spec import read_spec

ALL = ("delta", "gamma", "vega", "theta", "rho", "div_rho", "vanna", "volga")
NO_VOL = ("delta", "gamma", "theta", "rho", "div_rho")
MARKET: dict[str, Any] = {"S": 100, "T": 1, "r": 0.05, "q": 0.01, "vol": 0.2}
CALL: dict[str, Any] = {**MARKET, "type": "call", "K": 103}
TWO: dict[str, Any] = {"S": [100, 95], "T": 1, "r": 0.05, "vol": [0.2, 0.3], "corr": 0.5}
CALL_ON_TWO = {**TWO, "type": "call", "K": 103}
MODELS: dict[str, dict[str, Any]] = {
    "displaced": {"shift": 30},
    "cev": {"delta": 2.0, "beta": 0.5},
    "heston": {"v0": 0.04, "kappa": 1.5, "theta": 0.05, "xi": 0.5, "rho": -0.7},
    "local_vol": {"times": [10.0], "spots": [80.0, 100.0, 120.0], "vols": [[0.2, 0.2, 0.2]]},
}
LOOKBACK: dict[str, Any] = {**MARKET, "instrument": "lookback", "monitoring": {"kind": "continuous"}}
NORMAL = NormalDist()


def under(model: str, request: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in request.items() if name != "vol" or model == "displaced"}
    return {**kept, "model": {"name": model, "params": MODELS[model]}}


def priced(request: dict[str, Any], greeks: tuple[str, ...], **mc: Any) -> Result:
    settings = {"paths": 2**15, "seed": 5, **mc}
    found = price(read_spec({**request, "greeks": list(greeks), "method": "monte_carlo", "mc": settings}))
    assert isinstance(found, Result)
    return found


def assert_near(found: Result, exact: dict[str, float | None], slack: float = 0.0) -> None:
    """Each Greek lies within 3.5 of its errors, and ``slack`` of what it is."""
    assert exact
    for name, value in exact.items():
        greek = found.greeks[name]
        assert greek.value is not None and greek.se is not None and value is not None, (name, greek)
        assert abs(greek.value - value) <= 3.5 * greek.se + (slack + 1e-6) * abs(value), (name, greek, value)


def exact_of(found: Result) -> dict[str, float | None]:
    assert found.closed_form is not None
    return {name: greek.value for name, greek in found.closed_form.greeks.items()}


# ---- several assets


@pytest.mark.parametrize(
    ("request_", "greeks"),
    [
        pytest.param({**TWO, "instrument": "exchange"}, ("gamma", "vanna"), id="exchange"),
        pytest.param({**CALL_ON_TWO, "instrument": "spread", "K": 5}, ("gamma", "volga"), id="spread"),
        pytest.param(
            {**CALL_ON_TWO, "instrument": "basket"},
            (*ALL, "corr_sens"),
            id="basket, all",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {**CALL_ON_TWO, "instrument": "worst_of", "type": "put"},
            (*ALL, "corr_sens"),
            id="worst of, all",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {
                "S": [100, 95, 105],
                "vol": [0.2, 0.3, 0.25],
                "corr": [[1, 0.5, 0.2], [0.5, 1, -0.3], [0.2, -0.3, 1]],
                "T": 1,
                "r": 0.05,
                "type": "call",
                "K": 100,
                "instrument": "basket",
            },
            ("gamma", "vanna", "volga"),
            id="basket of three",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_second_derivatives_for_several_assets_agree_with_exact_ones(
    request_: dict[str, Any], greeks: tuple[str, ...]
) -> None:
    found = priced(request_, greeks)
    assert_near(found, exact_of(found))
    assert "likelihood ratio" in found.greeks["gamma1"].method


def test_a_payoff_that_jumps_between_two_assets_has_greeks() -> None:
    """1 where the first asset ends above the second: e^{-rT} N(d)."""
    request = {**TWO, "instrument": "custom", "payoff": "where(last(S1) > last(S2), 1, 0)"}
    found = priced({**request, "monitoring": {"kind": "discrete", "n": 2}}, ("delta", "vega", "corr_sens"))
    (a, b), (u, v), rho = TWO["S"], TWO["vol"], TWO["corr"]
    s = sqrt(u * u + v * v - 2 * rho * u * v)
    d = (log(a / b) + 0.5 * (v * v - u * u)) / s
    density = exp(-TWO["r"]) * NORMAL.pdf(d)

    def slope(change: float, spread: float) -> float:
        """The price's, from those of d's numerator and of s."""
        return density * (change - d * spread) / s

    exact = {
        "delta1": slope(1 / a, 0.0),
        "delta2": slope(-1 / b, 0.0),
        "vega1": slope(-u, (u - rho * v) / s),
        "vega2": slope(v, (v - rho * u) / s),
        "corr_sens": slope(0.0, -u * v / s),
    }
    assert abs(found.price - exp(-TWO["r"]) * NORMAL.cdf(d)) <= 3.5 * found.se
    assert_near(found, dict(exact))
    assert found.greeks["delta1"].method == "likelihood ratio"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"corr": 1.0}, "singular"), ({"vol": [0.2, 0.0]}, "without volatility"), ({"S": [100, 0]}, "at 0")],
)
def test_assets_that_have_no_density_say_so(changed: dict[str, Any], reason: str) -> None:
    found = priced({**CALL_ON_TWO, **changed, "instrument": "best_of"}, ("delta", "gamma"), paths=4096)
    assert found.greeks["gamma1"].value is None and reason in found.greeks["gamma1"].method
    assert found.greeks["delta1"].value is not None
    again = priced({**CALL_ON_TWO, "instrument": "best_of"}, ("delta", "gamma"), paths=4096)
    assert again.greeks["gamma1"].value is not None  # no program of the other form serves it


# ---- models whose paths are no exponentials of normals


@pytest.mark.parametrize(
    ("model", "instrument", "greeks"),
    [
        ("displaced", "european", ("gamma", "vanna")),
        ("displaced", "digital", ("delta", "rho")),
        ("cev", "european", ("gamma",)),
        ("cev", "digital", ("delta",)),
        ("heston", "digital", ("delta", "rho", "dv0")),
        pytest.param("displaced", "european", ALL, marks=pytest.mark.slow),
        pytest.param("displaced", "digital", ALL, marks=pytest.mark.slow),
        pytest.param("cev", "european", NO_VOL, marks=pytest.mark.slow),
        pytest.param("cev", "digital", NO_VOL, marks=pytest.mark.slow),
        pytest.param("heston", "european", (*NO_VOL, "dv0"), marks=pytest.mark.slow),
        pytest.param("heston", "digital", (*NO_VOL, "dv0"), marks=pytest.mark.slow),
    ],
)
def test_each_models_greeks_agree_with_exact_ones(
    model: str, instrument: str, greeks: tuple[str, ...]
) -> None:
    found = priced(under(model, {**CALL, "instrument": instrument}), greeks)
    assert_near(found, exact_of(found), slack=0.005 if model == "cev" else 0.0)  # of Euler steps


@pytest.mark.parametrize(
    ("instrument", "greeks"),
    [
        ("european", ("gamma",)),
        ("digital", ("delta", "vega")),
        pytest.param("european", ALL, marks=pytest.mark.slow),
        pytest.param("digital", ALL, marks=pytest.mark.slow),
    ],
)
def test_a_flat_local_volatility_has_the_greeks_of_black_scholes(
    instrument: str, greeks: tuple[str, ...]
) -> None:
    request = {**CALL, "instrument": instrument}
    exact = price(read_spec({**request, "greeks": list(greeks)}))
    assert isinstance(exact, Result)
    found = priced(under("local_vol", request), greeks)
    assert_near(found, exact_of(exact))


def test_the_error_does_not_grow_with_steps_that_the_contract_does_not_see() -> None:
    """The shift is borne by all of them: one alone, a hundredth of a year long, would err tenfold."""
    request = under("local_vol", {**CALL, "instrument": "european"})
    few, many = (priced(request, ("gamma",), steps=steps).greeks["gamma"].se for steps in (16, 100))
    assert few is not None and many is not None
    assert many < 1.3 * few


def test_heston_theta_moves_the_variance_with_the_dates() -> None:
    found = priced(under("heston", {**CALL, "instrument": "european"}), ("theta",))
    assert_near(found, exact_of(found))


SKEW: dict[str, Any] = {
    "times": [0.5, 10.0],
    "spots": [85.0, 97.0, 108.0, 125.0],
    "vols": [[0.30, 0.22, 0.17, 0.16], [0.28, 0.21, 0.18, 0.17]],
}


@pytest.mark.slow
@pytest.mark.parametrize("instrument", ["european", "asian"])
def test_a_skewed_local_volatility_has_the_greeks_of_differences_with_common_numbers(
    instrument: str,
) -> None:
    """Bends of the grid count in second derivatives, where their slopes jump."""
    spot_step, vol_step = 2.5, 0.01

    def with_moved(spot: float, vol: float) -> dict[str, Any]:
        vols = [[own + vol for own in row] for row in SKEW["vols"]]
        model = {"name": "local_vol", "params": {**SKEW, "vols": vols}}
        kept = {name: value for name, value in CALL.items() if name != "vol"}
        averaging = {"averaging": {"kind": "arithmetic", "n": 4}} if instrument == "asian" else {}
        return {**kept, **averaging, "instrument": instrument, "S": 100 + spot, "model": model}

    settings: dict[str, Any] = {"steps": 32, "paths": 2**18}

    def slope(greek: str, spot: float, vol: float) -> tuple[float, float]:
        """The central difference of a first derivative, and an error that is too large: common numbers."""
        ends = [priced(with_moved(k * spot, k * vol), (greek,), **settings).greeks[greek] for k in (1, -1)]
        values, errors = [end.value for end in ends], [end.se for end in ends]
        assert None not in values and None not in errors
        width = 2.0 * (spot + vol)
        return (values[0] - values[1]) / width, 0.3 * sum(errors) / width  # type: ignore[operator, arg-type]

    found = priced(with_moved(0.0, 0.0), ("gamma", "vanna", "volga"), **settings, seed=8)
    for name, own in {
        "gamma": slope("delta", spot_step, 0.0),
        "vanna": slope("vega", spot_step, 0.0),
        "volga": slope("vega", 0.0, vol_step),
    }.items():
        greek, (value, error) = found.greeks[name], own
        assert greek.value is not None and greek.se is not None
        assert abs(greek.value - value) <= 3.5 * sqrt(greek.se**2 + error**2) + 0.01 * abs(value), name


@pytest.mark.parametrize(
    ("scale", "beta"), [(30.0, 0.0), pytest.param(8.0, 0.5, marks=pytest.mark.slow)], ids=str
)
def test_paths_that_are_absorbed_are_not_differentiated_along(scale: float, beta: float) -> None:
    """At 0 a path stands still and just above it does not: derivatives along paths miss a part of delta."""
    request = under("cev", {**CALL, "instrument": "european", "type": "put", "K": 60, "T": 2})
    request["model"] = {"name": "cev", "params": {"delta": scale, "beta": beta}}
    found = priced(request, ("delta", "gamma"), steps=64, paths=2**17)
    assert found.greeks["delta"].method == "likelihood ratio"
    assert_near(found, exact_of(found), slack=0.005)


@pytest.mark.slow
def test_barriers_watched_always_have_finite_greeks_where_paths_are_absorbed() -> None:
    """Between two dates at 0 the bridge of a dead path has no variance of its own."""
    rule = {"barrier": {"level": 180, "type": "up-out"}, "monitoring": {"kind": "continuous"}}
    request = under("cev", {**CALL, **rule, "instrument": "barrier"})
    request["model"] = {"name": "cev", "params": {"delta": 8.0, "beta": 0.5}}
    found = priced(request, ("delta", "gamma", "theta"), steps=16)
    up, down = (priced({**request, "S": 100 + move}, (), steps=16, paths=2**17) for move in (4, -4))
    noise = sqrt(up.se**2 + down.se**2) / 8.0  # too large: the numbers are common
    delta = found.greeks["delta"]
    assert delta.value is not None and delta.se is not None
    assert abs(delta.value - (up.price - down.price) / 8.0) <= 3.5 * sqrt(delta.se**2 + noise**2)
    for greek in found.greeks.values():
        assert greek.value is not None and greek.se is not None and isfinite(greek.value + greek.se)


# ---- extremes that are drawn between dates


@pytest.mark.parametrize(
    ("contract", "settings"),
    [
        pytest.param({"type": "call", "K": 105}, {}, id="fixed call"),
        pytest.param({"type": "put", "K": 96, "extreme": 94}, {}, id="fixed put", marks=pytest.mark.slow),
        pytest.param({"type": "call", "extreme": 92}, {}, id="floating call", marks=pytest.mark.slow),
        pytest.param({"type": "put", "extreme": 108}, {}, id="floating put", marks=pytest.mark.slow),
        pytest.param({"type": "call", "K": 105}, {"steps": 12}, id="in steps", marks=pytest.mark.slow),
    ],
)
def test_lookbacks_watched_always_have_second_derivatives(
    contract: dict[str, Any], settings: dict[str, Any]
) -> None:
    found = priced({**LOOKBACK, **contract}, ("gamma", "vanna", "volga"), **settings)
    assert_near(found, exact_of(found))
    plain = priced({**LOOKBACK, **contract}, (), **settings)
    assert found.price == plain.price  # which takes the extremes that are drawn


# ---- payoffs that see today's spot


@pytest.mark.parametrize("kind", ["arithmetic", pytest.param("geometric", marks=pytest.mark.slow)])
def test_the_gamma_of_an_average_counts_todays_fixing(kind: str) -> None:
    """A third of the average moves with the spot; the first date makes up for it in paths that are held."""
    averaging = {"kind": kind, "n": 2, "include_t0": True}
    found = priced(
        {**CALL, "instrument": "asian", "averaging": averaging}, ("gamma",), control_variate="none"
    )
    assert_near(found, exact_of(found))
    stepped = priced(under("cev", {**CALL, "instrument": "asian", "averaging": averaging}), ("gamma",))
    assert stepped.greeks["gamma"].value is None and "today's spot" in stepped.greeks["gamma"].method


@pytest.mark.parametrize(
    "contract",
    [
        {"instrument": "cliquet", "resets": {"n": 2}, "notional": 100, "floor": 0.0, "cap": 0.08},
        {"instrument": "forward_start", "type": "call", "alpha": 1.0, "t_start": 0.0},
    ],
    ids=["cliquet", "forward start"],
)
def test_what_depends_on_returns_has_a_gamma_where_these_do_not_depend_on_the_spot(
    contract: dict[str, Any],
) -> None:
    """Under Black-Scholes it is 0; under a local volatility the level of a kink moves with the spot."""
    found = priced({**MARKET, **contract}, ("gamma",), paths=4096)
    gamma = found.greeks["gamma"]
    assert gamma.value is not None and gamma.se is not None and abs(gamma.value) <= 3.5 * gamma.se
    refused = priced(under("local_vol", {**MARKET, **contract}), ("delta", "gamma"), paths=4096)
    assert refused.greeks["gamma"].value is None and "today's spot" in refused.greeks["gamma"].method
    assert refused.greeks["delta"].value is not None


def custom(payoff: str) -> dict[str, Any]:
    monitoring = {"kind": "discrete", "n": 2, "include_t0": True}
    return {
        **MARKET,
        "instrument": "custom",
        "payoff": payoff,
        "constants": {"K": 103},
        "monitoring": monitoring,
    }


def test_a_jump_that_moves_with_todays_spot_is_refused_and_others_are_not() -> None:
    moving = priced(custom("where(last(S) > first(S), 1, 0)"), ("delta", "vega"), paths=4096)
    assert moving.greeks["delta"].value is None and "today's spot" in moving.greeks["delta"].method
    assert moving.greeks["vega"].value is not None
    always = {**custom("where(mean(S) > K, 1, 0)"), "monitoring": {"kind": "continuous"}}
    assert priced(always, ("delta",), paths=4096, steps=32).greeks["delta"].value is not None
    found = priced(custom("where(last(S) > K, last(S) - first(S), 0)"), ("delta",))
    gap, digital = (
        price(read_spec({**CALL, **own, "greeks": ["delta"]}))
        for own in ({"instrument": "gap", "K": 100, "trigger": 103}, {"instrument": "digital"})
    )
    assert isinstance(gap, Result) and isinstance(digital, Result)
    assert_near(found, {"delta": (exact_of(gap)["delta"] or 0.0) - digital.price})


# ---- variances that are next to nothing


def test_hestons_densities_are_finite_where_the_variance_vanishes() -> None:
    """Dates between which the variance is 0 on many paths: volatility of variance 1 at a reversion of 0.5."""
    model = {"name": "heston", "params": {"v0": 0.04, "kappa": 0.5, "theta": 0.04, "xi": 1.0, "rho": -0.9}}
    asian = {**CALL, "instrument": "asian", "averaging": {"kind": "geometric", "n": 5}, "model": model}
    fixings = {name: value for name, value in asian.items() if name != "vol"}
    found = priced(fixings, ("gamma", "vanna"), steps=16)
    gamma = found.greeks["gamma"]
    paths = 2**17
    ends = [
        priced({**fixings, "S": 100 + move}, ("delta",), steps=16, paths=paths).greeks["delta"].value
        for move in (1, -1)
    ]
    assert gamma.value is not None and gamma.se is not None
    change = (ends[0] - ends[1]) / 2.0  # type: ignore[operator]
    noise = sqrt(gamma.value / (2.0 * paths))  # of the indicator of ending between the two
    assert abs(gamma.value - change) <= 3.5 * sqrt(gamma.se**2 + noise**2)
    assert found.greeks["vanna"].value is None and "volatility of its own" in found.greeks["vanna"].method
