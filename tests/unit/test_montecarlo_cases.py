"""Every case of the shared table by simulation: within 3.5 standard errors, price and Greeks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pricing_cases import FILE, expected_greeks, read_cases, spec_of, wanted_greeks

from engine.pricing import price
from engine.pricing.result import Result
from engine.pricing.spec import Simulation, Spec
from engine.pricing.spec import products as p

QUICK_PATHS, PATHS = 2**14, 2**16
NOT_SIMULATED = ("implied_vol",)
CERTAIN = {"EDGE-T0-ITM", "EDGE-T0-ATM", "EDGE-HUGEVOL"}
"""Cases whose answer is exact whatever is asked for."""


def simulated_cases() -> Iterator[dict[str, Any]]:
    """The cases that have a price, and are no search for a volatility."""
    if FILE.is_file():
        for case in read_cases(FILE):
            if case["instrument"] not in NOT_SIMULATED and case["expected"].get("price") is not None:
                yield dict(case)


CASES = list(simulated_cases())
QUICK = {case["instrument"]: case for case in reversed(CASES)}.values()


def bias_of(spec: Spec, value: float) -> float:
    """What the answer says is not in the standard error: exercise rules that are not the best, and steps."""
    if isinstance(spec.product, p.American):
        return 5e-3 * value
    if isinstance(spec.product, p.Bermudan | p.MaxCall):
        return 2.5e-3 * value
    return 0.0


def check(case: dict[str, Any], paths: int, *, greeks: bool) -> None:
    spec = replace(spec_of(case), simulation=Simulation(paths=paths, seed=20))
    names: dict[str, float | None] = expected_greeks(case) if greeks else {}
    if greeks:
        spec = replace(spec, greeks=tuple(wanted_greeks(names)))
    found = price(spec)
    assert isinstance(found, Result)
    expected = case["expected"]["price"]
    slack = 3.5 * found.se + case["tolerance"] + bias_of(spec, expected)
    assert abs(found.price - expected) <= slack, (found.price, expected, found.se)
    assert found.n_paths == paths or case["id"] in CERTAIN or found.se == 0.0
    for name, value in names.items():
        greek = found.greeks[name]
        if value is None or greek.value is None:
            continue
        relative = case.get("greek_rel_tol", 1e-5) + (2.5e-2 if bias_of(spec, 1.0) else 0.0)
        slack = 3.5 * greek.se + relative * abs(value) + 1e-7
        assert abs(greek.value - value) <= slack, (name, greek.value, value, greek.se)


@pytest.mark.skipif(not CASES, reason=f"needs {FILE}, which is not there")
@pytest.mark.parametrize("case", QUICK, ids=lambda case: case["id"])
def test_one_case_of_each_instrument_is_simulated_within_its_error(case: dict[str, Any]) -> None:
    check(case, QUICK_PATHS, greeks=False)


@pytest.mark.slow
@pytest.mark.skipif(not CASES, reason=f"needs {FILE}, which is not there")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_every_case_is_simulated_within_its_error(case: dict[str, Any]) -> None:
    check(case, PATHS, greeks=False)


@pytest.mark.slow
@pytest.mark.skipif(not CASES, reason=f"needs {FILE}, which is not there")
@pytest.mark.parametrize("case", QUICK, ids=lambda case: case["id"])
def test_greeks_of_one_case_of_each_instrument_are_within_their_errors(case: dict[str, Any]) -> None:
    check(case, PATHS, greeks=True)
