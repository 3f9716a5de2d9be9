"""What exact prices satisfy whatever the market: parities, bounds, monotonicity, and agreement of methods."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pricing_requests import CONTINUOUS

from engine.pricing.analytic import exact
from engine.pricing.analytic.table import methods_for
from engine.pricing.deterministic import value as certain_value
from engine.pricing.implied import implied_vol
from engine.pricing.spec import Spec, read_spec
from engine.pricing.spec.fields import SMALLEST

FEW = settings(max_examples=25)


def floats(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers that a request may hold: 0, or not close to it."""
    return st.floats(low, high).map(lambda x: x if abs(x) >= SMALLEST else 0.0)


MARKETS = st.fixed_dictionaries(
    {
        "S": floats(50.0, 200.0),
        "K": floats(50.0, 200.0),
        "T": floats(0.02, 5.0),
        "r": floats(-0.05, 0.15),
        "q": floats(-0.05, 0.15),
        "vol": floats(0.05, 0.8),
    }
)
CARRIED = st.fixed_dictionaries(
    {
        "S": floats(50.0, 200.0),
        "K": floats(50.0, 200.0),
        "T": floats(0.1, 3.0),
        "r": floats(0.0, 0.1),
        "q": floats(0.0, 0.1),
        "vol": floats(0.15, 0.8),
    }
)
"""Markets in which early exercise has one boundary that is quick to find."""
TYPES = st.sampled_from(["call", "put"])


def price(instrument: str, market: dict[str, Any], **fields: Any) -> float:
    found = exact(read_spec({"instrument": instrument, **market, **fields}), ())
    assert found is not None
    assert math.isfinite(found.value)
    return found.value


def forward_of(market: dict[str, Any]) -> tuple[float, float]:
    """The discounted forward, and the discount factor."""
    return market["S"] * math.exp(-market["q"] * market["T"]), math.exp(-market["r"] * market["T"])


@given(MARKETS)
def test_call_less_put_is_the_forward(market: dict[str, Any]) -> None:
    held, discount = forward_of(market)
    gap = price("european", market, type="call") - price("european", market, type="put")
    assert gap == pytest.approx(held - discount * market["K"], abs=1e-11)


@given(MARKETS, TYPES, floats(1.01, 2.0), st.sampled_from(["up", "down"]))
def test_in_and_out_make_the_plain_option(
    market: dict[str, Any], type_: str, distance: float, side: str
) -> None:
    level = market["S"] * distance if side == "up" else market["S"] / distance
    fields = {"type": type_, "monitoring": CONTINUOUS}
    parts = [
        price("barrier", market, barrier={"level": level, "type": f"{side}-{effect}"}, **fields)
        for effect in ("in", "out")
    ]
    plain = price("european", market, type=type_)
    assert sum(parts) == pytest.approx(plain, abs=1e-10)
    assert min(parts) >= -1e-10
    assert max(parts) <= plain + 1e-10


@given(MARKETS, TYPES, floats(1.02, 2.0), floats(1.02, 2.0))
def test_a_second_barrier_takes_away(market: dict[str, Any], type_: str, above: float, below: float) -> None:
    upper, lower = market["S"] * above, market["S"] / below
    fields = {"type": type_, "monitoring": CONTINUOUS}
    levels = {"lower": lower, "upper": upper}
    both = price("double_barrier", market, barrier=levels, **fields)
    one = price("barrier", market, barrier={"level": upper, "type": "up-out"}, **fields)
    other = price("barrier", market, barrier={"level": lower, "type": "down-out"}, **fields)
    assert -1e-10 <= both <= min(one, other) + 1e-10
    knocked_in = price(
        "double_barrier", market, barrier={"lower": lower, "upper": upper, "type": "in"}, **fields
    )
    assert both + knocked_in == pytest.approx(price("european", market, type=type_), abs=1e-10)


@given(MARKETS, floats(1.01, 2.0), st.sampled_from(["up", "down"]))
def test_touched_or_not_is_certain(market: dict[str, Any], distance: float, side: str) -> None:
    level = market["S"] * distance if side == "up" else market["S"] / distance
    fields = {"level": level, "direction": side, "payout": 1, "monitoring": CONTINUOUS, "timing": "expiry"}
    market = {name: value for name, value in market.items() if name != "K"}
    one, none = (price("touch", market, touch=touch, **fields) for touch in ("one", "no"))
    assert one + none == pytest.approx(math.exp(-market["r"] * market["T"]), rel=1e-12)


@given(MARKETS, floats(1.0, 10.0))
def test_digitals_make_the_bond_and_the_option(market: dict[str, Any], payout: float) -> None:
    held, discount = forward_of(market)
    call, put = (price("digital", market, type=t, payout=payout) for t in ("call", "put"))
    assert call + put == pytest.approx(payout * discount, rel=1e-12)
    asset = price("digital", market, type="call", pays="asset")
    option = asset - market["K"] * price("digital", market, type="call")
    assert option == pytest.approx(price("european", market, type="call"), abs=1e-10)
    assert 0.0 <= asset <= held * (1.0 + 1e-12)


