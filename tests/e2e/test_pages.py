"""The list, the form, the playground, and what every page must keep to, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from dashboard_system import TRAIN_SPEC, System, wait_for

from service.jobs import calls
from service.jobs.lanes import QUICK

pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
from playwright.sync_api import expect

OpenPage = Callable[..., Any]
PAGES = ("list", "job", "sample", "new", "playground", "missing")


@pytest.fixture
def addresses(system: System) -> dict[str, str]:
    """A page of every sort, filled as far as it can be."""
    model = system.publish("to-be")
    worker = system.start("A job with everything")
    worker.say(("stage", {"name": "corpus", "state": "ended", "seconds": 0.5}))
    worker.losses(range(1, 101), lambda step: 4 - step / 50)
    worker.losses([50, 100], lambda step: 4 - step / 60, "val_loss")
    worker.losses([100], lambda _: 20_000.0, "tokens_per_s")
    worker.sample(100, "to be or not to be")
    worker.say(
        ("log", {"level": "warning", "message": "a warning"}),
        ("progress", {"step": 100, "steps": 400, "eta_s": 30.0}),
    )
    sample = system.submit("A sample job", {"model": model, "prompt": "to "}, "sample")
    return {
        "list": "/",
        "job": f"/jobs/{worker.job_id}",
        "sample": f"/jobs/{sample}",
        "new": "/jobs/new",
        "playground": "/models",
        "missing": "/jobs/job_00000000000000000000000000",
    }


@pytest.fixture
def open_filled(system: System, open_page: OpenPage, addresses: dict[str, str]) -> Callable[..., Any]:
    """Opens a page by its name and waits until it has loaded what it shows."""

    def open_filled(name: str, **options: Any) -> Any:
        page = open_page(system.url + addresses[name], **options)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_load_state("load")
        if name == "job":
            expect(page.get_by_role("region", name="Sample text")).to_be_visible()
        return page

    return open_filled


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_accessible(
    open_filled: OpenPage, axe_source: str, name: str, theme: str, width: int
) -> None:
    page = open_filled(name, width=width, color_scheme=theme, reduced_motion="reduce")
    page.evaluate(axe_source)
    found = page.evaluate("axe.run(document).then((result) => result.violations)")
    said = [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found]
    assert said == []


@pytest.mark.parametrize("width", [390, 320])
@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_a_phone(open_filled: OpenPage, name: str, width: int) -> None:
    page = open_filled(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_list_shows_changes_by_itself(system: System, open_page: OpenPage) -> None:
    job_id = system.submit("Changes in the list")
    page = open_page(system.url)
    row = page.get_by_role("row").filter(has=page.locator(f"a[href='/jobs/{job_id}']"))
    expect(row).to_contain_text("queued")
    worker = system.claim()
    worker.say(("progress", {"step": 100, "steps": 400, "eta_s": 30.0}))
    expect(row).to_contain_text("running")
    expect(row.get_by_role("progressbar").first).to_have_attribute("aria-valuenow", "100")
    worker.finish()
    expect(row).to_contain_text("succeeded")


def test_the_list_asks_only_when_something_has_changed(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/?state=queued")
    with page.expect_response(lambda response: "/v1/events?jobs=" in response.url):
        page.reload()
    system.submit("Comes first")
    expect(page.get_by_role("link", name="Comes first")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(5_000)  # a page without news would have asked three times
    assert len(asked) <= 1
    system.submit("Comes later")
    expect(page.get_by_role("link", name="Comes later")).to_be_visible()
    system.end_all()
    expect(page.locator("tbody a")).to_have_count(0)
    assert len(asked) <= 5


def test_the_list_is_filtered_by_its_address(system: System, open_page: OpenPage) -> None:
    kept = system.submit("Needle in the list")
    system.submit("Hay")
    page = open_page(system.url)
    page.get_by_role("searchbox").fill("needle")
    expect(page).to_have_url(re.compile(r"\?q=needle$"))
    links = page.locator("tbody a")
    expect(links).to_have_count(1)
    expect(links).to_have_attribute("href", f"/jobs/{kept}")
    page.get_by_label("State").select_option("failed")
    expect(page.get_by_text("No job matches this filter")).to_be_visible()
    page.go_back()
    expect(links).to_have_count(1)
    page.reload()
    expect(links).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_have_value("needle")


def test_pages_of_the_list_neither_overlap_nor_skip(system: System, open_page: OpenPage) -> None:
    made = {system.submit(f"Page {number}") for number in range(60)}
    page = open_page(f"{system.url}/?state=queued")
    rows = page.locator("tbody a")
    expect(rows).to_have_count(50)
    first = {link.get_attribute("href") for link in rows.all()}
    made.add(system.submit("Arrives between"))
    page.get_by_role("button", name="Older").click()
    expect(page).to_have_url(re.compile("after="))
    expect(rows).to_have_count(10)
    second = {link.get_attribute("href") for link in rows.all()}
    page.get_by_role("button", name="Newest").click()
    expect(page.get_by_role("link", name="Arrives between")).to_be_visible()
    assert not first & second
    assert len(first | second) == 60
    assert first | second < {f"/jobs/{job_id}" for job_id in made}


def test_a_queued_job_is_cancelled_from_the_list(system: System, open_page: OpenPage) -> None:
    job_id = system.submit("Cancelled in the list")
    page = open_page(system.url)
    page.get_by_role("button", name="Cancel Cancelled in the list").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    row = page.get_by_role("row").filter(has=page.locator(f"a[href='/jobs/{job_id}']"))
    expect(row).to_contain_text("cancelled")
    assert system.job(job_id)["state"] == "cancelled"


def test_the_form_shows_each_mistake_at_its_field(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/jobs/new")
    page.get_by_role("radio", name=re.compile("Bigram")).check()
    page.get_by_label("Batch").fill("1000000000")
    page.get_by_role("button", name="Start training").click()
    batch = page.get_by_label("Batch")
    expect(batch).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#spec-batch-mistake")).to_contain_text("4096")
    expect(page.get_by_role("button", name="Start training")).to_be_disabled()
    batch.fill("8")
    expect(batch).not_to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()


def test_mistakes_are_told_in_the_forms_words(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/jobs/new")
    page.get_by_label("Width", exact=True).fill("130")
    mistakes = page.locator(".mistake")
    expect(mistakes.first).to_contain_text("Heads")
    assert "num_heads" not in mistakes.first.inner_text()


def unfold(page: Any) -> None:
    """Opens the form's folds, those of the model and of the training."""
    folds = page.get_by_text("Advanced", exact=True)
    expect(folds).to_have_count(2)
    for fold in folds.all():
        fold.click()


