"""Who gets in: binding, Host, Origin, keys; and the headers that every answer has."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from api_rig import TRAIN, Api

from service.api.keys import KeyFileError, load_keys
from service.api.security import BindError, is_loopback, own_names
from service.api.server import make_server
from service.jobs.records import key
from service.settings import Settings

SECRET = f"key_ann_{secrets.token_hex(32)}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An API that wants a key."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys"
    keys.write_text(f"# who may call\n\n{SECRET}\n")
    with Api(folder, api_key_file=keys, allowed_hosts=("mill.example",)) as api:
        yield api


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "127.0.0.2", "[::2]"]
)
def test_a_foreign_host_is_refused(api: Api, host: str) -> None:
    answer = api.http.get("/v1/jobs", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (421, "host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:8000"])
def test_own_names_are_served_on_any_port(api: Api, host: str) -> None:
    assert api.http.get("/v1/jobs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/jobs", "/openapi.json", "/assets/x.js"])
def test_host_is_checked_on_every_path(api: Api, path: str) -> None:
    assert api.http.get(path, headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "file://", "x", "http://["]
)
def test_a_foreign_origin_is_refused(api: Api, origin: str) -> None:
    for method, path in (("POST", "/v1/jobs"), ("GET", "/v1/jobs"), ("OPTIONS", "/v1/jobs")):
        answer = api.http.request(method, path, headers={"Origin": origin})
        assert (answer.status_code, answer.json()["code"]) == (403, "origin")
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert api.queued() == 0


def test_the_own_origin_is_served(api: Api) -> None:
    assert api.http.get("/v1/jobs", headers={"Origin": api.url}).status_code == 200


def test_on_loopback_without_keys_any_authorization_is_ignored(api: Api) -> None:
    assert api.http.get("/v1/jobs", headers={"Authorization": "Bearer sk-anything"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/v1/jobs", "/nothing", "/healthz"])
def test_every_answer_has_the_protecting_headers(api: Api, path: str) -> None:
    headers = api.http.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "server" not in headers


def test_ids_are_checked_before_they_become_keys(api: Api) -> None:
    job = api.submit()["id"]
    for strange in ("*", "job_*", "x:events", f"{job}:events", f"{job[:-1]}?", "..%2f..", "%00", job.upper()):
        for path in (f"/v1/jobs/{strange}", f"/v1/files/{strange}", f"/v1/models/{strange}"):
            assert api.http.get(path).status_code == 404, path
    api.redis.flushall()


def test_no_spec_makes_the_server_fetch_anything(api: Api) -> None:
    for field in ("source_url", "webhook", "url"):
        body = {**TRAIN, field: "http://127.0.0.1:1/"}
        assert api.http.post("/v1/jobs", json=body).status_code == 422
        inner = {"kind": "train", "spec": {**TRAIN["spec"], "corpus": {field: "http://127.0.0.1:1/"}}}
        assert api.http.post("/v1/jobs", json=inner).status_code == 422


def test_a_fault_tells_the_client_nothing_but_the_request_id(api: Api) -> None:
    job = api.submit()["id"]
    api.redis.hset(key("job", job), "spec", "{secret")
    answer = api.http.get(f"/v1/jobs/{job}")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.headers["x-request-id"] == answer.json()["request_id"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    api.redis.flushall()


def test_request_ids_go_in_and_out(api: Api) -> None:
    answer = api.http.get("/v1/jobs/x", headers={"X-Request-ID": "mine-1"})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "mine-1"
    bad = api.http.get("/v1/jobs/x", headers={"X-Request-ID": "a b<script>"})
    assert bad.headers["x-request-id"] == bad.json()["request_id"] != "a b<script>"


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer x",
        f"Basic {SECRET}",
        f"Bearer {SECRET}x",
        f"Bearer {SECRET[:-1]}{'1' if SECRET[-1] == '0' else '0'}",
        "Bearer é",
    ],
)
def test_without_a_valid_key_nothing_is_served(guarded: Api, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode()}
    for method, path in (
        ("GET", "/v1/jobs"),
        ("POST", "/v1/jobs"),
        ("GET", "/openapi.json"),
        ("GET", "/v1/x"),
    ):
        answer = guarded.http.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorised")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert SECRET not in answer.text


def test_with_a_valid_key_everything_is_served(guarded: Api) -> None:
    with guarded.client(headers={"Authorization": f"Bearer {SECRET}"}) as http:
        assert http.post("/v1/jobs", json=TRAIN).status_code == 202
        assert len(http.get("/v1/jobs").json()["data"]) == 1


def test_health_needs_no_key(guarded: Api) -> None:
    for path in ("/healthz", "/readyz", "/version", "/"):
        assert guarded.http.get(path).status_code == 200


def test_further_host_names_come_from_the_settings(guarded: Api) -> None:
    headers = {"Host": "mill.example", "Authorization": f"Bearer {SECRET}"}
    assert guarded.http.get("/v1/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_the_unspecified_address_is_nobodys_name(host: str) -> None:
    assert own_names(Settings(host=host)) == frozenset()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "mill.example"])
def test_other_addresses_need_a_key(tmp_path: Path, host: str) -> None:
    with pytest.raises(BindError, match="GRADMILL_API_KEY_FILE"):
        make_server(Settings(host=host, data_dir=tmp_path))


@pytest.mark.parametrize(
    "host, inside",
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)],
)
def test_loopback(host: str, inside: bool) -> None:
    assert is_loopback(host) is inside


@pytest.mark.parametrize(
    "content", ["", "# nothing\n", "short\n", "key_a_short\n", f"{SECRET}\nkey_B_{'0' * 40}\n"]
)
def test_a_bad_key_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(KeyFileError):
        load_keys(file)


def test_a_missing_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError):
        load_keys(tmp_path / "none")


@pytest.mark.parametrize("size, status", [(60_000, 200), (70_000, 431)])
def test_headers_have_a_limit_together(api: Api, size: int, status: int) -> None:
    many = {f"x-{i}": "v" * 1000 for i in range(size // 1000)}
    for headers in (many, {"x-long": "v" * size}):
        answer = api.http.get("/v1/jobs", headers=headers)
        assert answer.status_code == status
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("endless", [b"v", b"v: w\r\n"])
def test_headers_without_an_end_are_cut_off(api: Api, endless: bytes) -> None:
    """The server does not gather them: it answers long before all has come."""
    with socket.create_connection(("127.0.0.1", api.running.port), 30) as connection:
        connection.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nx-")
        answer = b""
        with suppress(OSError):
            for _ in range(64):
                connection.sendall(endless * (2**20 // len(endless)))
        with suppress(OSError):
            answer = connection.recv(1000)
    assert answer.startswith(b"HTTP/1.1 431 ") or answer == b""
    assert api.http.get("/healthz").status_code == 200
