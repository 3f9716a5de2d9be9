"""API keys: created once, kept as hashes, with scopes, an end, an owner and limits; and what each may do."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_rig import DEADLINE_S, TRAIN, Api
from cluster import wait_for
from redis.exceptions import RedisError

from service import client
from service.api import keys as keys_module
from service.api.keys import KeyRing, required_scope
from service.client import Client, parse_frames
from service.embedded import EmbeddedServer
from service.errors import UnauthorisedError
from service.jobs.connection import aconnect, connect
from service.jobs.records import key
from service.keys import SCOPES, drop, new_key, put
from service.settings import Settings

ADMIN = f"key_root_{'a' * 40}"
WORKER = f"key_mill_{'b' * 40}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An API whose key file has an admin and a worker."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys"
    keys.write_text(f"{ADMIN}\n{WORKER} worker\n")
    with Api(folder, api_key_file=keys) as api:
        yield api


def as_holder(api: Api, secret: str) -> httpx.Client:
    return api.client(headers={"Authorization": f"Bearer {secret}"})


def create(api: Api, admin: str = ADMIN, **body: Any) -> dict[str, Any]:
    with as_holder(api, admin) as http:
        answer = http.post("/v1/keys", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_a_key_is_shown_once_and_kept_as_a_hash(guarded: Api) -> None:
    made = create(guarded, name="ann")
    secret = made["secret"]
    assert secret.startswith(f"{made['id']}_")
    assert made["scopes"] == ["read", "submit"]
    with as_holder(guarded, ADMIN) as http:
        assert "secret" not in http.get(f"/v1/keys/{made['id']}").json()
        assert secret not in http.get("/v1/keys").text
    for name in guarded.redis.scan_iter("*"):
        if guarded.redis.type(name) == b"string":
            assert secret.encode() not in guarded.redis.get(name)
    assert "sha256" in json.loads(guarded.redis.get(key("key", made["id"])))


REQUESTS = [
    ("GET", "/v1/jobs", "read"),
    ("GET", "/v1/models", "read"),
    ("GET", "/openapi.json", "read"),
    ("GET", "/metrics", "read"),
    ("POST", "/v1/jobs", "submit"),
    ("POST", "/v1/files", "submit"),
    ("DELETE", "/v1/jobs/x", "submit"),
    ("GET", "/v1/nothing", "read"),
    ("PATCH", "/v1/nothing", "submit"),
    ("GET", "/v1/keys", "admin"),
    ("DELETE", "/v1/keys/x", "admin"),
    ("GET", f"/v1/blobs/{'0' * 64}", "worker"),
    ("PUT", f"/v1/blobs/{'0' * 64}", "worker"),
]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_does_what_its_scopes_say_and_nothing_else(guarded: Api, scope: str) -> None:
    made = create(guarded, scopes=[scope])
    with as_holder(guarded, made["secret"]) as http:
        for method, path, needed in REQUESTS:
            answer = http.request(method, path)
            refused = answer.status_code == 403 and answer.json()["code"] == "scope"
            assert refused == (needed not in made["scopes"]), (method, path, answer.status_code)


def test_an_admin_reads_and_submits_but_is_no_worker() -> None:
    made, _ = new_key(["admin"])
    assert made.scopes == {"admin", "read", "submit"}
    assert required_scope("PUT", "/v1/blobs/x") == "worker"


def test_other_peoples_things_are_not_found(guarded: Api) -> None:
    ann, bob = create(guarded)["secret"], create(guarded)["secret"]
    with as_holder(guarded, ann) as http:
        job = http.post("/v1/jobs", json=TRAIN).json()["id"]
        file = http.post("/v1/files", files={"file": ("a", b"some text")}).json()["id"]
    worker = guarded.worker().live()
    worker.claim()
    paths = [f"/v1/jobs/{job}", f"/v1/jobs/{job}/events", f"/v1/jobs/{job}/checkpoints", f"/v1/files/{file}"]
    with as_holder(guarded, bob) as http:
        for path in [*paths, f"/v1/files/{file}/content", f"/v1/jobs/{job}/metrics"]:
            assert http.get(path).status_code == 404, path
        for action in ("cancel", "pause", "resume", "retry"):
            assert http.post(f"/v1/jobs/{job}/{action}").status_code == 404
        assert http.delete(f"/v1/jobs/{job}").status_code == 404
        assert http.delete(f"/v1/files/{file}").status_code == 404
        assert http.get("/v1/jobs").json()["data"] == []
        assert http.get("/v1/files").json()["data"] == []
        assert job not in http.get("/v1/workers").text
        stolen = {"model": {"name": "bigram", "seq_len": 3}, "corpus": {"file": file}}
        assert http.post("/v1/jobs", json={"kind": "train", "spec": stolen}).status_code == 422
    for holder in (ann, ADMIN):
        with as_holder(guarded, holder) as http:
            assert all(http.get(path).status_code == 200 for path in paths)
            assert job in http.get("/v1/workers").text
    worker.finish()
    worker.leave()


def test_keys_of_one_owner_see_the_same(guarded: Api) -> None:
    first, second = create(guarded, owner="team")["secret"], create(guarded, owner="team")["secret"]
    with as_holder(guarded, first) as http:
        job = http.post("/v1/jobs", json=TRAIN).json()["id"]
    with as_holder(guarded, second) as http:
        assert http.get(f"/v1/jobs/{job}").status_code == 200
        assert http.post(f"/v1/jobs/{job}/cancel").status_code == 200


def test_a_revoked_key_is_refused_at_once(guarded: Api) -> None:
    made = create(guarded)
    with as_holder(guarded, made["secret"]) as http:
        assert http.get("/v1/jobs").status_code == 200
        with as_holder(guarded, ADMIN) as admin:
            assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
            assert admin.delete(f"/v1/keys/{made['id']}").status_code == 404
        assert http.get("/v1/jobs").status_code == 401
    assert made["id"] not in str(guarded.redis.zrange(key("keys", "*"), 0, -1))


def test_an_expired_key_is_refused(guarded: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create(guarded, expires_in_s=3600)
    with as_holder(guarded, made["secret"]) as http:
        assert http.get("/v1/jobs").status_code == 200
        later = time.time() + 3601
        monkeypatch.setattr(keys_module.time, "time", lambda: later)
        answer = http.get("/v1/jobs")
    assert (answer.status_code, answer.json()["detail"]) == (401, "This API key has expired.")


@pytest.mark.parametrize("path", ["/v1/jobs/{job}/events", "/v1/events?jobs={job}", "/v1/events?jobs=*"])
def test_a_revoked_key_ends_its_streams_and_no_others(guarded: Api, path: str) -> None:
    ann, bob = create(guarded, owner="team"), create(guarded, owner="team")
    with as_holder(guarded, ann["secret"]) as mine, as_holder(guarded, bob["secret"]) as other:
        job = mine.post("/v1/jobs", json=TRAIN).json()["id"]
        path, stream = path.format(job=job), {"Accept": "text/event-stream"}
        with mine.stream("GET", path, headers=stream) as ending, other.stream(
            "GET", path, headers=stream
        ) as lasting:  # fmt: skip
            ends, lasts = parse_frames(ending.iter_lines()), parse_frames(lasting.iter_lines())
            first = next(ends)
            assert next(lasts) == first
            with as_holder(guarded, ADMIN) as admin:
                admin.delete(f"/v1/keys/{ann['id']}")
            (last,) = ends
            assert (last.event, last.id) == ("error", None)
            assert (last.json()["status"], last.json()["code"]) == (401, "unauthorised")
            assert mine.get(path, headers=stream).status_code == 401
            other.post(f"/v1/jobs/{job}/cancel")
            assert "cancelled" in next(lasts).data


def test_an_expired_key_ends_its_streams(guarded: Api) -> None:
    made = create(guarded, expires_in_s=1)
    with as_holder(guarded, made["secret"]) as http, http.stream("GET", "/v1/events?jobs=*") as answer:
        *_, last = parse_frames(answer.iter_lines())
    assert (last.event, last.json()["detail"]) == ("error", "This API key has expired.")


def test_the_first_key_ends_the_streams_of_an_open_system(tmp_path: Path) -> None:
    with Api(tmp_path / "data") as api, api.http.stream("GET", "/v1/events?jobs=*") as answer:
        frames = parse_frames(answer.iter_lines())
        assert next(frames).event == "reset"
        api.client().post("/v1/keys", json={"scopes": ["admin"]})
        (last,) = frames
    assert (last.event, last.json()["status"]) == ("error", 401)


def test_while_redis_is_away_nothing_counts_against_the_key_of_a_stream(
    embedded_server: EmbeddedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, keys_module.__name__)
    monkeypatch.setattr(keys_module, "RECHECK_S", 0.01)

    def is_looked_up() -> bool:
        return "nothing is known against a key" in caplog.text

    async def watch() -> UnauthorisedError:
        ring = KeyRing(Settings(), {}, aconnect(embedded_server.url))
        made, secret = new_key(["admin"])
        await ring.change(put(made))
        refusal = asyncio.create_task(ring.refusal(f"Bearer {secret}"))
        os.kill(embedded_server.pid, signal.SIGKILL)
        for _ in range(2):
            caplog.clear()
            await asyncio.to_thread(wait_for, "its key is looked up", is_looked_up)
        assert not refusal.done()
        await asyncio.to_thread(wait_for, "it is dead", embedded_server.revive)
        await asyncio.to_thread(wait_for, "it is back", lambda: is_up(embedded_server.url))
        await ring.change(drop(made.id))
        await ring.change(put(new_key(["admin"])[0]))
        return await asyncio.wait_for(refusal, DEADLINE_S)

    assert asyncio.run(watch()).status == 401


def is_up(url: str) -> bool:
    with suppress(RedisError), connect(url, patient=False) as redis:
        return bool(redis.ping())
    return False


def test_our_client_is_told_why_its_stream_ends(guarded: Api) -> None:
    made = create(guarded)
    with Client(guarded.url, made["secret"]) as ours:
        job = ours.submit("train", TRAIN["spec"])["id"]
        followed, single = ours.follow([job]), ours.events(job)
        assert next(followed)[0] == job
        assert next(single)["seq"] == 1
        with as_holder(guarded, ADMIN) as admin:
            admin.delete(f"/v1/keys/{made['id']}")
        for stream in (followed, single):
            with pytest.raises(client.UnauthorisedError, match="not known here"):
                next(stream)  # type: ignore[call-overload]


def test_the_last_use_is_remembered(guarded: Api) -> None:
    made = create(guarded)
    with as_holder(guarded, ADMIN) as admin:
        assert admin.get(f"/v1/keys/{made['id']}").json()["last_used_at"] is None
        with as_holder(guarded, made["secret"]) as http:
            http.get("/v1/jobs")
        assert admin.get(f"/v1/keys/{made['id']}").json()["last_used_at"] is not None


def test_a_key_opens_what_can_be_read_of_a_store_that_takes_no_writes(guarded: Api) -> None:
    made = create(guarded)
    guarded.redis.config_set("min-replicas-to-write", 1)
    try:
        with as_holder(guarded, made["secret"]) as http:
            assert http.get("/openapi.json").status_code == 200
    finally:
        guarded.redis.config_set("min-replicas-to-write", 0)


def test_secrets_are_compared_in_constant_time(guarded: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for an id that there is not, whose hash would else be missed at once."""
    compared: list[tuple[int, int]] = []
    compare = keys_module.hmac.compare_digest

    def noted(a: str, b: str) -> bool:
        compared.append((len(a), len(b)))
        return compare(a, b)

    monkeypatch.setattr(keys_module.hmac, "compare_digest", noted)
    for wrong in (f"key_root_{'0' * 40}", f"key_nobody_{'0' * 40}"):
        with as_holder(guarded, wrong) as http:
            assert http.get("/v1/jobs").status_code == 401
    assert compared == [(64, 64), (64, 64)]


