"""Many pages of one browser: it opens six connections to an address, and streams hold theirs."""

from __future__ import annotations

from typing import Any

from dashboard_system import System
from playwright.sync_api import expect

TABS = 7


def test_seven_tabs_load_and_follow_their_jobs(system: System, browser: Any) -> None:
    worker = system.start("Watched seven times")
    worker.losses(range(1, 11), float)
    context = browser.new_context()
    try:
        pages = [context.new_page() for _ in range(TABS)]
        for page in pages:
            page.goto(f"{system.url}/jobs/{worker.job_id}")
            expect(page.locator(".chart")).to_have_attribute("aria-valuemax", "10")
        worker.losses(range(11, 21), float)
        for page in pages:
            expect(page.locator(".chart")).to_have_attribute("aria-valuemax", "20")
            expect(page.locator("[data-missing='0']")).to_have_count(1)
        worker.finish()
        for page in pages:
            expect(page.locator("main [data-state=succeeded]")).to_be_visible()
    finally:
        context.close()
