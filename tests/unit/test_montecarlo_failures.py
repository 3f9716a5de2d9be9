"""Inputs on which simulations have failed: ours gives the right answer where a simulation is asked for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.pricing import price
from engine.pricing.result import Result
from engine.pricing.spec import SpecError, read_spec

CALL: dict[str, Any] = {
    "instrument": "european",
    "type": "call",
    "S": 100,
    "K": 100,
    "T": 1,
    "r": 0.05,
    "vol": 0.2,
}
HIT = {
    **CALL,
    "instrument": "barrier",
    "S": 131,
    "monitoring": {"kind": "continuous"},
    "barrier": {"level": 130, "type": "up-out"},
}
ANDERSEN = {
    "instrument": "european",
    "type": "call",
    "S": 100,
    "K": 100,
    "T": 10,
    "r": 0,
    "model": {"name": "heston", "params": {"v0": 0.04, "kappa": 0.5, "theta": 0.04, "xi": 1.0, "rho": -0.9}},
}


def answer(request: dict[str, Any], **more: Any) -> Result:
    found = price(read_spec({**request, **more}))
    assert isinstance(found, Result)
    return found


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(HIT, 0.0, id="1: knocked out already"),
        pytest.param(
            {**HIT, "barrier": {"level": 130, "type": "up-in"}}, 36.393880, id="1: knocked in already"
        ),
        pytest.param(
            {
                **HIT,
                "S": 0.01,
                "K": 1.9,
                "vol": 0.25,
                "T": 0.5,
                "r": 0,
                "barrier": {"level": 0.5, "type": "down-out"},
            },
            0.0,
            id="2: below a lower barrier",
        ),
        pytest.param({**CALL, "S": 110, "T": 0}, 10.0, id="3: at expiry"),
        pytest.param({**CALL, "T": 0}, 0.0, id="3: at expiry, at the money"),
        pytest.param({**CALL, "K": 102, "q": 0.02, "vol": 0}, 0.994466, id="4: no volatility"),
        pytest.param({**CALL, "K": 102, "q": 0.02, "vol": 0, "type": "put"}, 0.0, id="4: the put"),
        pytest.param(
            {**CALL, "instrument": "american", "type": "put", "S": 90, "vol": 0},
            10.0,
            id="5: exercised at once",
        ),
        pytest.param(
            {**CALL, "instrument": "american", "S": 110, "r": -0.05, "vol": 0},
            10.0,
            id="5: at a negative rate",
        ),
        pytest.param({**CALL, "S": 200, "K": 0}, 200.0, id="6: no strike"),
        pytest.param(
            {"instrument": "exchange", "S": [100, 100], "T": 1, "vol": [0.2, 0.2], "corr": 1.0},
            0.0,
            id="21: one factor",
        ),
    ],
)
def test_edges_are_answered_exactly(request_: dict[str, Any], expected: float) -> None:
    found = answer(request_, mc={"paths": 4096})
    assert found.price == pytest.approx(expected, abs=1e-6 + 3.5 * found.se)
    assert all(greek.value is None or math.isfinite(greek.value) for greek in found.greeks.values())


def test_heston_is_simulated_without_the_bias_of_euler() -> None:
    found = answer(ANDERSEN, mc={"paths": 2**15, "seed": 2, "steps": 160})
    assert abs(found.price - 13.084670) <= 3.5 * found.se


def test_the_grid_of_an_average_is_what_was_asked_for() -> None:
    weekly = {**CALL, "instrument": "asian", "S": 120, "K": 120, "vol": 0.5, "r": 0.02, "T": 0.25}
    fixings = {"kind": "arithmetic", "n": 13}
    assert answer(weekly, averaging=fixings).price == pytest.approx(7.434223, abs=1e-6)
    assert answer(weekly, averaging={**fixings, "include_t0": True}).price == pytest.approx(
        6.903207, abs=1e-6
    )
    simulated = answer(weekly, averaging=fixings, mc={"paths": 2**15})
    assert abs(simulated.price - 7.434223) <= 3.5 * simulated.se


def test_fixings_of_the_past_are_said_and_count() -> None:
    seasoned = {
        **CALL,
        "instrument": "asian",
        "averaging": {"kind": "arithmetic", "n": 5, "past_sum": 550, "past_count": 5},
    }
    found = answer(seasoned, mc={"paths": 2**15})
    assert found.closed_form is not None
    assert abs(found.price - found.closed_form.value) <= 3.5 * found.se
    with pytest.raises(SpecError, match="past_count"):
        answer({**seasoned, "averaging": {"kind": "arithmetic", "n": 5, "past_sum": 550}})


def test_scrambles_follow_the_seed() -> None:
    prices = {answer(CALL, mc={"paths": 4096, "qmc": "sobol", "seed": seed}).price for seed in (0, 1)}
    assert len(prices) == 2
    assert answer(CALL, mc={"paths": 4096, "qmc": "sobol", "seed": 0}).price in prices


def test_the_exercise_rule_comes_from_other_paths() -> None:
    put = {**CALL, "instrument": "bermudan", "type": "put", "exercise": {"n": 10}, "mc": {"paths": 2**15}}
    found = answer(put)
    assert "separate paths" in found.method and found.bias.endswith("low")
    assert found.z is not None and found.z < 3.5


@pytest.mark.parametrize(
    "product",
    [
        {"instrument": "chooser", "K": 100, "t_choose": 0.5},
        {"instrument": "quanto", "type": "call", "K": 100, "r_foreign": 0.0, "vol_fx": 0.1, "rho_fx": 0.3},
    ],
)
def test_values_known_under_black_scholes_alone_are_asked_of_it_alone(product: dict[str, Any]) -> None:
    request = {**product, "S": 100, "T": 1, "r": 0.05, "vol": 0.2}
    jumps = {"name": "merton", "params": {"lam": 1, "mu_j": 0, "sigma_j": 0.1}}
    with pytest.raises(SpecError, match="must be black_scholes"):
        price(read_spec({**request, "model": jumps}))


def test_an_extreme_so_far_counts_beside_todays_spot() -> None:
    lookback = {"instrument": "lookback", "type": "put", "K": 110, "S": 95, "T": 0.25, "r": 0.05, "vol": 0.2}
    watched = {"kind": "discrete", "n": 5, "include_t0": True}
    found = answer(lookback, extreme=110, monitoring=watched, mc={"paths": 2**15})
    assert abs(found.price - 19.6002) <= 3.5 * found.se + 1e-4


def test_a_choice_that_is_made_today_is_no_choice() -> None:
    chooser = {"instrument": "chooser", "S": 100, "K": 100, "T": 0.5, "t_choose": 0, "r": 0.05, "vol": 0.2}
    call = {**CALL, "T": 0.5}
    assert answer(chooser, mc={"paths": 4096}).price == pytest.approx(answer(call).price, abs=1e-10)


def test_the_variance_of_a_continuous_swap_is_the_integral() -> None:
    swap = {"instrument": "variance_swap", "S": 100, "T": 1, "r": 0.05, "vol": 0.2}
    found = answer(swap, monitoring={"kind": "continuous"}, mc={"paths": 4096})
    assert found.price == pytest.approx(0.04 * math.exp(-0.05), rel=1e-12)