@given(MARKETS, TYPES, floats(1e-3, 0.5))
def test_more_volatility_is_worth_more(market: dict[str, Any], type_: str, more: float) -> None:
    calm = price("european", market, type=type_)
    wild = price("european", market | {"vol": market["vol"] + more}, type=type_)
    assert wild >= calm - 1e-12 * market["S"]


@given(MARKETS, TYPES, floats(0.1, 50.0))
def test_prices_are_convex_and_monotone_in_the_strike(
    market: dict[str, Any], type_: str, width: float
) -> None:
    strikes = [market["K"] + k * width for k in range(3)]
    low, middle, high = (price("european", market | {"K": k}, type=type_) for k in strikes)
    assert low + high - 2.0 * middle >= -1e-11
    assert (low >= high - 1e-11) if type_ == "call" else (high >= low - 1e-11)


@settings(max_examples=15)
@given(CARRIED, TYPES)
def test_early_exercise_is_worth_something(market: dict[str, Any], type_: str) -> None:
    found = price("american", market, type=type_)
    intrinsic = (
        max(market["S"] - market["K"], 0.0) if type_ == "call" else max(market["K"] - market["S"], 0.0)
    )
    assert found >= max(price("european", market, type=type_), intrinsic) - 1e-5
    assert found <= max(market["S"], market["K"]) * math.exp(max(-market["r"], 0.0) * market["T"]) + 1e-5


@settings(max_examples=15)
@given(CARRIED, TYPES)
def test_bermudans_lie_between(market: dict[str, Any], type_: str) -> None:
    few, more = (price("bermudan", market, type=type_, exercise={"n": n}) for n in (2, 4))
    assert price("european", market, type=type_) - 1e-8 <= few <= more + 1e-8
    assert more <= price("american", market, type=type_) + 1e-3


@FEW
@given(MARKETS, TYPES, st.integers(1, 8))
def test_the_geometric_average_lies_below(market: dict[str, Any], type_: str, n: int) -> None:
    arithmetic, geometric = (
        price("asian", market, type=type_, averaging={"kind": kind, "n": n})
        for kind in ("arithmetic", "geometric")
    )
    assert (arithmetic >= geometric - 1e-8) if type_ == "call" else (arithmetic <= geometric + 1e-8)
    if n == 1:
        assert arithmetic == pytest.approx(price("european", market, type=type_), abs=1e-9)


@FEW
@given(MARKETS, TYPES)
def test_floating_averages_satisfy_parity(market: dict[str, Any], type_: str) -> None:
    """E max(S - A, 0) - E max(A - S, 0) = E S - E A."""
    terms = {name: value for name, value in market.items() if name != "K"}
    average = {"kind": "arithmetic", "n": 4}
    call, put = (price("asian", terms, type=t, averaging=average) for t in ("call", "put"))
    growth = market["r"] - market["q"]
    means = [market["S"] * math.exp(growth * market["T"] * i / 4) for i in range(1, 5)]
    gap = math.exp(-market["r"] * market["T"]) * (means[-1] - sum(means) / 4)
    assert call - put == pytest.approx(gap, abs=1e-8)


@FEW
@given(MARKETS, TYPES, st.integers(1, 6))
def test_looking_back_is_worth_more_the_more_often(market: dict[str, Any], type_: str, n: int) -> None:
    terms = {name: value for name, value in market.items() if name != "K"}
    watched = [{"kind": "discrete", "n": k, "include_t0": True} for k in (n, 2 * n)] + [CONTINUOUS]
    found = [price("lookback", terms, type=type_, monitoring=m) for m in watched]
    assert found == sorted(found) or found == pytest.approx(sorted(found), abs=1e-8)


@FEW
@given(MARKETS, TYPES, st.integers(1, 5))
def test_a_fixed_lookback_is_made_of_digitals_of_its_extreme(
    market: dict[str, Any], type_: str, n: int
) -> None:
    """Two ways to a known extreme: max(M, e) - K for e >= K is e - K and a floating one's excess."""
    extreme = market["S"] * (1.2 if type_ == "call" else 0.8)
    strike = extreme * (0.9 if type_ == "call" else 1.1)
    watched = {"kind": "discrete", "n": n, "include_t0": True}
    fixed = price("lookback", market | {"K": strike}, type=type_, extreme=extreme, monitoring=watched)
    terms = {name: value for name, value in market.items() if name != "K"}
    other = "put" if type_ == "call" else "call"
    floating = price("lookback", terms, type=other, extreme=extreme, monitoring=watched)
    held, discount = forward_of(market)
    sign = 1.0 if type_ == "call" else -1.0
    assert fixed - sign * (held - discount * strike) == pytest.approx(floating, abs=1e-7)


