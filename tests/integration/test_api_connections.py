"""Who sends slowly or opens many connections costs the others nothing: both have bounds."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from api_rig import DEADLINE_S, Api
from cluster import wait_for

from service.api.protocol import Door, peer_of
from service.api.server import FILES_BESIDE, make_door
from service.errors import UnavailableError
from service.settings import Settings

REQUEST_S = 0.5
GET = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
BOUNDARY = b"--x\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An API that waits for no request."""
    with Api(tmp_path_factory.mktemp("hasty"), request_s=REQUEST_S) as api:
        yield api


def connect(api: Api, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", api.running.port), 30, (source, 0))


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the server ends the connection."""
    answer = b""
    while part := connection.recv(65_536):
        answer += part
    return answer


def drip(connection: socket.socket, drop: bytes) -> bytes:
    """Sends a drop every now and then, until the server says something; all that it says."""
    deadline = time.monotonic() + DEADLINE_S
    while not select.select([connection], [], [], REQUEST_S / 10)[0]:
        assert time.monotonic() < deadline, "the server waits for ever"
        connection.sendall(drop)
    return rest_of(connection)


def problem_in(answer: bytes) -> tuple[int, dict[str, Any]]:
    """Status and problem of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    assert b"x-content-type-options: nosniff" in head
    problem: dict[str, Any] = json.loads(body)
    return int(head.split()[1]), problem


@pytest.mark.parametrize("drop", [b"", b"x", b"a: b\r\n"])
def test_a_head_that_comes_slowly_is_ended(hasty: Api, drop: bytes) -> None:
    with connect(hasty) as connection:
        connection.sendall(GET)
        status, problem = problem_in(drip(connection, drop))
    assert (status, problem["code"]) == (408, "slow-request")
    assert "The headers came too slowly" in problem["detail"]


def test_who_goes_on_sending_still_reads_why_the_connection_ends(hasty: Api) -> None:
    with connect(hasty) as connection:
        connection.sendall(GET)
        assert problem_in(rest_of(connection))[0] == 408
        for _ in range(100):
            connection.sendall(bytes(1000))  # a connection that is closed resets it, and the answer is lost


BODIES = {
    "json": (b"POST /v1/jobs", b"Content-Type: application/json", b'{"kind":', b" "),
    "form": (b"POST /v1/files", b"Content-Type: multipart/form-data; boundary=x", BOUNDARY, b"a"),
    "blob": (b"PUT /v1/blobs/" + b"0" * 64, b"Content-Type: application/octet-stream", b"", b"\0"),
}


@pytest.mark.parametrize("line, kind, begin, drop", BODIES.values(), ids=BODIES)
def test_a_body_that_comes_slowly_is_ended(
    hasty: Api, line: bytes, kind: bytes, begin: bytes, drop: bytes
) -> None:
    head = b"%s HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: slow-1\r\n%s\r\n" % (line, kind)
    with connect(hasty) as connection:
        connection.sendall(head + b"Content-Length: 100000\r\n\r\n" + begin)
        status, problem = problem_in(drip(connection, drop))
    assert (status, problem["code"], problem["request_id"]) == (408, "slow-request", "slow-1")
    assert "The body came too slowly" in problem["detail"]
    counted = rf'method="{line.split()[0].decode()}"'

    def is_counted() -> bool:
        lines = hasty.http.get("/metrics").text.splitlines()
        return any(counted in line and 'status="408"' in line for line in lines)

    wait_for("it is counted", is_counted)
    assert hasty.queued() == 0


def test_a_body_that_nobody_reads_holds_no_connection(hasty: Api) -> None:
    with connect(hasty) as connection:
        connection.sendall(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"HTTP/1.1" not in drip(connection, b"x")


def test_a_connection_that_asks_nothing_is_closed_without_a_word(hasty: Api) -> None:
    with connect(hasty) as connection:
        assert rest_of(connection) == b""


def test_a_body_that_goes_on_coming_may_take_longer(hasty: Api) -> None:
    def form() -> Iterator[bytes]:
        yield BOUNDARY + b"x" * 65_536
        time.sleep(3 * REQUEST_S)
        yield b"\r\n--x--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = hasty.http.post("/v1/files", content=form(), headers=headers)
    assert answer.status_code == 201, answer.text


def open_requests(api: Api) -> int:
    """How many requests are served, with the one that asks."""
    (line,) = (
        line
        for line in api.http.get("/metrics").text.splitlines()
        if line.startswith("gradmill_http_requests_open ")
    )
    return round(float(line.split()[1]))


def test_waiting_for_the_server_is_not_slow(hasty: Api) -> None:
    """Also where a client has begun to say more in the meantime."""
    job = hasty.submit()["id"]
    request = b"GET /v1/jobs/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nPrefer: wait=2\r\n\r\n"
    for more in (b"", b"\r\n", b"GET /"):
        with connect(hasty) as connection:
            connection.sendall(request % job.encode())
            wait_for("it is served", lambda: open_requests(hasty) == 2)
            connection.sendall(more)
            assert rest_of(connection).startswith(b"HTTP/1.1 200 ")
    hasty.redis.flushall()


def test_what_is_no_http_is_a_problem_too(hasty: Api) -> None:
    with connect(hasty) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert problem_in(rest_of(connection))[0] == 400


def test_one_address_can_not_take_all_connections(tmp_path: Path) -> None:
    with Api(tmp_path, connection_limit=5, address_limit=3) as api, ExitStack() as stack:
        mine = [stack.enter_context(connect(api)) for _ in range(3)]
        for each in mine:
            each.sendall(GET + b"\r\n")
            assert each.recv(65_536).startswith(b"HTTP/1.1 200 ")
            each.sendall(b"GET")  # so that it stays open
        status, problem = problem_in(rest_of(stack.enter_context(connect(api))))
        assert (status, problem["code"]) == (503, "connections")
        assert "Your address has 3 connections open" in problem["detail"]
        refused = api.http.get("/v1/jobs")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")

        others = [stack.enter_context(connect(api, "127.0.0.2")) for _ in range(2)]
        for each in others:
            each.sendall(GET + b"\r\n")
            assert each.recv(65_536).startswith(b"HTTP/1.1 200 ")
            each.sendall(b"GET")
        status, problem = problem_in(rest_of(stack.enter_context(connect(api, "127.0.0.3"))))
        assert (status, problem["detail"]) == (503, "5 connections are open, which is the most allowed.")

        mine[0].close()
        wait_for("there is room again", lambda: api.http.get("/v1/jobs").status_code == 200)


def test_an_ipv6_holder_is_one_peer() -> None:
    assert peer_of("2001:db8:0:1::5") == peer_of("2001:db8:0:1:ffff::") != peer_of("2001:db8:0:2::5")
    assert peer_of("::ffff:10.0.0.1") == peer_of("10.0.0.1") != peer_of("10.0.0.2")
    assert peer_of("fe80::1%eth0") == peer_of("fe80::2")


def test_a_door_forgets_who_has_left() -> None:
    door = Door(2, 1)
    door.enter("a")
    with pytest.raises(UnavailableError):
        door.enter("a")
    door.leave("a")
    door.leave("a")
    assert not door.inside
    door.enter("a")


def test_no_more_connections_are_taken_than_files_may_be_opened() -> None:
    door = make_door(Settings(connection_limit=2**40, address_limit=2**40))
    assert FILES_BESIDE < door.most < 2**40
    assert door.most_of_one == door.most
