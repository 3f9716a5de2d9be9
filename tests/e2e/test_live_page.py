"""The page of a running job, in a real browser against the real service."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from dashboard_system import TRAIN_SPEC, Proxy, System, Worker, wait_for

from service.jobs.lanes import QUICK

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

OpenPage = Callable[..., Any]

COUNT_PIXELS = """([canvas, property]) => {
  const wanted = getComputedStyle(canvas).getPropertyValue(property).trim();
  const rgb = [1, 3, 5].map((from) => parseInt(wanted.slice(from, from + 2), 16));
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] > 200 && rgb.every((part, k) => Math.abs(data[i + k] - part) < 12)) count += 1;
  }
  return count;
}"""
COUNT_DRAWS = """
  window.draws = 0;
  const { prototype } = CanvasRenderingContext2D;
  const original = prototype.clearRect;
  prototype.clearRect = function (...args) {
    window.draws += 1;
    return original.apply(this, args);
  };
"""


SET_HIDDEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def job_url(system: System | Proxy, worker: Worker) -> str:
    return f"{system.url}/jobs/{worker.job_id}"


def chart(page: Any) -> Any:
    return page.get_by_role("slider", name=re.compile("^Loss by"))


def expect_reading(page: Any, words: str) -> None:
    expect(chart(page)).to_have_attribute("aria-valuetext", re.compile(words))


def pixels(page: Any, colour: str) -> int:
    canvas = page.locator("canvas").element_handle()
    return page.evaluate(COUNT_PIXELS, [canvas, colour])


def expect_pixels(page: Any, colour: str, at_least: int) -> None:
    wait_for(f"{at_least} pixels of {colour}", lambda: pixels(page, colour) >= at_least)


def resumptions(proxy: Proxy) -> list[bytes]:
    """The requests for a stream that goes on where another broke."""
    return [request for request in proxy.requests if b"last-event-id:" in request.lower()]


def table_rows(page: Any) -> list[list[str]]:
    page.get_by_text("Values as a table").click()
    rows = page.get_by_role("region", name="Loss values").locator("tbody tr")
    expect(rows.first).to_be_visible()
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def test_the_curve_grows_without_reloading(system: System, open_page: OpenPage) -> None:
    job_id = system.submit("Grows")
    page = open_page(f"{system.url}/jobs/{job_id}")
    expect(page.get_by_text("The first measurements appear here.")).to_be_visible()
    page.evaluate("window.sameDocument = true")

    worker = system.claim()
    worker.losses(range(1, 41), lambda step: 4 - step / 20)
    expect_reading(page, r"^step 40, train loss 2\.000")
    expect_pixels(page, "--train", 100)
    before = pixels(page, "--val")
    worker.losses([10, 20, 30, 40], lambda step: 4 - step / 30, "val_loss")
    worker.sample(40, "to be or not")
    expect_reading(page, r"validation loss 2\.667")
    wait_for("the validation line is drawn", lambda: pixels(page, "--val") > before + 20)
    expect(page.get_by_role("region", name="Sample text")).to_contain_text("to be or not")

    worker.finish(result={"val_loss": 2.667})
    expect(page.locator("main [data-state=succeeded]")).to_be_visible()
    expect(page.locator("[data-connection=ended]")).to_be_visible()
    assert page.evaluate("window.sameDocument") is True


def test_no_event_is_lost_or_doubled_when_connections_break(
    system: System, proxy: Proxy, open_page: OpenPage
) -> None:
    worker = system.start("Breaks")
    page = open_page(job_url(proxy, worker))
    for turn in range(5):
        first = turn * 20 + 1
        worker.losses(range(first, first + 10), float)
        worker.sample(first + 9, f"sample {turn}")
        expect_reading(page, rf"^step {first + 9},")
        assert proxy.cut() > 0
        worker.losses(range(first + 10, first + 20), float)
        expect_reading(page, rf"^step {first + 19},")
    worker.finish()
    status = page.locator("[data-connection=ended]")
    expect(status).to_be_visible()
    expect(status).to_have_attribute("data-received", str(system.job(worker.job_id)["last_seq"]))
    expect(status).to_have_attribute("data-missing", "0")
    expect(page.get_by_text("5 / 5")).to_be_visible()
    assert len(resumptions(proxy)) >= 5


def test_a_log_that_lost_its_end_is_read_again(system: System, proxy: Proxy, open_page: OpenPage) -> None:
    worker = system.start("Forgotten")
    worker.losses(range(1, 11), float)
    kept = system.job(worker.job_id)["last_seq"]
    worker.losses(range(11, 21), float)
    page = open_page(job_url(proxy, worker))
    expect_reading(page, "^step 20,")
    system.forget_after(worker.job_id, kept)
    proxy.cut()
    expect_reading(page, "^step 10,")
    expect(page.locator("[data-connection=live]")).to_have_attribute("data-received", str(kept))
    expect(page.locator("[data-connection=live]")).to_have_attribute("data-missing", "0")


def test_a_page_hidden_for_long_gives_its_connection_back(
    system: System, proxy: Proxy, open_page: OpenPage
) -> None:
    worker = system.start("Hidden for long")
    worker.losses(range(1, 11), float)
    page = open_page("about:blank")
    page.clock.install()
    page.goto(job_url(proxy, worker))
    expect_reading(page, "^step 10,")
    page.evaluate(SET_HIDDEN, True)
    page.clock.fast_forward(40_000)
    worker.losses(range(11, 21), float)
    assert not resumptions(proxy)
    page.evaluate(SET_HIDDEN, False)
    expect_reading(page, "^step 20,")
    assert len(resumptions(proxy)) == 1
    expect(page.locator("[data-connection=live]")).to_have_attribute("data-missing", "0")


def test_hostile_text_is_only_ever_text(system: System, open_page: OpenPage) -> None:
    script = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    name = f"{script} \u202ereversed " + "long" * 12
    worker = system.start(name)
    page = open_page(job_url(system, worker))
    worker.say(("log", {"level": "error", "message": f"\x1b[31mred\x1b[0m {script}"}))
    worker.losses([1, 2], float)
    worker.sample(2, f"to {script}")
    worker.finish("failed", code="crash", message=f"failed: {script}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("\u202e")
    expect(page.get_by_role("log")).to_contain_text(f"red {script}")
    expect(page.get_by_role("region", name="Sample text")).to_contain_text(script)
    expect(page.get_by_role("alert")).to_contain_text(f"failed: {script}")
    assert page.locator("main img, main script").count() == 0
    page.goto(system.url)
    expect(page.get_by_role("link", name=re.compile("onerror")).first).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_loss_that_is_not_finite_shows_as_a_gap_with_a_mark(system: System, open_page: OpenPage) -> None:
    worker = system.start("Not finite")
    bad = {50: math.nan, 70: math.inf}
    worker.losses(range(1, 101), lambda step: bad.get(step, 3.0))
    page = open_page(job_url(system, worker))
    expect(page.get_by_text("First non-finite loss at step 50, 2 in all.")).to_be_visible()
    expect_pixels(page, "--danger", 20)
    expect_reading(page, "^step 100, train loss 3.000")
    rows = {int(step): train for step, train, *_ in table_rows(page)}
    assert {train for step, train in rows.items() if step not in bad} == {"3.000"}
    chart(page).focus()
    page.keyboard.press("Home")
    for _ in range(49):
        page.keyboard.press("ArrowRight")
    expect_reading(page, "^step 50, train loss not finite")


def test_the_log_scale_never_fails(system: System, open_page: OpenPage) -> None:
    worker = system.start("Log scale")
    worker.losses(range(1, 21), lambda step: 2.0 - step / 5)
    page = open_page(job_url(system, worker))
    toggle = page.get_by_role("checkbox", name="Log scale")
    expect_reading(page, "^step 20")
    toggle.check()
    expect(page.get_by_text(re.compile("^11 values of 0 or less have no place"))).to_be_visible()
    expect_pixels(page, "--train", 20)
    toggle.uncheck()
    expect(page.get_by_text(re.compile("values of 0 or less"))).to_be_hidden()


@pytest.mark.parametrize("loss", [0.0, -1.0, 2.5])
def test_a_constant_has_a_chart_on_both_scales(system: System, open_page: OpenPage, loss: float) -> None:
    worker = system.start("Constant")
    worker.losses(range(1, 6), lambda _: loss)
    page = open_page(job_url(system, worker))
    expect_reading(page, f"^step 5, train loss {loss:.3f}")
    expect_pixels(page, "--train", 20)
    page.get_by_role("checkbox", name="Log scale").check()
    worker.losses([6], lambda _: loss)
    expect_reading(page, "^step 6")


def test_a_single_point_is_visible(system: System, open_page: OpenPage) -> None:
    worker = system.start("Single point")
    worker.losses([1, 2, 3, 4, 5], lambda step: 2.0 if step == 3 else math.nan)
    page = open_page(job_url(system, worker))
    expect_reading(page, "^step 5")
    page.get_by_role("slider", name=re.compile("Smoothing")).fill("0")
    expect_pixels(page, "--train", 8)


def test_chart_and_samples_share_one_step(system: System, open_page: OpenPage) -> None:
    worker = system.start("Linked")
    for step in range(0, 101, 20):
        worker.sample(step, f"to sample of {step}")
    worker.losses(range(1, 101), float)
    page = open_page(job_url(system, worker))
    text = page.get_by_role("region", name="Sample text")
    samples = page.get_by_role("slider", name="Sample", exact=True)
    expect(text).to_have_attribute("data-step", "100")

    samples.fill("2")
    expect(text).to_contain_text("sample of 40")
    expect_reading(page, "^step 40,")

    chart(page).focus()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect_reading(page, "^step 60,")
    expect(samples).to_have_value("3")
    page.keyboard.press("Home")
    expect(text).to_contain_text("sample of 0")
    page.keyboard.press("Escape")
    expect(text).to_have_attribute("data-step", "100")

    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(text).not_to_have_attribute("data-step", "100")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 200)
    expect(text).to_have_attribute("data-step", "100")


def test_the_chart_zooms_by_mouse_and_keyboard(system: System, open_page: OpenPage) -> None:
    worker = system.start("Zoomed")
    worker.losses(range(1, 1001), lambda step: 1000.0 / step)
    page = open_page(job_url(system, worker))
    expect_reading(page, "^step 1,000,")
    expect(chart(page)).to_have_attribute("aria-valuemax", "1000")
    box = page.locator(".u-over").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=5)
    page.mouse.up()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    assert 380 < float(page.evaluate("document.querySelector('.chart').ariaValueMin")) < 420
    assert 580 < float(page.evaluate("document.querySelector('.chart').ariaValueMax")) < 620
    page.get_by_role("button", name="Reset zoom").click()
    expect(chart(page)).to_have_attribute("aria-valuemax", "1000")

    chart(page).focus()
    page.keyboard.press("Home")
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_hidden()


def test_new_points_leave_the_zoom_as_it_is(system: System, open_page: OpenPage) -> None:
    worker = system.start("Zoomed while it grows")
    worker.losses(range(1, 1001), lambda step: 1000.0 / step)
    page = open_page(job_url(system, worker))
    expect_reading(page, "^step 1,000,")
    chart(page).focus()
    page.keyboard.press("Home")
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    zoomed = [chart(page).get_attribute(f"aria-value{end}") for end in ("min", "max")]
    worker.losses(range(1001, 1101), lambda step: 1000.0 / step)
    expect(page.locator("[data-connection=live]")).to_have_attribute("data-received", "4")
    assert [chart(page).get_attribute(f"aria-value{end}") for end in ("min", "max")] == zoomed
    page.get_by_role("button", name="Reset zoom").click()
    expect(chart(page)).to_have_attribute("aria-valuemax", "1100")


def test_the_curve_can_be_read_over_time(system: System, open_page: OpenPage) -> None:
    worker = system.start("Over time")
    worker.losses(range(1, 51), float)
    page = open_page(job_url(system, worker))
    expect_reading(page, "^step 50,")
    worker.losses(range(51, 101), float)
    expect_reading(page, "^step 100,")
    page.get_by_role("radio", name="Time").check()
    expect(chart(page)).to_have_attribute("aria-label", re.compile("^Loss by time"))
    seconds = float(page.evaluate("document.querySelector('.chart').ariaValueMax"))
    assert 0 < seconds < 60
    expect_pixels(page, "--train", 50)
    chart(page).focus()
    page.keyboard.press("Home")
    expect_reading(page, "^step 1,")


def test_a_touch_picks_a_step(system: System, open_page: OpenPage) -> None:
    worker = system.start("Touched")
    worker.losses(range(1, 101), float)
    page = open_page(job_url(system, worker), width=390, has_touch=True, is_mobile=True)
    expect_reading(page, "^step 100,")
    page.locator(".u-over").scroll_into_view_if_needed()
    box = page.locator(".u-over").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect_reading(page, r"^step (4[5-9]|5[0-5]),")


def test_every_sample_stays(system: System, open_page: OpenPage) -> None:
    worker = system.start("Many samples")
    worker.say(*(("sample", {"step": step, "prompt": "to ", "text": f"to {step}!"}) for step in range(500)))
    page = open_page(job_url(system, worker))
    expect(page.get_by_text("500 / 500")).to_be_visible()
    page.get_by_role("slider", name="Sample", exact=True).fill("0")
    expect(page.get_by_role("region", name="Sample text")).to_contain_text("0!")
    assert page.get_by_role("region", name="Sample text").locator("pre").count() == 1


def test_an_attempt_that_resumes_leaves_one_curve(system: System, open_page: OpenPage) -> None:
    worker = system.start("Resumed")
    worker.losses(range(1, 51), lambda step: 5.0)
    page = open_page(job_url(system, worker))
    expect_reading(page, "^step 50, train loss 5.000")
    worker.lose()
    again = system.claim()
    assert again.job_id == worker.job_id
    again.losses(range(31, 61), lambda step: 1.0)
    expect_reading(page, "^step 60, train loss 1.000")
    rows = table_rows(page)
    assert [int(row[0]) for row in rows] == list(range(60, 0, -1))
    assert [row[1] for row in rows] == ["1.000"] * 30 + ["5.000"] * 30
    expect(page.get_by_text("attempt 2 of at most 3")).to_be_visible()


def test_a_hidden_page_draws_nothing_and_catches_up(system: System, open_page: OpenPage) -> None:
    worker = system.start("Hidden")
    worker.losses(range(1, 11), float)
    page = open_page(job_url(system, worker), before=COUNT_DRAWS)
    expect_reading(page, "^step 10,")
    wait_for("the chart is drawn", lambda: page.evaluate("window.draws") > 0)
    page.evaluate(SET_HIDDEN, True)
    page.evaluate("window.draws = 0")
    worker.losses(range(11, 21), float)
    expect_reading(page, "^step 20,")
    assert page.evaluate("window.draws") == 0
    page.evaluate(SET_HIDDEN, False)
    wait_for("the chart is drawn again", lambda: page.evaluate("window.draws") > 0)


def test_a_job_is_cancelled_from_its_page(system: System, open_page: OpenPage) -> None:
    worker = system.start("To be cancelled")
    worker.losses([1], float)
    page = open_page(job_url(system, worker))
    page.get_by_role("button", name="Cancel job").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("To be cancelled")
    dialog.get_by_role("button", name="Cancel job").click()
    expect(page.locator("main h1 + [role=status]")).to_contain_text("cancelling")
    assert system.job(worker.job_id)["state"] == "cancelling"
    worker.finish("cancelled")
    expect(page.locator("main h1 + [role=status]")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel job")).to_be_hidden()


def test_a_job_is_paused_and_resumed_from_its_page(system: System, open_page: OpenPage) -> None:
    worker = system.start("To be paused")
    page = open_page(job_url(system, worker))
    timeline = page.get_by_role("list", name="States of the job")
    page.get_by_role("button", name="Pause").click()
    expect(timeline).to_contain_text("pausing")
    page.get_by_role("button", name="Resume").click()
    expect(timeline).to_contain_text("resumed")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    worker.pause()
    expect(page.locator("main h1 + [role=status]")).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("main h1 + [role=status]")).to_contain_text("queued")
    assert system.job(worker.job_id)["state"] == "queued"


def test_a_job_that_has_ended_is_deleted_from_its_page(system: System, open_page: OpenPage) -> None:
    worker = system.start("To be deleted")
    page = open_page(job_url(system, worker))
    expect(page.get_by_role("button", name="Cancel job")).to_be_visible()
    expect(page.get_by_role("button", name="Delete")).to_be_hidden()
    worker.finish()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Keep it").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert system.http.get(f"/v1/jobs/{worker.job_id}").status_code == 404


def test_only_the_best_checkpoint_is_marked(system: System, open_page: OpenPage) -> None:
    worker = system.start("", spec=TRAIN_SPEC | {"publish_as": "the-bard"})
    for step, best in ((100, True), (200, True), (300, False)):
        worker.say(("checkpoint", {"step": step, "best": best}))
    page = open_page(job_url(system, worker))
    expect(page.get_by_role("heading", level=1)).to_have_text("the-bard")
    checkpoints = page.get_by_role("region", name="Checkpoints").get_by_role("listitem")
    expect(checkpoints).to_contain_text(["step 300", "step 200 · best", "step 100"])
    expect(checkpoints.filter(has_text="best")).to_have_count(1)


def test_durations_follow_the_servers_clock(system: System, open_page: OpenPage) -> None:
    worker = system.start("Clocks")
    worker.losses([1], float)
    behind = "const real = Date.now; Date.now = () => real() - 300000;"
    page = open_page(job_url(system, worker), before=behind, timezone_id="Pacific/Chatham")
    running = page.locator(".timeline .running .spent")
    expect(running).to_have_text(re.compile(r"^\d{1,2} s$"))
    expect(page.locator(".facts time").first).to_have_text(re.compile(r"GMT\+1[23]:45$"))
    page.get_by_role("button", name=re.compile("Times in UTC")).click()
    expect(page.locator(".facts time").first).to_have_text(re.compile("UTC$"))


def test_tokens_of_a_sample_job_arrive_live(system: System, open_page: OpenPage) -> None:
    spec = {"model": system.publish(), "prompt": "to ", "max_tokens": 40}
    job_id = system.submit("Sampled", spec, "sample")
    worker = system.claim(QUICK)
    assert worker.job_id == job_id
    page = open_page(job_url(system, worker))
    for word in ("be", " or", " <b>not</b>"):
        worker.say(("token", {"index": 0, "tokens": [{"text": word, "id": 1, "logprob": -0.5}]}))
        expect(page.locator("[data-completion='0']")).to_contain_text(word)
    expect(page.locator("[data-completion='0']")).to_have_text("to be or <b>not</b>")
    worker.finish(result={"choices": []})
    expect(page.locator("main [data-state=succeeded]")).to_be_visible()
