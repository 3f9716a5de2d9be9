"""Pricing from the browser: the form with its mistakes, the live estimate, and a real worker behind it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from dashboard_system import System

from service.jobs.lanes import QUICK

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

OpenPage = Callable[..., Any]
CONTRACT = {"instrument": "european", "type": "call", "S": 100, "K": 100, "T": 1, "r": 0.05, "vol": 0.2}
FAN = {
    "times": [0.0, 0.5, 1.0],
    "quantiles": {name: [100.0, 100.0, 100.0] for name in ("0.05", "0.25", "0.5", "0.75", "0.95")},
    "paths": [[100.0, 101.0, 99.0]],
}
CHARTS = {"fan": FAN, "payoffs": {"low": 0.0, "high": 50.0, "counts": [9, 5, 2]}, "paths": 4096}
ANSWER = {
    "kind": "price",
    "price": 10.451,
    "se": 0.01,
    "ci95": [10.43, 10.47],
    "n_paths": 8192,
    "method": "Monte Carlo",
    "bias": "none",
    "closed_form": {"value": 10.4506, "method": "closed form", "source": "Black, Scholes"},
    "z": 0.04,
    "greeks": {"delta": {"value": 0.6368, "se": 0.001, "method": "pathwise", "unit": "per 1.00 of spot"}},
    "charts": CHARTS,
}


def estimate(n: int, price: float, se: float) -> tuple[str, dict[str, Any]]:
    return "report", {"contract": 0, "n": n, "price": price, "se": se}


def test_mistakes_in_a_contract_are_named_before_it_is_sent(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/price")
    contract, button = page.locator("#contract"), page.get_by_role("button", name="Price", exact=True)
    contract.fill('{"instrument": "european", "type": "C", "S": 100, "K": 100, "T": 1, "vol": 0.2}')
    expect(page.locator("#contract-mistake")).to_contain_text("type is 'C': must be one of call, put")
    expect(button).to_be_disabled()
    contract.fill("{")
    expect(page.locator("#contract-mistake")).to_contain_text("This is not JSON")
    page.get_by_role("radio", name=re.compile("American put")).check()
    expect(page.get_by_text("Steps of paths").locator("xpath=..")).to_contain_text("M")
    expect(button).to_be_enabled()


def test_the_estimate_follows_the_paths_and_ends_as_an_answer(
    system: System, open_page: OpenPage, axe_source: str
) -> None:
    spec = {"contract": {**CONTRACT, "mc": {"paths": 100_000}}}
    system.submit("A call", spec=spec, kind="price")
    worker = system.claim(QUICK)
    worker.say(estimate(4096, 10.2, 0.2), estimate(8192, 10.4, 0.15))
    page = open_page(f"{system.url}/jobs/{worker.job_id}", reduced_motion="reduce")
    expect(page.get_by_text("± 0.15")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("running price, now 10.4"))).to_be_visible()
    worker.finish(result={"answers": [ANSWER]})
    expect(page.get_by_role("row", name=re.compile("^delta 0.6368"))).to_contain_text("pathwise")
    for label in ("A fan of simulated paths", "A histogram of discounted payoffs"):
        expect(page.get_by_role("img", name=label)).to_be_visible()
    page.evaluate(axe_source)
    found = page.evaluate("axe.run(document).then((result) => result.violations)")
    assert [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found] == []
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_contract_is_priced_from_the_form(
    system: System, start_lane: Callable[[str], None], open_page: OpenPage
) -> None:
    start_lane(QUICK)
    page = open_page(f"{system.url}/price")
    page.get_by_role("radio", name=re.compile("Arithmetic Asian")).check()
    page.get_by_role("button", name="Price", exact=True).click()
    expect(page).to_have_url(re.compile(r"/jobs/job_[0-9a-z]{26}$"))
    expect(page.get_by_role("heading", name="Greeks")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("control variate: the geometric average")).to_be_visible()
    expect(page.get_by_role("img", name="A fan of simulated paths")).to_be_visible(timeout=60_000)
    page.get_by_role("link", name="Clone").click()
    expect(page.locator("#contract")).to_have_value(re.compile('"asian"'))
