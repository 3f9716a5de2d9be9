"""Contracts whose path is certain, degenerate laws, and Greeks that are not there."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pricing_requests import CONTINUOUS, answer, barrier, spec, value

from engine.pricing import deterministic, price
from engine.pricing.analytic import exact
from engine.pricing.analytic.differences import MOVES
from engine.pricing.bump import NotMovableError, bumped
from engine.pricing.checks import checks
from engine.pricing.result import UNITS, Result
from engine.pricing.spec import GREEKS, read_spec

DISCOUNT = math.exp(-0.05)
GROWN = 100 * math.exp(0.05)
TWO: dict[str, Any] = {"S": [100, 90], "T": 1, "r": 0.05, "vol": [0.2, 0.3], "corr": 0.4}


@pytest.mark.parametrize(
    ("instrument", "fields", "expected"),
    [
        ("european", {"type": "call"}, DISCOUNT * (GROWN - 100)),
        ("digital", {"type": "call", "payout": 7}, 7 * DISCOUNT),
        ("digital", {"type": "put", "payout": 7}, 0.0),
        ("gap", {"type": "call", "K": 120, "trigger": 100}, DISCOUNT * (GROWN - 120)),
        ("touch", {"level": 102, "direction": "up", "payout": 1, "monitoring": CONTINUOUS}, 100 / 102),
        ("touch", {"level": 90, "direction": "down", "payout": 1, "monitoring": CONTINUOUS}, 0.0),
        ("barrier", {"type": "call", **barrier("up-out", 102, rebate=3)}, 3 * 100 / 102),
        ("barrier", {"type": "call", **barrier("up-in", 102)}, DISCOUNT * (GROWN - 100)),
        ("barrier", {"type": "call", **barrier("down-in", 90, rebate=3)}, 3 * DISCOUNT),
        ("lookback", {"type": "call", "K": None, "monitoring": CONTINUOUS}, DISCOUNT * (GROWN - 100)),
        ("forward_start", {"type": "call", "alpha": 1, "t_start": 0.5}, 100 - 100 * math.exp(-0.025)),
        ("chooser", {"t_choose": 0.5}, DISCOUNT * (GROWN - 100)),
        ("american", {"type": "put", "K": 110}, 10.0),
        ("bermudan", {"type": "put", "K": 110, "exercise": {"n": 2}}, 110 * math.exp(-0.025) - 100),
        (
            "asian",
            {"type": "call", "averaging": {"kind": "arithmetic", "continuous": True}},
            DISCOUNT * (100 * math.expm1(0.05) / 0.05 - 100),
        ),
    ],
)
def test_without_volatility_the_payoff_on_the_forward(
    instrument: str, fields: dict[str, Any], expected: float
) -> None:
    terms = {name: v for name, v in fields.items() if v is not None}
    request = {"S": 100, "K": 100, "T": 1, "r": 0.05, "vol": 0} | terms
    if instrument in ("touch", "forward_start") or fields.get("K", 0) is None:
        del request["K"]
    found = exact(read_spec({"instrument": instrument, **request}))
    assert found is not None
    assert found.method == "payoff"
    assert found.value == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_a_spot_of_nothing_stays() -> None:
    call = answer("european", ("delta",), type="call", S=0)
    assert (call.value, call.greeks["delta"].value) == (0.0, 0.0)
    assert value("european", type="put", S=0) == pytest.approx(100 * DISCOUNT, rel=1e-15)
    assert value("american", type="put", S=0) == 100.0
    assert value("barrier", type="put", S=0, **barrier("down-out", 10)) == 0.0


def test_every_product_but_custom_payoffs_has_a_value_on_a_path() -> None:
    from engine.pricing.spec import PRODUCTS

    valued = {product for product in PRODUCTS.values() if product in deterministic.PRODUCTS}
    assert {name for name, product in PRODUCTS.items() if product not in valued} == {"custom", "implied_vol"}


def test_the_best_time_between_two_dates_is_found() -> None:
    """The discounted payoff K e^{-rt} - S e^{-qt} of a put peaks at log(r K / (q S)) / (r - q)."""
    terms = {"type": "put", "S": 100, "K": 101, "T": 5, "r": 0.02, "q": 0.06, "vol": 0}
    best = math.log(0.02 * 101 / (0.06 * 100)) / (0.02 - 0.06)
    assert best > 0 or best < 0
    found = value("american", **terms)
    times = [5 * i / 1000 for i in range(1001)]
    payoffs = [101 * math.exp(-0.02 * t) - 100 * math.exp(-0.06 * t) for t in times]
    assert found >= max(payoffs) - 1e-9
    assert found == pytest.approx(max(payoffs), abs=1e-3)


@pytest.mark.parametrize("rho", [-1.0, 1.0])
def test_two_assets_on_one_line(rho: float) -> None:
    """Perfectly correlated assets are limits: values at rho and just inside it agree."""
    for instrument, more in (
        ("spread", {"type": "call", "K": 5}),
        ("exchange", {}),
        ("best_of", {"type": "call", "K": 95}),
        ("worst_of", {"type": "put", "K": 95}),
        ("basket", {"type": "call", "K": 95}),
    ):
        at, near = (
            exact(read_spec({"instrument": instrument, **TWO, **more, "corr": corr}), ())
            for corr in (rho, rho * (1 - 1e-9))
        )
        assert at is not None
        assert near is not None
        assert at.value == pytest.approx(near.value, abs=2e-3), instrument


def test_an_asset_without_volatility_is_a_strike() -> None:
    flat = TWO | {"vol": [0.2, 0], "corr": 0}
    found = exact(read_spec({"instrument": "spread", "type": "call", "K": 5, **flat}), ())
    strike = 5 + 90 * math.exp(0.05)
    assert found is not None
    assert found.value == pytest.approx(value("european", type="call", K=strike), abs=1e-11)


def test_a_basket_of_one_is_an_option_on_it() -> None:
    assert value("basket", type="put", weights=[2.0], K=190) == pytest.approx(
        2 * value("european", type="put", K=95), rel=1e-13
    )


def test_a_basket_of_equal_assets_is_one_of_them() -> None:
    corr = [[1.0] * 3] * 3
    request = {"instrument": "basket", "type": "call", "S": [100] * 3, "K": 95, "T": 1, "r": 0.05, "vol": 0.2}
    found = exact(read_spec(request | {"corr": corr}), ())
    assert found is not None
    assert found.value == pytest.approx(value("european", type="call", K=95), rel=1e-10)


def test_escrowed_dividends_lower_the_spot() -> None:
    paid = [[0.25, 2], [0.75, 3], [1.5, 4]]
    held = 100 - 2 * math.exp(-0.0125) - 3 * math.exp(-0.0375)
    found = answer("european", ("delta",), type="call", dividends=paid)
    plain = answer("european", ("delta",), type="call", S=held)
    assert found.value == pytest.approx(plain.value, rel=1e-14)
    assert found.greeks["delta"].value == pytest.approx(plain.greeks["delta"].value, rel=1e-8)


def test_pieces_count_by_their_integrals() -> None:
    vol = {"until": [0.5], "values": [0.1, 0.3]}
    rate = {"until": [0.25], "values": [0.02, 0.06]}
    pieces = value("european", type="call", vol=vol, r=rate)
    level = value("european", type="call", vol=math.sqrt(0.5 * 0.01 + 0.5 * 0.09), r=0.05)
    assert pieces == pytest.approx(level, rel=1e-14)


def test_every_greek_has_a_unit_and_a_move() -> None:
    assert set(GREEKS) == set(UNITS) == set(MOVES)


def test_greeks_by_differences_match_the_formulas() -> None:
    """The same contract as a sum of two halves of its life has no formula, but the same Greeks."""
    names = ("delta", "gamma", "vega", "theta", "rho", "div_rho", "vanna", "volga")
    formulas = answer("european", names, type="call", K=110, q=0.02)
    halves = {"until": [0.5], "values": [0.2, 0.2]}
    differences = answer("european", names, type="call", K=110, q=0.02, vol=halves)
    for name in names:
        assert formulas.greeks[name].method == "formula"
        assert differences.greeks[name].method.startswith("central differences")
        assert differences.greeks[name].value == pytest.approx(formulas.greeks[name].value, rel=1e-7), name


def test_a_greek_that_is_not_there_says_why() -> None:
    found = answer("european", ("dv0",), type="call").greeks["dv0"]
    assert found.value is None
    assert "variance" in found.method
    average = {"kind": "arithmetic", "n": 4, "include_t0": True}
    theta = answer("asian", ("theta",), type="call", averaging=average).greeks["theta"]
    assert theta.value is None
    assert "today" in theta.method


def test_greeks_of_several_assets_are_numbered() -> None:
    found = exact(read_spec({"instrument": "exchange", **TWO}), ("delta", "corr_sens", "rho"))
    assert found is not None
    assert set(found.greeks) == {"delta1", "delta2", "corr_sens", "rho"}


def test_a_move_changes_one_parameter() -> None:
    base = spec("european", type="call")
    assert bumped(base, "spot", 1.0).spot == 101.0
    assert bumped(base, "vol", 0.01).market.vols[0].at(0.0) == pytest.approx(0.21)
    assert bumped(base, "time", 0.5).expiry == 1.5
    with pytest.raises(NotMovableError):
        bumped(base, "v0", 0.01)
    with pytest.raises(NotMovableError):
        bumped(spec("european", type="call", T=0), "time", 0.1)


def test_checks_hold_for_exact_prices_and_fail_for_others() -> None:
    plain = spec("european", type="call")
    price = value("european", type="call")
    assert [check.name for check in checks(plain, price)] == ["bounds", "put-call parity"]
    assert all(check.holds for check in checks(plain, price))
    assert not any(check.holds for check in checks(plain, 101.0))
    assert checks(plain, price + 0.01)[1].holds is False
    assert checks(plain, price + 0.01, se=0.005)[1].holds
    up = spec("barrier", type="call", **barrier("up-out", 130))
    assert [check.name for check in checks(up, value("barrier", type="call", **barrier("up-out", 130)))] == [
        "bounds",
        "in-out parity",
    ]


@pytest.mark.parametrize(("strike", "scale"), [(1e15, 20.0), (100.0, 1e-50), (100.0, 1e-6)])
def test_series_of_elastic_variance_end_soon_or_are_not_begun(strike: float, scale: float) -> None:
    model = {"name": "cev", "params": {"delta": scale, "beta": 0.0}}
    request = {"instrument": "european", "type": "call", "S": 100, "K": strike, "T": 1, "model": model}
    assert exact(read_spec(request)) is None


@pytest.mark.parametrize("simulation", [None, {"paths": 1024}])
def test_contracts_whose_only_date_is_today(simulation: dict[str, Any] | None) -> None:
    today = {"times": [0]}
    market = {"type": "call", "S": 100, "K": 90, "T": 1, "r": 0.05, "vol": 0.2}
    market |= {} if simulation is None else {"mc": simulation}
    bermudan = price(read_spec({**market, "instrument": "bermudan", "exercise": today}))
    asian = price(read_spec({**market, "instrument": "asian", "averaging": {"kind": "arithmetic", **today}}))
    assert isinstance(bermudan, Result) and isinstance(asian, Result)
    assert (bermudan.price, bermudan.method) == (10.0, "payoff")
    assert asian.price == pytest.approx(10 * DISCOUNT, rel=1e-12)


def test_a_volatility_too_small_for_a_grid_of_the_neighbours_has_none() -> None:
    request = {"instrument": "american", "type": "put", "S": 90, "K": 90, "T": 0.5, "r": 0.05, "q": 0.05}
    assert exact(read_spec(request | {"vol": 1e-9, "greeks": ["rho"]})) is None
