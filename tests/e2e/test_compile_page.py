"""Compiling from the browser: the form with its mistakes, the live stages, and a real worker behind it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dashboard_system import System, Worker

from service.jobs.lanes import BATCH

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

OpenPage = Callable[..., Any]
SPEC = {
    "expression": "relu(a + b) * c",
    "inputs": {name: {"shape": [20, 30]} for name in "abc"},
    "repeats": 2,
    "peers": False,
}


C_TEXT = (
    "".join(f"void other_{n}(void) {{\n}}\n" for n in range(60)) + "void kernel_0(void) {\n    line 59;\n}\n"
)


def start(system: System, name: str = "") -> Worker:
    return system.start(name, spec=SPEC, kind="compile")


def report(stage: str, program: str = "", **facts: Any) -> tuple[str, dict[str, Any]]:
    return "report", {"program": program, "stage": stage, **facts}


def timing(variant: str, seconds: float, **facts: Any) -> tuple[str, dict[str, Any]]:
    row = {"variant": variant, "threads": 1, "seconds": seconds, "median": 2 * seconds, "runs": 5}
    return report("timing", **{**row, **facts})


def say_everything(worker: Worker) -> None:
    worker.say(
        ("stage", {"name": "graph", "state": "started"}),
        report("graph", nodes=6, text="v3 = add(a, b) float32[20, 30]\ntargets v8"),
        report(
            "fusion",
            kernels=[{"kernel": "kernel_0", "level": 1, "nodes": ["%0 = add(a, b)"]}],
            refusals=["too wide"],
        ),
        report("code", lines=180, text=C_TEXT),
        report(
            "build",
            seconds=0.25,
            built=1,
            cached=False,
            compiler="/usr/bin/gcc: gcc 12",
            moved=9600,
            moved_unfused=27600,
            text="plan: 1 step",
        ),
        report("verify", verified=True, text="bit for bit"),
        timing("without fusion", 3e-3, moved=27600),
        timing("fused", 1e-3, moved=9600),
        report("timing", variant="numpy", skipped="has no erf"),
        timing("torch 2.13", 2e-3, difference=1e-7),
        report("profile", kernels=[{"kernel": "kernel_0", "seconds": 1e-5, "bound": 5e-6}]),
    )


@pytest.fixture
def open_either(system: System, open_page: OpenPage) -> Callable[..., Any]:
    """Opens the form, or a job that has said everything."""

    def open_either(name: str, **options: Any) -> Any:
        if name == "form":
            page = open_page(f"{system.url}/compile", **options)
            expect(page.get_by_text("Memory", exact=True).locator("xpath=..")).to_contain_text("MB")
            return page
        worker = start(system)
        say_everything(worker)
        page = open_page(f"{system.url}/jobs/{worker.job_id}", **options)
        expect(page.get_by_role("region", name="Plan")).to_be_visible()
        return page

    return open_either


@pytest.mark.parametrize(
    ("width", "theme"), [(1200, "light"), pytest.param(390, "dark", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", ["form", "job"])
def test_compile_pages_are_accessible_and_fit_a_phone(
    open_either: OpenPage, axe_source: str, name: str, theme: str, width: int
) -> None:
    page = open_either(name, width=width, color_scheme=theme, reduced_motion="reduce")
    page.evaluate(axe_source)
    found = page.evaluate("axe.run(document).then((result) => result.violations)")
    assert [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found] == []
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_form_shows_mistakes_where_they_are(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/compile")
    expression, button = page.locator("#expression"), page.get_by_role("button", name="Compile", exact=True)
    expression.fill("relu(a + b) * c.T")
    expect(page.locator("#expression-mistake")).to_contain_text("at character 16: there are no attributes")
    expect(button).to_be_disabled()
    expression.fill("relu(a + b) * d")
    expect(page.locator("#expression-mistake")).to_contain_text("unknown name 'd'")
    page.get_by_role("button", name="Add d").click()
    expect(page.get_by_role("alert")).to_contain_text("is not read by the expression")
    page.get_by_role("button", name="Remove input 3").click()
    expect(button).to_be_enabled()
    page.get_by_label("Sizes of input 1").fill("3, many")
    expect(page.get_by_label("Sizes of input 1")).to_have_attribute("aria-invalid", "true")


def test_examples_fill_the_form(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/compile")
    page.get_by_role("radio", name=re.compile("A training loss")).check()
    expect(page.locator("#expression")).to_have_value("mean((tanh(x @ w + b) - y) ** 2)")
    expect(page.get_by_role("checkbox", name=re.compile("with the gradients"))).to_be_checked()
    page.get_by_role("radio", name=re.compile("Benchmarks")).check()
    expect(page.get_by_text("A table of benchmarks")).to_be_visible()
    expect(page.locator("#expression")).to_have_count(0)
    expect(page.get_by_role("button", name="Compile", exact=True)).to_be_enabled()


def test_stages_appear_as_they_come(system: System, open_page: OpenPage) -> None:
    worker = start(system)
    page = open_page(f"{system.url}/jobs/{worker.job_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("relu(a + b) * c")
    expect(page.get_by_text("Stages appear here")).to_be_visible()
    worker.say(
        report("graph", nodes=6, text="<img src=x onerror=alert(1)>"),
        ("stage", {"name": "build", "state": "started"}),
    )
    expect(page.get_by_role("region", name="Graph")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.get_by_role("region", name="Timing").get_by_role("status")).to_have_text("build …")
    say_everything(worker)
    region = page.get_by_role("region", name="Timing")
    expect(region).to_contain_text("verified, bit for bit")
    expect(region).to_contain_text("built in 250 ms by gcc 12 · moves 9.6 kB, 27.6 kB without fusion")
    rows = region.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("3 ms")
    expect(rows.nth(0)).to_contain_text("3.0 × fused")
    expect(rows.nth(2)).to_contain_text("has no erf")
    expect(rows.nth(3)).to_contain_text("differs by 1.0e-7")
    fusion = page.get_by_role("region", name="Fusion")
    expect(fusion).to_contain_text("10 µs, bound 5 µs")
    expect(fusion).to_contain_text("too wide")
    fusion.get_by_role("button", name="kernel_0").click()
    expect(page.locator("mark")).to_have_text("void kernel_0(void) {\n    line 59;\n}")
    expect(page.locator("mark")).to_be_in_viewport()
    worker.finish()
    expect(page.get_by_role("link", name="Clone")).to_be_visible()
    page.get_by_role("link", name="Clone").click()
    expect(page.locator("#expression")).to_have_value("relu(a + b) * c")
    expect(page.get_by_label("Sizes of input 3")).to_have_value("20, 30")


def test_programs_of_a_table_are_chosen(system: System, open_page: OpenPage) -> None:
    worker = start(system, "Two programs")
    row = {"variant": "fused", "threads": 1, "seconds": 2e-3, "median": 2e-3, "runs": 1}
    worker.say(
        report("graph", "first", nodes=1, text="the first"),
        report("timing", "first", **row),
        report("graph", "second", nodes=2, text="the second"),
    )
    page = open_page(f"{system.url}/jobs/{worker.job_id}")
    graph = page.get_by_role("region", name="Graph")
    expect(graph).to_contain_text("the second")
    page.get_by_role("radio", name="first").check()
    expect(graph).to_contain_text("the first")
    table = page.get_by_role("region", name="Best of each")
    expect(table.get_by_role("row").nth(1)).to_contain_text("2 ms")


def test_an_expression_is_compiled_from_the_form(
    system: System, start_lane: Callable[[str], None], open_page: OpenPage
) -> None:
    start_lane(BATCH)
    page = open_page(f"{system.url}/compile")
    for number in (1, 2, 3):
        page.get_by_label(f"Sizes of input {number}").fill("40, 50")
    page.get_by_label("Name", exact=True).fill("From the form")
    page.get_by_role("checkbox", name=re.compile("beside NumPy")).uncheck()
    page.get_by_role("button", name="Compile", exact=True).click()
    expect(page).to_have_url(re.compile(r"/jobs/job_[0-9a-z]{26}$"))
    region = page.get_by_role("region", name="Timing")
    expect(region).to_contain_text("verified, bit for bit", timeout=60_000)
    expect(region.locator("tbody tr").filter(has_text="fused").first).to_be_visible(timeout=60_000)
    expect(page.get_by_role("region", name="Generated C")).to_contain_text("kernel_0")
    expect(page.get_by_text("succeeded").first).to_be_visible(timeout=60_000)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download source.c").click()
    assert "kernel_0" in Path(download.value.path()).read_text()
    assert download.value.suggested_filename == "source.c"
