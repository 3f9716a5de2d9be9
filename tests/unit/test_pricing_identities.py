"""Contracts that are others in disguise: each product beside one that is priced in another way."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pricing_requests import CONTINUOUS, answer, barrier, spec, value

from engine.pricing.analytic import exact
from engine.pricing.spec import read_spec

DISCOUNT = math.exp(-0.05)
BARE = {"S": 100, "T": 1, "r": 0.05, "vol": 0.2}


def bare(instrument: str, **fields: Any) -> float:
    """The price of a contract that has no strike of its own."""
    found = exact(read_spec({"instrument": instrument, **BARE, **fields}), ())
    assert found is not None
    return found.value


def monitored(n: int, *, include_t0: bool = False) -> dict[str, Any]:
    return {"monitoring": {"kind": "discrete", "n": n, "include_t0": include_t0}}


@pytest.mark.parametrize("type_", ["call", "put"])
def test_one_date_at_expiry_makes_a_barrier_a_gap(type_: str) -> None:
    """Alive at expiry below 130: the option less what it pays beyond."""
    level = {"barrier": {"level": 130, "type": "up-out", "rebate": 2, "rebate_timing": "expiry"}}
    out = value("barrier", type=type_, **level, **monitored(1))
    beyond = value("gap", type="call", K=100, trigger=130) if type_ == "call" else 0.0
    rebate = value("digital", type="call", K=130, payout=2)
    assert out == pytest.approx(value("european", type=type_) - beyond + rebate, rel=1e-12)


def test_dates_close_together_come_near_to_watching_always() -> None:
    """Broadie, Glasserman and Kou (1997): the barrier moves by exp(0.5826 vol sqrt(step))."""
    shifted = 130 * math.exp(-0.5825971579 * 0.2 * math.sqrt(1 / 100))
    level = {"barrier": {"level": shifted, "type": "up-out"}}
    dates = value("barrier", type="call", **level, **monitored(100))
    assert dates == pytest.approx(value("barrier", type="call", **barrier("up-out", 130)), rel=0.01)


def test_rebates_at_dates_are_digitals_one_after_the_other() -> None:
    """With two dates: touched at the first, or at the second and not at the first."""
    fields = {"level": 110, "direction": "up", "payout": 5, **monitored(2)}
    hit, late = (bare("touch", timing=timing, **fields) for timing in ("hit", "expiry"))
    half = bare("digital", type="call", K=110, payout=5, T=0.5)
    assert hit - late == pytest.approx(half * (1 - math.exp(-0.025)), rel=1e-9)
    none = bare("touch", touch="no", timing="expiry", **fields)
    assert late + none == pytest.approx(5 * DISCOUNT, rel=1e-9)


def test_an_autocallable_with_one_date_is_digitals_and_a_put() -> None:
    terms = {"observations": {"n": 1}, "call_level": 105, "coupon": 0.1, "protection": 80, "reference": 100}
    found = bare("autocallable", notional=100, **terms)
    called = bare("digital", type="call", K=105, payout=110)
    safe = bare("digital", type="call", K=80, payout=100) - bare("digital", type="call", K=105, payout=100)
    lost = bare("digital", type="put", K=80, pays="asset", payout=1)
    assert found == pytest.approx(called + safe + lost, rel=1e-12)


def test_an_autocallable_that_cannot_be_called_is_its_end() -> None:
    terms = {"observations": {"n": 4}, "call_level": 1e6, "coupon": 0.1, "protection": 80, "reference": 100}
    safe = bare("digital", type="call", K=80, payout=1)
    lost = bare("digital", type="put", K=80, pays="asset", payout=0.01)
    assert bare("autocallable", **terms) == pytest.approx(safe + lost, rel=1e-9)


def test_an_unbounded_cliquet_is_the_sum_of_its_forwards() -> None:
    found = bare("cliquet", resets={"n": 4}, floor=None)
    assert found == pytest.approx(DISCOUNT * 4 * math.expm1(0.05 / 4), rel=1e-12)


def test_a_cliquet_of_one_period_is_a_call_spread() -> None:
    found = bare("cliquet", resets={"n": 1}, floor=0.0, cap=0.1, notional=100)
    spread = value("european", type="call", K=100) - value("european", type="call", K=110)
    assert found == pytest.approx(spread, rel=1e-12)


def test_a_forward_start_that_starts_now_is_an_option() -> None:
    found = bare("forward_start", type="put", alpha=1.1, t_start=0)
    assert found == pytest.approx(value("european", type="put", K=110), rel=1e-13)


def test_a_chooser_between_now_and_expiry() -> None:
    call, put = (value("european", type=type_) for type_ in ("call", "put"))
    assert value("chooser", t_choose=0) == pytest.approx(max(call, put), rel=1e-13)
    assert value("chooser", t_choose=1) == pytest.approx(call + put, rel=1e-13)


COMPOUNDS = [(mother, daughter) for mother in ("call", "put") for daughter in ("call", "put")]


@pytest.mark.parametrize(("mother", "daughter"), COMPOUNDS)
@pytest.mark.parametrize(
    ("limit", "near"),
    [
        ({"t_mother": 0}, {"t_mother": 1e-9}),
        ({"t_mother": 1}, {"t_mother": 1 - 1e-9}),
        ({"K_mother": 0}, {"K_mother": 1e-9}),
        ({"K_daughter": 0}, {"K_daughter": 1e-7}),
    ],
)
def test_compounds_reach_their_limits(
    mother: str, daughter: str, limit: dict[str, float], near: dict[str, float]
) -> None:
    terms = {"mother": mother, "daughter": daughter, "t_mother": 0.4, "K_mother": 5, "K_daughter": 105}
    at, beside = (bare("compound", **(terms | more)) for more in (limit, near))
    assert at == pytest.approx(beside, abs=2e-3)


@pytest.mark.parametrize("daughter", ["call", "put"])
def test_a_call_and_a_put_on_an_option_are_the_option(daughter: str) -> None:
    terms = {"daughter": daughter, "t_mother": 0.4, "K_mother": 5, "K_daughter": 105}
    call, put = (bare("compound", mother=mother, **terms) for mother in ("call", "put"))
    option = value("european", type=daughter, K=105)
    assert call - put == pytest.approx(option - 5 * math.exp(-0.02), abs=1e-12)


def test_a_lookback_over_one_date_is_an_option_or_nothing() -> None:
    assert bare("lookback", type="call", **monitored(1)) == pytest.approx(0.0, abs=1e-12)
    from_today = bare("lookback", type="call", **monitored(1, include_t0=True))
    assert from_today == pytest.approx(value("european", type="call"), rel=1e-12)


def test_a_fixed_lookback_over_one_date_is_the_option() -> None:
    found = value("lookback", type="call", K=110, **monitored(1))
    assert found == pytest.approx(value("european", type="call", K=110), rel=1e-12)


def test_fixed_and_floating_lookbacks_agree_by_two_methods() -> None:
    """A call on the maximum from today struck at the spot: Spitzer's identity, and the recursion."""
    fixed = value("lookback", type="call", K=100, **monitored(12, include_t0=True))
    floating = bare("lookback", type="put", **monitored(12, include_t0=True))
    assert fixed - (100 - 100 * DISCOUNT) == pytest.approx(floating, abs=1e-8)


