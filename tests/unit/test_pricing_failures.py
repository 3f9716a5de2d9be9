"""Inputs on which pricing libraries have failed, with the answer that is right."""

from __future__ import annotations

import math

import pytest
from pricing_requests import CONTINUOUS, answer, barrier, spec, value

from engine.pricing.analytic import exact
from engine.pricing.implied import implied_vol
from engine.pricing.spec import Spec, SpecError, read_spec


def _plain(instrument: str, **fields: object) -> Spec:
    return read_spec({"instrument": instrument, **fields})


def _implied(fields: dict[str, object]) -> Spec:
    return _plain("implied_vol", **({"S": 100, "K": 100, "T": 1, "r": 0.05} | fields))


FIRST_ORDER = ("delta", "gamma", "vega", "rho")


def test_a_breached_out_barrier_is_worth_its_rebate_and_nothing_moves_it() -> None:
    out = answer("barrier", FIRST_ORDER, type="call", S=131, **barrier("up-out", 130))
    assert out.value == 0.0
    assert [out.greeks[name].value for name in FIRST_ORDER] == [0.0] * 4
    assert value("barrier", type="call", S=131, **barrier("up-out", 130, rebate=3)) == 3.0
    late = barrier("up-out", 130, rebate=3, rebate_timing="expiry")
    assert value("barrier", type="call", S=131, **late) == pytest.approx(3 * math.exp(-0.05), rel=1e-15)


def test_a_breached_in_barrier_is_the_plain_option() -> None:
    found = value("barrier", type="call", S=131, **barrier("up-in", 130))
    assert found == pytest.approx(36.393880, abs=5e-7)


def test_the_formula_is_not_used_on_the_wrong_side_of_a_barrier() -> None:
    terms = barrier("down-out", 0.5)
    assert value("barrier", type="call", S=0.01, K=1.9, T=0.5, r=0, vol=0.25, **terms) == 0.0


def test_at_expiry_the_payoff_is_left() -> None:
    itm = answer("european", ("delta", "gamma", "vega", "rho", "theta"), type="call", S=110, T=0)
    assert itm.value == 10.0
    assert [itm.greeks[name].value for name in ("delta", "gamma", "vega", "rho")] == pytest.approx(
        [1, 0, 0, 0]
    )
    assert itm.greeks["theta"].value is None
    atm = answer("european", ("delta", "gamma"), type="call", T=0)
    assert atm.value == 0.0
    assert atm.greeks["gamma"].value is None
    assert atm.greeks["delta"].value is None


def test_without_volatility_the_forward_decides() -> None:
    terms = {"K": 102, "q": 0.02, "vol": 0}
    call = answer("european", ("delta", "vega"), type="call", **terms)
    assert call.value == pytest.approx(0.994466, abs=5e-7)
    assert call.greeks["delta"].value == pytest.approx(math.exp(-0.02), rel=1e-6)
    assert call.greeks["vega"].value == 0.0
    assert value("european", type="put", **terms) == 0.0


@pytest.mark.parametrize(
    ("type_", "spot", "rate"), [("put", 90, 0.05), ("call", 110, -0.05), ("put", 90, 0.0)]
)
def test_a_certain_american_option_is_exercised_at_the_best_time(
    type_: str, spot: float, rate: float
) -> None:
    found = value("american", type=type_, S=spot, r=rate, vol=0)
    assert found == pytest.approx(10.0, rel=1e-14)
    assert found >= value("european", type=type_, S=spot, r=rate, vol=0)


def test_a_strike_of_nothing_is_the_asset() -> None:
    assert value("european", type="call", S=200, K=0, q=0.03) == pytest.approx(
        200 * math.exp(-0.03), rel=1e-15
    )


@pytest.mark.parametrize(
    ("request_", "bound"),
    [
        ({"type": "call", "price": 1529.75, "S": 4127.83, "K": 2600, "T": 0.52777778, "r": 0.01}, "1541.516"),
        ({"type": "call", "price": 11.73, "S": 85.37, "K": 75, "T": 0.6767, "r": 0.043}, "12.520912"),
        ({"type": "put", "price": 107.35, "S": 3576.1, "K": 3575, "T": 0.139726, "r": -0.618873}, "321.79"),
        ({"type": "call", "price": 100.0}, "100"),
    ],
)
def test_impossible_prices_are_refused_with_the_bound_they_break(
    request_: dict[str, object], bound: str
) -> None:
    with pytest.raises(SpecError, match=bound) as refusal:
        implied_vol(_implied(request_))
    assert refusal.value.path == "price"


def test_a_rate_in_percent_that_was_meant_as_a_decimal() -> None:
    request_ = {"type": "put", "price": 107.35, "S": 3576.1, "K": 3575, "T": 0.139726, "r": -0.00618873}
    assert implied_vol(_implied(request_)).value == pytest.approx(0.199416655, abs=5e-10)


def test_an_implied_volatility_of_a_price_below_a_cent() -> None:
    request_ = {"type": "call", "price": 3.77053364528e-05, "S": 100, "K": 130, "T": 0.1}
    assert implied_vol(_implied(request_)).value == pytest.approx(0.2, abs=1e-11)


