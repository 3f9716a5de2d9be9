"""A simulated Greek that cannot be had is none and says why; at the limits of models prices stay right."""

from __future__ import annotations

from typing import Any

import pytest

from engine.pricing import price
from engine.pricing.result import Result
from engine.pricing.spec import read_spec

MARKET: dict[str, Any] = {"S": 100.0, "T": 1.0, "r": 0.05}
SIMULATED = {"paths": 16_384, "seed": 1}


def priced(**request: Any) -> Result:
    found = price(read_spec({**MARKET, **request}))
    assert isinstance(found, Result)
    return found


def heston(**numbers: float) -> dict[str, Any]:
    usual = {"v0": 0.04, "kappa": 1.5, "theta": 0.04, "xi": 0.5, "rho": -0.5}
    return {"name": "heston", "params": {**usual, **numbers}}


@pytest.mark.parametrize(
    ("request_", "names", "reason"),
    [
        (
            {"instrument": "bermudan", "type": "put", "K": 110, "vol": 0.2, "exercise": {"n": 3}},
            ("vanna", "volga"),
            "moves with the volatility",
        ),
        (
            {
                "instrument": "compound",
                "vol": 0.2,
                "mother": "call",
                "daughter": "put",
                "K_mother": 3,
                "K_daughter": 100,
                "t_mother": 0.5,
            },
            ("vanna", "volga"),
            "moves with the volatility",
        ),
        (
            {"instrument": "european", "type": "call", "K": 100, "model": heston(rho=1.0)},
            ("gamma",),
            "no density",
        ),
        (
            {
                "instrument": "digital",
                "type": "call",
                "K": 100,
                "pays": "cash",
                "payout": 1,
                "model": heston(rho=-1.0),
            },
            ("delta", "gamma"),
            "no density",
        ),
        (
            {
                "instrument": "digital",
                "type": "call",
                "K": 100,
                "pays": "cash",
                "payout": 1,
                "vol": 0.0,
                "model": {"name": "merton", "params": {"lam": 1.0, "mu_j": -0.1, "sigma_j": 0.2}},
            },
            ("delta",),
            "no density",
        ),
    ],
    ids=["early exercise", "compound", "Heston", "digital under Heston", "digital under Merton"],
)
def test_a_greek_that_would_be_wrong_is_none(
    request_: dict[str, Any], names: tuple[str, ...], reason: str
) -> None:
    found = priced(**request_, greeks=list(names), mc=SIMULATED).greeks
    for name in names:
        assert found[name].value is None
        assert reason in found[name].method


def test_what_can_be_estimated_is_decided_for_each_request() -> None:
    request = {"instrument": "exchange", "S": [100.0, 90.0], "vol": [0.2, 0.3], "greeks": ["gamma"]}
    alike = [priced(**request, corr=corr, mc=SIMULATED).greeks["gamma1"] for corr in (0.5, 1.0, 0.5)]
    assert [own.value is None for own in alike] == [False, True, False]
    assert alike[0] == alike[2]


@pytest.mark.parametrize("numbers", [{"theta": 0.0}, {"kappa": 0.0}, {"theta": 0.0, "kappa": 0.0}])
def test_a_variance_that_dies_out_or_never_reverts(numbers: dict[str, float]) -> None:
    request = {"instrument": "european", "type": "call", "K": 100, "model": heston(**numbers)}
    found = priced(**request, greeks=["delta"], mc={**SIMULATED, "steps": 64})
    assert found.closed_form is not None
    assert abs(found.price - found.closed_form.value) <= 3.5 * found.se
    delta, exact = found.greeks["delta"], priced(**request, greeks=["delta"]).greeks["delta"].value
    assert delta.value is not None
    assert exact is not None
    assert abs(delta.value - exact) <= 3.5 * delta.se


def test_a_law_that_is_too_wide_has_no_control_and_a_warning() -> None:
    request = {
        "instrument": "barrier",
        "type": "call",
        "K": 100,
        "barrier": {"level": 90, "type": "down-out"},
        "monitoring": {"kind": "discrete", "n": 2},
    }
    wide = priced(**request, vol=8.0, greeks=["delta"], mc=SIMULATED)
    assert wide.price <= 100.0
    assert any("wide" in warning for warning in wide.warnings)
    assert not priced(**request, vol=0.4, greeks=["delta"], mc=SIMULATED).warnings


@pytest.mark.parametrize(
    ("instrument", "more"),
    [
        ("barrier", {"type": "call", "K": 100, "barrier": {"level": 99.5, "type": "down-out"}}),
        (
            "double_barrier",
            {"type": "call", "K": 100, "barrier": {"lower": 99.5, "upper": 130, "type": "out"}},
        ),
        ("lookback", {"type": "call", "K": 100, "extreme": 100.5}),
    ],
)
def test_differences_do_not_step_over_a_level_that_is_watched_today(
    instrument: str, more: dict[str, Any]
) -> None:
    """Where today's spot is on the safe side, or is not the extreme, today does not matter."""

    def greeks(times: list[float]) -> dict[str, float | None]:
        found = priced(
            **more,
            instrument=instrument,
            vol=0.2,
            monitoring={"kind": "discrete", "times": times},
            greeks=["delta", "gamma"],
            method="closed_form",
        )
        return {name: own.value for name, own in found.greeks.items()}

    assert greeks([0.0, 1.0]) == pytest.approx(greeks([1.0]), rel=1e-5)