def test_the_form_offers_what_the_service_accepts(system: System, open_page: OpenPage) -> None:
    schemas = system.http.get("/openapi.json").json()["components"]["schemas"]
    page = open_page(f"{system.url}/jobs/new")
    unfold(page)
    for model, prefix, asked_elsewhere in (
        ("GPT", "spec-model-", {"name"}),
        ("Train", "spec-", {"model", "corpus", "prompts"}),
    ):
        for name, schema in schemas[model]["properties"].items():
            if name in asked_elsewhere:
                continue
            field = page.locator(f"#{prefix}{name}")
            expect(field).to_be_visible()
            if "enum" in schema:
                expect(field.locator("option")).to_have_text(schema["enum"])


def test_advanced_choices_reach_the_job_and_its_clone(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/jobs/new")
    page.get_by_role("radio", name=re.compile("Tiny GPT")).check()
    page.get_by_role("radio", name="paste text").check()
    page.get_by_label(re.compile("^Text, at most")).fill("to be or not to be " * 20)
    unfold(page)
    page.get_by_label("Optimiser").select_option("lion")
    page.get_by_label("Positions").select_option("rotary")
    page.get_by_label("Tied").select_option("yes")
    page.get_by_label("Dropout").fill("0.1")
    page.get_by_role("button", name="Start training").click()
    expect(page).to_have_url(re.compile(r"/jobs/job_[0-9a-z]{26}$"))
    spec = system.job(page.url.rpartition("/")[2])["spec"]
    assert spec["optimizer"] == "lion"
    assert spec["prompts"] == ["to be or not to be to be"]
    chosen = {"positions": "rotary", "tied": True, "dropout": 0.1, "norm": "layernorm"}
    assert spec["model"].items() >= chosen.items()
    page.get_by_role("link", name="Clone").click()
    unfold(page)
    expect(page.get_by_label("Tied")).to_have_value("true")
    expect(page.get_by_label("Dropout")).to_have_value("0.1")


def test_prompts_suit_the_text(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/jobs/new")
    prompts = page.get_by_label(re.compile("^Prompts"))
    expect(prompts).to_have_value("ROMEO:")
    page.get_by_role("radio", name="paste text").check()
    expect(prompts).to_have_value("")
    page.get_by_label(re.compile("^Text, at most")).fill("A line of its own\nand another one")
    expect(prompts).to_have_value("A line of its own")
    page.get_by_role("radio", name="upload a file").check()
    page.get_by_label(re.compile("^Plain text file")).set_input_files(
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"From a file\n" * 40}
    )
    expect(prompts).to_have_value("From a file")
    prompts.fill("My own")
    page.get_by_role("radio", name="a known corpus").check()
    expect(prompts).to_have_value("My own")


def test_the_form_starts_a_job(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/jobs/new")
    page.get_by_role("radio", name=re.compile("Bigram")).check()
    page.get_by_role("radio", name="paste text").check()
    page.get_by_label(re.compile("^Text, at most")).fill("to be or not to be " * 20)
    page.get_by_label("Name").fill("From the form")
    expect(page.get_by_text("Parameters", exact=True).locator("xpath=..")).not_to_contain_text("–")
    page.get_by_role("button", name="Start training").click()
    expect(page).to_have_url(re.compile(r"/jobs/job_[0-9a-z]{26}$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("From the form")
    job = system.job(page.url.rpartition("/")[2])
    assert job["spec"]["model"]["name"] == "bigram"
    assert job["spec"]["batch"] == 32


def test_a_failed_job_is_retried_and_cloned(system: System, open_page: OpenPage) -> None:
    worker = system.start("Fails")
    worker.finish("failed", code="crash", message="a bug")
    page = open_page(f"{system.url}/jobs/{worker.job_id}")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("retry of")).to_be_visible()
    expect(page.get_by_role("link", name=worker.job_id)).to_be_visible()
    assert system.job(page.url.rpartition("/")[2])["retry_of"] == worker.job_id
    page.get_by_role("link", name="Clone").click()
    expect(page.get_by_label("Steps", exact=True)).to_have_value("400")
    expect(page.get_by_role("radio", name="paste text")).to_be_checked()
    expect(page.get_by_role("button", name="Start training")).to_be_disabled()


def test_the_playground_writes_as_the_tokens_come(system: System, open_page: OpenPage) -> None:
    system.publish("hamlet")
    calls.run(system.redis, calls.heartbeat("test-worker", QUICK, {}))
    page = open_page(f"{system.url}/models")
    page.get_by_label("Model").select_option("hamlet")
    expect(page.get_by_label("Prompt")).to_have_value("")
    page.get_by_label("Prompt").fill("to ")
    page.get_by_role("button", name="Write").click()
    worker = wait_for("the completion is queued", lambda: system.try_claim(QUICK))
    written = page.locator("[data-completion='0']")
    for word in ("be", " or", " <i>not</i>"):
        worker.say(("token", {"index": 0, "tokens": [{"text": word, "id": 1, "logprob": -0.5}]}))
        expect(written).to_contain_text(word)
    worker.finish(
        result={"choices": [{"index": 0, "text": "", "logprobs": [], "finish_reason": "stop"}], "seed": 1}
    )
    expect(page.get_by_text(re.compile(r"^16 characters in"))).to_be_visible()
    expect(written).to_have_text("to be or <i>not</i>")


def test_the_playgrounds_prompt_suits_the_model(system: System, open_page: OpenPage) -> None:
    system.publish("line-break")
    system.publish("tried", TRAIN_SPEC | {"prompts": ["to be", "or not"]})
    system.publish("plays", TRAIN_SPEC | {"corpus": {"name": "shakespeare"}})
    page = open_page(f"{system.url}/models?model=tried")
    model, prompt = page.get_by_label("Model"), page.get_by_label("Prompt")
    for alias, beginning in (("tried", "to be"), ("line-break", ""), ("plays", "ROMEO:")):
        model.select_option(alias)
        expect(prompt).to_have_value(beginning)
    prompt.fill("My own")
    model.select_option("tried")
    expect(prompt).to_have_value("My own")


def test_the_list_says_that_completions_are_not_in_it(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/?kind=sample&state=paused")
    expect(page.get_by_text("completions are not listed")).to_be_visible()


def test_a_job_that_is_gone_says_so(system: System, open_page: OpenPage) -> None:
    page = open_page(f"{system.url}/jobs/job_00000000000000000000000000")
    expect(page.get_by_role("heading", name="This job is not here")).to_be_visible()


def test_a_key_is_asked_for_once(browser: Any, open_page: OpenPage, tmp_path: Any) -> None:
    keys = tmp_path / "keys"
    keys.write_text("key_test_0123456789abcdef0123456789abcdef\n")
    with System(tmp_path / "data", api_key_file=keys) as locked:
        page = open_page(locked.url)
        page.get_by_role("textbox", name="API key").fill("key_test_0123456789abcdef0123456789abcdef")
        page.get_by_role("button", name="Use this key").click()
        expect(page.get_by_text("No jobs yet")).to_be_visible()
        page.reload()
        expect(page.get_by_text("No jobs yet")).to_be_visible()