def test_an_average_of_one_fixing_is_the_option() -> None:
    for kind in ("arithmetic", "geometric"):
        found = value("asian", type="put", K=95, averaging={"kind": kind, "n": 1})
        assert found == pytest.approx(value("european", type="put", K=95), rel=1e-10)


def test_a_floating_average_of_one_fixing_before_the_end_is_a_forward_start() -> None:
    average = {"kind": "arithmetic", "times": [0.5]}
    found = bare("asian", type="call", averaging=average)
    assert found == pytest.approx(bare("forward_start", type="call", alpha=1, t_start=0.5), rel=1e-9)


def test_unequal_dates_and_pieces_are_served_too() -> None:
    """The same law in two pieces of equal volatility, on dates that are equal but given one by one."""
    pieces = {"vol": {"until": [0.3], "values": [0.2, 0.2]}}
    times = {"times": [i / 6 for i in range(1, 7)]}
    level = {"barrier": {"level": 80, "type": "down-out"}}
    mean = {"kind": "arithmetic"}
    for instrument, fields, by_time in (
        ("asian", {"averaging": mean | {"n": 6}}, {"averaging": mean | times}),
        ("bermudan", {"exercise": {"n": 6}}, {"exercise": times}),
        ("barrier", level | monitored(6), level | {"monitoring": {"kind": "discrete", **times}}),
    ):
        found = value(instrument, type="put", **by_time, **pieces)
        assert found == pytest.approx(value(instrument, type="put", **fields), abs=1e-7), instrument