@given(MARKETS, TYPES, floats(-0.99, 0.99))
def test_best_and_worst_of_two_are_both(market: dict[str, Any], type_: str, rho: float) -> None:
    both = market | {"S": [market["S"], 100.0], "vol": [market["vol"], 0.3], "corr": rho}
    best, worst = (price(name, both, type=type_) for name in ("best_of", "worst_of"))
    single = price("european", market, type=type_)
    second = price("european", market | {"S": 100.0, "vol": 0.3}, type=type_)
    assert best + worst == pytest.approx(single + second, abs=1e-9)
    assert worst - 1e-9 <= best if type_ == "call" else best - 1e-9 <= worst


@FEW
@given(MARKETS, floats(-0.95, 0.95))
def test_a_spread_without_strike_is_an_exchange(market: dict[str, Any], rho: float) -> None:
    both = market | {"S": [market["S"], 100.0], "vol": [market["vol"], 0.3], "corr": rho}
    spread = price("spread", both | {"K": 0}, type="call")
    exchange = price("exchange", {name: v for name, v in both.items() if name != "K"})
    assert spread == pytest.approx(exchange, abs=1e-9)


@FEW
@given(MARKETS, TYPES)
def test_jumps_that_do_not_move_are_none(market: dict[str, Any], type_: str) -> None:
    none = {"name": "merton", "params": {"lam": 3, "mu_j": 0, "sigma_j": 0}}
    assert price("european", market, type=type_, model=none) == pytest.approx(
        price("european", market, type=type_), abs=1e-10
    )


@FEW
@given(MARKETS, TYPES, floats(1e-6, 1.0), floats(-1.0, 1.0))
def test_heston_prices_keep_their_bounds(market: dict[str, Any], type_: str, xi: float, rho: float) -> None:
    variance = market["vol"] ** 2
    terms = {name: value for name, value in market.items() if name != "vol"}
    params = {"v0": variance, "kappa": 1.5, "theta": variance, "xi": xi, "rho": rho}
    found = price("european", terms, type=type_, model={"name": "heston", "params": params})
    held, discount = forward_of(market)
    owed = discount * market["K"]
    low = max(held - owed, 0.0) if type_ == "call" else max(owed - held, 0.0)
    assert low - 1e-8 <= found <= (held if type_ == "call" else owed) + 1e-8
    if xi < 1e-4:
        assert found == pytest.approx(price("european", market, type=type_), abs=1e-3)


@FEW
@given(MARKETS, TYPES, floats(0.0, 0.99))
def test_elastic_variance_keeps_its_bounds(market: dict[str, Any], type_: str, beta: float) -> None:
    terms = {name: value for name, value in market.items() if name != "vol"}
    params = {"delta": market["vol"] * market["S"] ** (1.0 - beta), "beta": beta}
    model = {"name": "cev", "params": params}
    call, put = (price("european", terms, type=t, model=model) for t in ("call", "put"))
    held, discount = forward_of(market)
    assert call - put == pytest.approx(held - discount * market["K"], abs=1e-8)
    assert min(call, put) >= -1e-9


@given(MARKETS, TYPES)
def test_volatilities_come_back_from_prices(market: dict[str, Any], type_: str) -> None:
    found = price("european", market, type=type_)
    terms = {name: value for name, value in market.items() if name != "vol"}
    held, discount = forward_of(market)
    owed = discount * market["K"]
    intrinsic = max(held - owed, 0.0) if type_ == "call" else max(owed - held, 0.0)
    assume(found - intrinsic > 1e-9 * found and found >= SMALLEST)
    request = {"instrument": "implied_vol", **terms, "type": type_, "price": found}
    answer = implied_vol(read_spec(request))
    slack = 1e3 * answer.accuracy + 2e-15 * market["S"] / (found - intrinsic)
    assert answer.value == pytest.approx(market["vol"], rel=slack)


CERTAIN: list[dict[str, Any]] = [
    {"instrument": "european", "type": "call"},
    {"instrument": "asian", "type": "call", "averaging": {"kind": "arithmetic", "n": 4}},
    {"instrument": "asian", "type": "put", "averaging": {"kind": "geometric", "continuous": True}},
    {"instrument": "bermudan", "type": "put", "exercise": {"n": 2}},
    {"instrument": "chooser", "t_choose": 0.01},
]


@pytest.mark.parametrize("request_", CERTAIN, ids=lambda r: r["instrument"])
@FEW
@given(market=MARKETS)
def test_small_volatilities_lead_to_the_certain_path(
    request_: dict[str, Any], market: dict[str, Any]
) -> None:
    def at(vol: float) -> Spec:
        return read_spec(request_ | market | {"vol": vol})

    calm = at(1e-2)
    assume(any(methods_for(calm)))
    found = exact(calm, ())
    assert found is not None
    still = certain_value(replace(calm, market=at(0.0).market))
    assert found.value == pytest.approx(still, abs=2e-2 * market["S"] * math.sqrt(market["T"]))
