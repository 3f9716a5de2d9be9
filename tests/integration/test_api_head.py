"""HEAD on every path that GET knows, and what methods a path has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from api_rig import TEXT, Api


@pytest.fixture(scope="module")
def names(api: Api) -> dict[str, str]:
    file = api.http.post("/v1/files", files={"file": ("a.txt", TEXT.encode())}).json()["id"]
    return {"job_id": api.submit()["id"], "file_id": file}


def paths(api: Api, names: dict[str, str]) -> Iterator[str]:
    for path, methods in api.http.get("/openapi.json").json()["paths"].items():
        if "get" in methods:
            named = re.sub(r"\{(\w+)\}", lambda part: names.get(part[1], part[0]), path)
            if "{" not in named:
                yield named


CHANGING = {"/metrics", "/v1/queues", "/v1/workers"}  # what counts requests, or tells ages


def test_head_is_get_without_a_body(api: Api, names: dict[str, str]) -> None:
    seen = 0
    for path in paths(api, names):
        answer, headed = api.http.get(path), api.http.head(path)
        assert (headed.status_code, headed.content) == (answer.status_code, b""), path
        for header in ("content-type", "content-length", "etag", "location"):
            if header != "content-length" or path not in CHANGING:
                assert headed.headers.get(header) == answer.headers.get(header), (path, header)
        seen += 1
    assert seen >= 15


def test_head_of_a_stream_ends_at_once(api: Api, names: dict[str, str]) -> None:
    headers = {"Accept": "text/event-stream"}
    answer = api.http.head(f"/v1/jobs/{names['job_id']}/events", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_method_that_a_path_lacks_is_405_with_those_it_has(api: Api, names: dict[str, str]) -> None:
    job = names["job_id"]
    for method, path, allowed in (
        ("PUT", "/v1/jobs", "GET, POST, HEAD"),
        ("POST", f"/v1/jobs/{job}", "GET, DELETE, HEAD"),
        ("HEAD", f"/v1/jobs/{job}/cancel", "POST"),
        ("DELETE", "/healthz", "GET, HEAD"),
    ):
        answer = api.http.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed), path
        if method != "HEAD":
            assert answer.json()["code"] == "method"