def test_discrete_variance_is_larger_than_continuous_by_the_drift() -> None:
    continuous = bare("variance_swap", monitoring=CONTINUOUS, K=0.04)
    assert continuous == pytest.approx(0.0, abs=1e-15)
    daily = bare("variance_swap", K=0.04, **monitored(4))
    assert daily == pytest.approx(DISCOUNT * 4 * ((0.05 - 0.02) / 4) ** 2, rel=1e-12)


def test_models_without_their_particularity_are_black_scholes() -> None:
    plain = value("european", type="call", K=105)
    market = {"S": 100, "K": 105, "T": 1, "r": 0.05}
    flat = {"v0": 0.04, "kappa": 2, "theta": 0.04, "xi": 0, "rho": 0}
    models: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"name": "heston", "params": flat}, {}),
        ({"name": "cev", "params": {"delta": 0.2, "beta": 1}}, {}),
        ({"name": "displaced", "params": {"shift": 0}}, {"vol": 0.2}),
        ({"name": "merton", "params": {"lam": 0, "mu_j": 0.1, "sigma_j": 0.1}}, {"vol": 0.2}),
    ]
    for model, more in models:
        request = {"instrument": "european", "type": "call", **market, "model": model, **more}
        found = exact(read_spec(request), ())
        assert found is not None
        assert found.value == pytest.approx(plain, rel=1e-12), model["name"]


MODELS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "black_scholes"}, {"vol": 0.2}),
    ({"name": "heston", "params": {"v0": 0.04, "kappa": 2, "theta": 0.06, "xi": 0.7, "rho": -0.6}}, {}),
    ({"name": "cev", "params": {"delta": 2, "beta": 0.5}}, {}),
    ({"name": "displaced", "params": {"shift": 40}}, {"vol": 0.15}),
    ({"name": "merton", "params": {"lam": 1, "mu_j": -0.1, "sigma_j": 0.2}}, {"vol": 0.15}),
]


@pytest.mark.parametrize(("model", "more"), MODELS, ids=lambda part: part.get("name", ""))
def test_digitals_are_slopes_of_options_in_the_strike(model: dict[str, Any], more: dict[str, Any]) -> None:
    def at(instrument: str, strike: float, **fields: Any) -> float:
        request = {"S": 100, "K": strike, "T": 1, "r": 0.05, "q": 0.02, "model": model, **more, **fields}
        found = exact(read_spec({"instrument": instrument, **request}), ())
        assert found is not None
        return found.value

    h = 0.05
    for type_, sign in (("call", -1.0), ("put", 1.0)):
        steps = [at("european", 105 + k * h, type=type_) for k in (-2, -1, 1, 2)]
        slope = (steps[0] - 8 * steps[1] + 8 * steps[2] - steps[3]) / (12 * h)
        cash = at("digital", 105, type=type_)
        assert cash == pytest.approx(sign * slope, abs=1e-8)
        asset = at("digital", 105, type=type_, pays="asset")
        assert sign * (105 * cash - asset) == pytest.approx(at("european", 105, type=type_), abs=1e-9)


def test_american_calls_without_yield_are_european() -> None:
    assert value("american", type="call") == pytest.approx(value("european", type="call"), rel=1e-14)
    assert value("american", type="put", r=0) == pytest.approx(value("european", type="put", r=0), rel=1e-14)


def test_changing_rates_price_an_american_option_by_finite_differences() -> None:
    level = {"until": [0.5], "values": [0.05, 0.05]}
    steps = answer("american", type="put", r=level)
    assert steps.method == "finite differences"
    assert steps.value == pytest.approx(value("american", type="put"), abs=5e-6)


def test_what_no_method_serves_has_no_exact_price() -> None:
    several = {"S": [100] * 3, "K": 100, "T": 1, "r": 0.05, "vol": 0.2}
    corr = [[1, 0.2, 0.2], [0.2, 1, 0.2], [0.2, 0.2, 1]]
    assert exact(read_spec({"instrument": "best_of", "type": "call", **several, "corr": corr})) is None
    changing = {"until": [0.5], "values": [0.1, 0.3]}
    assert exact(spec("barrier", type="call", vol=changing, **barrier("up-out", 130))) is None
