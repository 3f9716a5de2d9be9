"""What jobs leave behind: logs as text with ranges, artifacts, thinned metrics."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from api_rig import Api, FakeWorker

from service.jobs import calls
from service.jobs.events import segments_key, stream_key


@pytest.fixture
def worker(api: Api) -> FakeWorker:
    """One that holds the only job."""
    api.redis.flushall()
    api.submit()
    worker = api.worker()
    worker.claim()
    return worker


def log(message: str) -> calls.Event:
    return "log", {"level": "info", "message": message}


def test_the_log_is_text_that_only_grows(api: Api, worker: FakeWorker) -> None:
    path = f"/v1/jobs/{worker.job}/logs"
    worker.say(log("first"), ("checkpoint", {"step": 5, "best": True}))
    before = api.http.get(path)
    assert before.headers["content-type"] == "text/plain; charset=utf-8"
    assert [line.split(" ", 1)[1] for line in before.text.splitlines()] == [
        "state queued",
        f"state running {worker.name}",
        "info first",
        "checkpoint at step 5",
    ]
    worker.loss((1, 1.0))
    assert api.http.get(path).content == before.content
    size = len(before.content)
    rest = api.http.get(path, headers={"Range": f"bytes={size}-"})
    assert (rest.status_code, rest.headers["content-range"]) == (416, f"bytes */{size}")
    worker.say(log("two\x1b[2J\nlines \u202e"))
    rest = api.http.get(path, headers={"Range": f"bytes={size}-"})
    assert rest.status_code == 206
    assert rest.text.endswith(" info two[2J lines\n")
    assert before.content + rest.content == api.http.get(path).content
    end = api.http.get(path, headers={"Range": "bytes=-6"})
    assert end.content == b"lines\n"
    assert api.http.get(path, headers={"If-None-Match": end.headers["etag"]}).status_code == 304


def test_expired_parts_of_a_log_are_named_and_an_expired_log_is_gone(api: Api, worker: FakeWorker) -> None:
    path = f"/v1/jobs/{worker.job}/logs"
    worker.say(log("lost"), log("kept"))
    api.redis.xtrim(stream_key(worker.job), minid="4-0", approximate=False)
    assert api.http.get(path).text.splitlines()[0] == "(events 1 to 3 have expired)"
    assert "kept" in api.http.get(path).text
    worker.finish()
    api.submit()
    worker.claim()
    api.redis.delete(stream_key(worker.job), segments_key(worker.job))
    answer = api.http.get(f"/v1/jobs/{worker.job}/logs")
    assert (answer.status_code, answer.json()["code"]) == (410, "gone")


def finished(api: Api, worker: FakeWorker, *contents: bytes) -> list[dict[str, Any]]:
    artifacts = [
        {
            "name": f'part {i}/ä"{i}.txt',
            "type": "text/html",
            "bytes": len(content),
            "blob": api.blobs.put(content),
        }
        for i, content in enumerate(contents)
    ]
    worker.finish(result={"artifacts": artifacts})
    found: list[dict[str, Any]] = api.http.get(f"/v1/jobs/{worker.job}/artifacts").json()["data"]
    return found


def test_artifacts_are_listed_and_downloaded_whole_and_in_parts(api: Api, worker: FakeWorker) -> None:
    assert api.http.get(f"/v1/jobs/{worker.job}/artifacts").json()["data"] == []
    one, two = finished(api, worker, b"0123456789", b"<script>")
    digest = hashlib.sha256(b"0123456789").hexdigest()
    assert (one["id"], one["sha256"], one["bytes"], one["name"]) == (digest, digest, 10, 'part 0/ä"0.txt')
    whole = api.http.get(one["links"]["content"])
    assert (whole.content, whole.headers["etag"]) == (b"0123456789", f'"{digest}"')
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%A4%220.txt"
    part = api.http.get(one["links"]["content"], headers={"Range": "bytes=2-4", "If-Range": f'"{digest}"'})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert api.http.get(two["links"]["content"]).content == b"<script>"


def test_only_what_the_job_lists_can_be_had_and_what_expired_is_gone(api: Api, worker: FakeWorker) -> None:
    secret = api.blobs.put(b"of another job")
    (artifact,) = finished(api, worker, b"content that expires")
    base = f"/v1/jobs/{worker.job}/artifacts"
    for name in (secret, "..%2f..%2fetc", "0" * 64):
        answer = api.http.get(f"{base}/{name}/content")
        assert answer.status_code == 404, name
    api.blobs.delete(artifact["sha256"])
    assert api.http.get(artifact["links"]["content"]).status_code == 410


def test_long_series_are_thinned_and_sparse_ones_never(api: Api, worker: FakeWorker) -> None:
    steps = list(range(1, 5001))
    losses: list[float | None] = [1.0] * 5000
    losses[1234], losses[4321], losses[2500] = 9.0, -9.0, None
    evaluated: list[float | None] = [step / 10 if step % 50 == 0 else None for step in steps]
    values = {"loss": losses, "val_loss": evaluated}
    worker.say(("metric", {"steps": steps, "values": values, "nonfinite": ["loss"]}))
    series = api.http.get(f"/v1/jobs/{worker.job}/metrics", params={"points": 40}).json()["series"]
    shown = dict(zip(series["loss"]["steps"], series["loss"]["values"], strict=True))
    assert len(shown) <= 60
    assert (shown[1235], shown[4322], shown[2501]) == (9.0, -9.0, None)
    assert {1, 5000} <= shown.keys()
    assert series["val_loss"]["steps"] == [step for step in steps if step % 50 == 0]
