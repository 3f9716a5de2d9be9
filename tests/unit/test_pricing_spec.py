"""Requests as specs: what is read, what is refused, and where the refusal points."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.pricing.spec import PRODUCTS, Curve, Heston, SpecError, describe, read_spec
from engine.pricing.spec.curve import product_integral
from engine.pricing.spec.fields import parts
from engine.pricing.spec.simulation import Simulation

EUROPEAN: dict[str, Any] = {"instrument": "european", "type": "call", "S": 100, "K": 100, "T": 1, "vol": 0.2}
TWO = {"instrument": "spread", "type": "call", "S": [100, 90], "K": 5, "T": 1, "vol": 0.2, "corr": 0.3}
HESTON = {"v0": 0.04, "kappa": 1, "theta": 0.04, "xi": 0.3, "rho": -0.5}
JUMPS = {"lam": 150, "mu_j": 0, "sigma_j": 0.1}
CUSTOM = {
    "instrument": "custom",
    "payoff": "last(S)",
    "S": 1,
    "vol": 0.2,
    "monitoring": {"kind": "continuous"},
}
AVERAGE = {"instrument": "asian", "averaging": {"kind": "arithmetic", "n": 4}}


def without(request: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name not in names}


@pytest.mark.parametrize(
    ("request_", "path", "rule"),
    [
        (EUROPEAN | {"vol": "0.2"}, "vol", "must be a number"),
        (EUROPEAN | {"vol": True}, "vol", "must be a number"),
        (
            EUROPEAN | {"model": {"name": "merton", "params": JUMPS | {"sigma_j": 10}}},
            "model.params",
            "growth",
        ),
        (EUROPEAN | {"model": {"name": "merton", "params": JUMPS | {"mu_j": -9}}}, "model.params", "growth"),
        (
            EUROPEAN | {"T": 11, "model": {"name": "merton", "params": JUMPS | {"lam": 1e4}}},
            "model.params.lam",
            "must be at most 100000 / T",
        ),
        (CUSTOM | {"T": 0}, "T", "must be greater than 0 for custom"),
        (EUROPEAN | {"vol": 10**400}, "vol", "must be at most"),
        (EUROPEAN | {"S": -(10**400)}, "S", "must be at least 0"),
        (EUROPEAN | {"S": 5e-324}, "S", "must be 0 or at least 1e-50 in size"),
        (EUROPEAN | {"T": 1e-300}, "T", "must be 0 or at least 1e-50 in size"),
        (EUROPEAN | {"T": 1e-13}, "T", "must be 0 or at least 1e-12"),
        (EUROPEAN | {"type": "C"}, "type", "must be one of call, put"),
        (EUROPEAN | {"instrument": "European"}, "instrument", "must be one of european"),
        (EUROPEAN | {"r": 5.25}, "r", "allow_extreme"),
        (EUROPEAN | {"q": -1.5}, "q", "allow_extreme"),
        (EUROPEAN | {"r": 0.9, "T": 150}, "r", "over T"),
        (EUROPEAN | {"vol": 90, "T": 50}, "vol", "over T"),
        (EUROPEAN | {"vol": 101}, "vol", "at most 100"),
        (EUROPEAN | {"barrier": {"level": 1}}, "barrier", "is not a field of european"),
        (EUROPEAN | {"greeks": ["Delta"]}, "greeks[0]", "must be one of delta"),
        (EUROPEAN | {"mc": {"paths": 1}}, "mc.paths", "must be from 2"),
        (EUROPEAN | {"mc": {"path": 10}}, "mc.path", "is not a field here"),
        (EUROPEAN | {"S": [100, 100]}, "S", "must have 1 spots"),
        (EUROPEAN | {"model": {"name": "heston", "params": HESTON}}, "vol", "must not be given"),
        (EUROPEAN | {"dividends": [[0.5, 200]]}, "dividends", "must leave a spot of at least 0"),
        (EUROPEAN | {"dividends": [[0, 1]]}, "dividends[0][0]", "after today"),
        (EUROPEAN | {"vol": {"until": [0.5], "values": [0.2]}}, "vol.values", "one item more"),
        (EUROPEAN | {"vol": {"until": [0.5, 0.5], "values": [1, 1, 1]}}, "vol.until[1]", "later"),
        (without(EUROPEAN, "vol"), "vol", "must be given"),
        (without(EUROPEAN, "T"), "T", "must be given"),
        (without(EUROPEAN, "K"), "K", "must be given"),
        (without(EUROPEAN, "S"), "S", "must be given"),
        (without(TWO, "corr"), "corr", "several assets"),
        (TWO | {"corr": 1.5}, "corr", "at most 1"),
        (TWO | {"corr": [[1, 0.2], [0.3, 1]]}, "corr[1][0]", "mirror"),
        (TWO | {"corr": [[2, 0.2], [0.2, 1]]}, "corr[0][0]", "at most 1"),
        (TWO | {"vol": [0.2, -0.2]}, "vol[1]", "at least 0"),
        (TWO | {"vol": [0.2, 0.2, 0.2]}, "vol", "one item for each of the 2 assets"),
        (TWO | {"dividends": [[0.5, 1]]}, "dividends", "empty for several assets"),
        (EUROPEAN | AVERAGE | {"averaging": {"n": 4}}, "averaging.kind", "must be given"),
        (EUROPEAN | AVERAGE | {"averaging": {"kind": "arithmetic"}}, "averaging", "either n or times"),
        (
            EUROPEAN | AVERAGE | {"averaging": {"kind": "arithmetic", "times": [0.5, 2]}},
            "averaging.times",
            "must not lie after T",
        ),
        (
            EUROPEAN | AVERAGE | {"averaging": {"kind": "arithmetic", "n": 2, "past_sum": 100}},
            "averaging.past_count",
            "must be given with past_sum",
        ),
    ],
)
def test_refusals_name_path_and_rule(request_: dict[str, Any], path: str, rule: str) -> None:
    with pytest.raises(SpecError) as refusal:
        read_spec(request_)
    assert refusal.value.path == path
    assert rule in str(refusal.value)


def test_a_correlation_that_is_none_is_refused_with_its_smallest_eigenvalue() -> None:
    corr = [[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]]
    basket = {
        "instrument": "basket",
        "type": "call",
        "S": [1, 1, 1],
        "K": 1,
        "T": 1,
        "vol": 0.2,
        "corr": corr,
    }
    with pytest.raises(SpecError, match=r"smallest eigenvalue is -0\.8"):
        read_spec(basket | {"corr": corr})


def test_rates_beyond_one_are_read_where_they_are_meant() -> None:
    spec = read_spec(EUROPEAN | {"r": 1.5, "allow_extreme": True})
    assert spec.market.rate.values == (1.5,)


def test_dates_become_years_by_their_day_count() -> None:
    dates = {"valuation_date": "2026-01-01", "expiry_date": "2026-07-02"}
    assert read_spec(without(EUROPEAN, "T") | dates).expiry == 182 / 365
    assert read_spec(without(EUROPEAN, "T") | dates | {"day_count": "ACT/360"}).expiry == 182 / 360
    with pytest.raises(SpecError, match="not be given beside T"):
        read_spec(EUROPEAN | dates)
    with pytest.raises(SpecError, match="must be a date such as"):
        read_spec(without(EUROPEAN, "T") | dates | {"expiry_date": "2026-02-30"})


def test_single_values_stand_for_all_assets() -> None:
    market = read_spec(TWO).market
    assert market.vols == (Curve((), (0.2,)),) * 2
    assert market.yields == (Curve((), (0.0,)),) * 2
    assert market.correlation == ((1.0, 0.3), (0.3, 1.0))


def test_the_canonical_request_is_the_same_for_the_same_contract() -> None:
    written_out = EUROPEAN | {"r": 0.0, "q": [0], "mc": None, "model": {"name": "black_scholes"}}
    first, second = read_spec(EUROPEAN), read_spec(without(written_out, "mc"))
    assert first == second
    assert first.hash() == second.hash()
    assert describe(first) == describe(second)
    assert first.hash() != read_spec(EUROPEAN | {"K": 101}).hash()


@pytest.mark.parametrize(
    "more",
    [
        {"vol": {"until": [0.25, 0.5], "values": [0.2, 0.25, 0.3]}, "dividends": [[0.3, 1], [0.1, 2]]},
        AVERAGE | {"averaging": {"kind": "geometric", "continuous": True, "past_sum": 1, "past_count": 0.5}},
        AVERAGE | {"averaging": {"kind": "arithmetic", "n": 3, "include_t0": True}},
        {"instrument": "custom", "payoff": "S - K", "monitoring": {"kind": "discrete", "n": 3},
         "constants": {"K": 3}},
        {"instrument": "european", "mc": {"paths": 1000, "seed": 3, "qmc": "sobol"}, "greeks": ["delta"]},
    ],
)  # fmt: skip
def test_the_canonical_request_reads_as_the_same_spec(more: dict[str, Any]) -> None:
    request = EUROPEAN | more
    if request["instrument"] == "custom":
        request = without(request, "type", "K")
    spec = read_spec(request)
    assert read_spec(describe(spec)) == spec


def test_curves_integrate_over_their_pieces() -> None:
    curve = Curve((1.0, 2.0), (0.1, 0.2, 0.4))
    assert curve.integral(0.0, 3.0) == pytest.approx(0.7)
    assert curve.integral(0.5, 1.5) == pytest.approx(0.15)
    assert curve.integral(2.5, 3.0) == pytest.approx(0.2)
    assert curve.integral_of_square(0.0, 3.0) == pytest.approx(0.21)
    assert (curve.at(0.5), curve.at(1.0), curve.at(9.0)) == (0.1, 0.2, 0.4)
    other = Curve((1.5,), (1.0, 2.0))
    assert product_integral(curve, other, 0.0, 3.0) == pytest.approx(0.1 + 0.1 + 0.2 + 0.8)


def test_every_field_of_a_request_has_a_reader_and_a_description() -> None:
    for cls in (*PRODUCTS.values(), Heston, Simulation):
        for name, (_, part, _) in parts(cls).items():
            assert callable(part.read), name
            assert part.doc, name


def test_reading_requests_loads_no_native_code() -> None:
    heavy = "('cffi', '_cffi', 'engine.devices', 'engine.tensor')"
    code = f"import sys, engine.pricing.spec; print([m for m in sys.modules if m.startswith({heavy})])"
    root = Path(__file__).parents[2]
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert loaded.stdout.strip() == "[]"