@pytest.mark.parametrize(
    "body",
    [
        {"scopes": []},
        {"scopes": ["root"]},
        {"owner": "*"},
        {"owner": "A b"},
        {"expires_in_s": 0},
        {"limits": {"queued": -1}},
        {"limits": {"bytes": 1.5}},
        {"secret": "mine"},
    ],
)
def test_a_bad_key_request_is_refused(guarded: Api, body: dict[str, Any]) -> None:
    with as_holder(guarded, ADMIN) as http:
        assert http.post("/v1/keys", json=body).status_code == 422


def test_keys_of_the_file_work_while_redis_is_away_and_the_others_wait(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{ADMIN}\n")
    with Api(tmp_path / "data", api_key_file=keys) as api:
        made = create(api)["secret"]
        api._embedded.stop()
        with as_holder(api, ADMIN) as http:
            assert http.get("/openapi.json").status_code == 200
        with as_holder(api, made) as http:
            answer = http.get("/openapi.json")
            assert (answer.status_code, answer.json()["code"]) == (503, "no-redis")
        api._embedded.start()


def test_the_first_key_closes_an_open_system_and_must_be_an_admins(tmp_path: Path) -> None:
    with Api(tmp_path / "data") as api:
        answer = api.http.post("/v1/keys", json={})
        assert (answer.status_code, answer.json()["code"]) == (409, "no-admin-key")
        made = api.http.post("/v1/keys", json={"scopes": ["admin"]}).json()
        assert api.http.get("/v1/jobs").status_code == 401
        with as_holder(api, made["secret"]) as http:
            other = http.post("/v1/keys", json={}).json()
            last = http.delete(f"/v1/keys/{made['id']}")
            assert (last.status_code, last.json()["code"]) == (409, "no-admin-key")
            assert http.delete(f"/v1/keys/{other['id']}").status_code == 204
            assert http.delete(f"/v1/keys/{made['id']}").status_code == 204
        assert api.http.get("/v1/jobs").status_code == 200
