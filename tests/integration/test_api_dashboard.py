"""The dashboard's files: served where they are built, and a plain page that says how where they aren't."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_rig import Api

from service.api.routes import dashboard

PAGES = ("/", "/jobs", "/jobs/latest", "/jobs/job_x", "/compile", "/models")


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the build is expected; nothing is there yet."""
    folder = tmp_path / "static"
    monkeypatch.setattr(dashboard, "STATIC", folder)
    return folder


@pytest.fixture
def api(tmp_path: Path, static: Path) -> Iterator[Api]:
    with Api(tmp_path / "data") as running:
        yield running


def test_without_a_build_every_page_says_how_to_make_one(api: Api) -> None:
    for page in PAGES:
        answer = api.http.get(page)
        assert answer.status_code == 200
        assert "make web" in answer.text
    assert api.http.get("/assets/app.js").status_code == 404


def test_a_build_is_served_as_soon_as_it_is_there(api: Api, static: Path) -> None:
    assert api.http.get("/assets/app.js").status_code == 404
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<title>dashboard</title>")
    (static / "assets" / "app.js").write_text("let x;")
    for page in PAGES:
        answer = api.http.get(page)
        assert (answer.text, answer.headers["cache-control"]) == ("<title>dashboard</title>", "no-cache")
    script = api.http.get("/assets/app.js")
    assert (script.text, script.status_code) == ("let x;", 200)
    assert "javascript" in script.headers["content-type"]


@pytest.mark.parametrize(
    "path", ["/..%2fsecret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret", "//etc/passwd", "/\\..\\x"]
)
def test_nothing_outside_the_build_is_served(api: Api, static: Path, path: str) -> None:
    (static / "assets").mkdir(parents=True)
    (static.parent / "secret").write_text("secret")
    (static / "link").symlink_to(static.parent / "secret")
    for place in (path, "/link"):
        answer = api.http.get(place)
        assert answer.status_code == 404
        assert answer.text != "secret"


def test_a_browser_gets_the_page_for_an_unknown_address_and_a_program_a_problem(
    api: Api, static: Path
) -> None:
    static.mkdir()
    (static / "index.html").write_text("<title>dashboard</title>")
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    answer = api.http.get("/nothing/here", headers=browser)
    assert (answer.status_code, answer.text) == (404, "<title>dashboard</title>")
    for path, headers in (("/nothing", {}), ("/v1/nothing", browser), ("/v1/jobs/job_x", browser)):
        answer = api.http.get(path, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert api.http.post("/nothing", headers=browser).status_code == 404
    assert api.http.post("/index.html", headers=browser).status_code == 405


def test_unknown_api_paths_are_problems_and_no_pages(api: Api) -> None:
    assert api.http.get("/v1/nothing").headers["content-type"] == "application/problem+json"