def test_two_volatilities_of_a_digital_and_its_largest_price() -> None:
    terms = {"type": "call", "S": 28, "K": 65, "T": 218 / 365, "r": 0, "option": "digital", "payout": 100}
    found = implied_vol(_implied({**terms, "price": 5.1164}))
    assert found.roots == pytest.approx([0.829997, 3.397786], abs=5e-7)
    assert found.value == found.roots[0]
    assert found.warnings
    with pytest.raises(SpecError, match=r"9\.71726"):
        implied_vol(_implied({**terms, "price": 9.72}))


HESTON = {"name": "heston", "params": {"v0": 0.04, "theta": 0.04, "kappa": 1.5, "xi": 0.3, "rho": -0.7}}
HESTON_WIDE = {"name": "heston", "params": {**HESTON["params"], "xi": 0.5}}  # type: ignore[dict-item]


def test_short_lives_and_far_strikes_under_heston() -> None:
    market = {"type": "call", "S": 100, "r": 0.05}
    near = exact(_plain("european", **market, K=100, T=0.02, model=HESTON))
    far = exact(_plain("european", **market, K=150, T=0.1, model=HESTON_WIDE))
    assert near is not None and near.value == pytest.approx(1.177516, abs=5e-7)
    assert far is not None and far.value == pytest.approx(8e-14, abs=5e-13)


def test_weekly_averages_with_and_without_today() -> None:
    terms = {"type": "call", "S": 120, "K": 120, "vol": 0.5, "r": 0.02, "T": 0.25}
    without = {"kind": "arithmetic", "n": 13}
    assert value("asian", **terms, averaging=without) == pytest.approx(7.434223, abs=5e-7)
    assert value("asian", **terms, averaging=without | {"include_t0": True}) == pytest.approx(
        6.903207, abs=5e-7
    )


def test_the_average_of_fifty_fixings() -> None:
    for kind, expected in (("arithmetic", 5.857493), ("geometric", 5.641058)):
        average = {"kind": kind, "n": 50}
        assert value("asian", type="call", averaging=average) == pytest.approx(expected, abs=5e-7)


def test_past_fixings_count_by_sum_and_number() -> None:
    """Four fixings of 100 before today and none after leave the forward of an average that is known."""
    average = {"kind": "arithmetic", "times": [1.0], "past_sum": 400, "past_count": 4}
    seasoned = value("asian", type="call", K=99, averaging=average)
    # (400 + S_T) / 5 - 99 = (S_T - 95) / 5
    assert seasoned == pytest.approx(value("european", type="call", K=95) / 5, rel=1e-9)


def test_greeks_next_to_a_barrier_stay_on_their_side() -> None:
    found = answer("barrier", ("delta",), type="call", S=129.99, **barrier("up-out", 130))
    assert found.value == pytest.approx(0.00168264, abs=5e-9)
    assert found.greeks["delta"].value == pytest.approx(-0.168280, abs=5e-7)


def test_theta_is_per_calendar_year() -> None:
    found = answer("european", ("theta", "vega"), type="call", T=0.25, r=0)
    assert found.greeks["theta"].value == pytest.approx(-7.968878, abs=5e-7)
    assert found.greeks["vega"].value == pytest.approx(19.922196, abs=5e-7)


def test_perfectly_correlated_assets_that_are_equal_are_worth_nothing_against_each_other() -> None:
    both = {"S": [100, 100], "T": 1, "r": 0.05, "vol": 0.2, "corr": [[1, 1], [1, 1]]}
    found = exact(_plain("exchange", **both))
    assert found is not None and found.value == 0.0


@pytest.mark.parametrize(
    ("field", "bad"), [("S", math.nan), ("S", math.inf), ("vol", -0.2), ("T", -1), ("K", -1), ("r", "0.05")]
)
def test_nonsense_is_refused(field: str, bad: object) -> None:
    with pytest.raises(SpecError) as refusal:
        spec("european", type="call", **{field: bad})
    assert refusal.value.path == field


def test_the_yield_does_not_discount_an_average() -> None:
    """Under equal rate and yield the forward is flat: an average deep in the money is worth D (S - K)."""
    average = {"kind": "arithmetic", "n": 4}
    found = value("asian", type="call", K=1, r=0.05, q=0.05, averaging=average)
    assert found == pytest.approx(99 * math.exp(-0.05), rel=1e-9)


def test_monitoring_is_never_assumed() -> None:
    with pytest.raises(SpecError, match="continuous and discrete prices differ"):
        spec("barrier", type="call", barrier={"level": 130, "type": "up-out"}, monitoring={"n": 50})
    always = {"barrier": {"level": 130, "type": "up-out"}, "monitoring": CONTINUOUS}
    daily = always | {"monitoring": {"kind": "discrete", "n": 50}}
    assert value("barrier", type="call", **always) == pytest.approx(3.332858, abs=5e-7)
    assert value("barrier", type="call", **daily) == pytest.approx(3.821887, abs=5e-7)
