"""Every case of shared/cases/pricing.json through what has no sampling error, within the case's tolerance."""

from __future__ import annotations

from typing import Any

import pytest
from pricing_cases import FILE, Case, expected_greeks, read_cases, spec_of, wanted_greeks

from engine.pricing.analytic import exact
from engine.pricing.implied import implied_vol
from engine.pricing.spec import SpecError, describe, read_spec

CASES = read_cases(FILE) if FILE.is_file() else []
SIMULATED_ONLY = {"MAXCALL3-100"}
"""Cases without a price free of sampling error."""

INACCURATE = {"HES-SHORT": {"delta": 0.53443146897391, "gamma": 0.14050414646}}
"""Greeks that the file has to four digits only; these are from the integral at 25 digits."""

if not CASES:
    pytest.skip(f"needs the file {FILE}, which is not there", allow_module_level=True)


def is_slow(case: Case) -> bool:
    """Whether the Greeks take many evaluations of a recursion over many dates."""
    dates = max(case["params"].get(name, 0) for name in ("steps", "fixings", "exercise_dates"))
    return dates > 20 or case["instrument"] in ("asian_arithmetic_continuous", "american")


def marked(case: Case) -> Any:
    """The case, slow where its price alone takes long."""
    return pytest.param(case, marks=pytest.mark.slow if case["instrument"] == "bermudan_max_call" else ())


def ids(cases: list[Case]) -> list[str]:
    return [case["id"] for case in cases]


REFUSED = [c for c in CASES if "error" in c["expected"]]
IMPLIED = [c for c in CASES if "implied_vol" in c["expected"]]
PRICED = [c for c in CASES if "price" in c["expected"] and c["id"] not in SIMULATED_ONLY]
WITH_GREEKS = [c for c in PRICED if expected_greeks(c)]
QUICK_GREEKS = [c for c in WITH_GREEKS if not is_slow(c)]
SLOW_GREEKS = [c for c in WITH_GREEKS if is_slow(c)]


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_the_canonical_request_reads_as_the_same_spec(case: Case) -> None:
    if "error" in case["expected"]:
        return
    spec = spec_of(case)
    assert read_spec(describe(spec)) == spec


@pytest.mark.parametrize("case", REFUSED, ids=ids(REFUSED))
def test_what_must_be_refused_is_refused_with_its_field(case: Case) -> None:
    with pytest.raises(SpecError) as refusal:
        spec = spec_of(case)
        implied_vol(spec) if case["instrument"] == "implied_vol" else exact(spec)
    assert refusal.value.path


@pytest.mark.parametrize("case", IMPLIED, ids=ids(IMPLIED))
def test_implied_volatilities(case: Case) -> None:
    found = implied_vol(spec_of(case))
    expected = case["expected"]["implied_vol"]
    wanted = expected if isinstance(expected, list) else [expected]
    assert found.roots == pytest.approx(wanted, abs=case["tolerance"], rel=0.0)
    assert found.value == found.roots[0]
    assert bool(found.warnings) == (len(wanted) > 1)


@pytest.mark.parametrize("case", [marked(case) for case in PRICED], ids=ids(PRICED))
def test_prices(case: Case) -> None:
    found = exact(spec_of(case), ())
    assert found is not None
    assert found.value == pytest.approx(case["expected"]["price"], abs=case["tolerance"], rel=0.0)


@pytest.mark.parametrize("case", QUICK_GREEKS, ids=ids(QUICK_GREEKS))
def test_greeks(case: Case) -> None:
    check_greeks(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW_GREEKS, ids=ids(SLOW_GREEKS))
def test_greeks_of_recursions(case: Case) -> None:
    check_greeks(case)


def check_greeks(case: Case) -> None:
    expected = expected_greeks(case) | INACCURATE.get(case["id"], {})
    found = exact(spec_of(case), tuple(wanted_greeks(expected)))
    assert found is not None
    relative, absolute = case.get("greek_rel_tol", 1e-5), case.get("greek_tolerance", 1e-12)
    for name, value in expected.items():
        greek = found.greeks[name].value
        if value is None:
            assert greek is None, name
        else:
            assert greek == pytest.approx(value, rel=relative, abs=absolute), name


def test_every_case_is_tested() -> None:
    tested = {c["id"] for c in (*REFUSED, *IMPLIED, *PRICED)} | SIMULATED_ONLY
    assert tested == {c["id"] for c in CASES}
