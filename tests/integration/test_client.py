"""The client against a server that behaves badly: streams that break, repeat, fall silent or reset."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from service.client import (
    Client,
    Frame,
    NotFoundError,
    RefusedError,
    ServerFaultError,
    UnauthorisedError,
    UnreachableError,
    parse_frames,
)
from service.client.transport import segment

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """A real HTTP server whose every request goes to ``answer``; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_address[1]}"
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def send(handler: BaseHTTPRequestHandler, status: int, body: Any, **headers: str) -> None:
    content = json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"content-type": "application/json", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def frame(seq: int) -> bytes:
    data = {
        "seq": seq,
        "type": "log",
        "time": "t",
        "attempt": 1,
        "data": {"level": "info", "message": str(seq)},
    }
    return f"id: {seq}\nevent: log\ndata: {json.dumps(data)}\n\n".encode()


def start_stream(handler: BaseHTTPRequestHandler) -> int:
    """Sends the head of a stream; the last event that the client has."""
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.end_headers()
    return int(handler.headers.get("Last-Event-ID", 0))


def test_a_stream_that_breaks_at_every_event_is_read_to_its_end_once() -> None:
    opened: list[int] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        last = start_stream(handler)
        opened.append(last)
        if last == 6:
            handler.wfile.write(b"event: end\n\n")
            return
        for seq in range(max(1, last), last + 2):  # the last one again, and the next
            handler.wfile.write(frame(seq))
        handler.wfile.write(frame(last + 2)[:-10])  # half a frame, then gone

    with server(answer) as url, Client(url) as client:
        assert [event["seq"] for event in client.events("job_1")] == [1, 2, 3, 4, 5, 6]
    assert opened == [0, 1, 2, 3, 4, 5, 6]


def test_after_a_reset_the_history_is_read_and_nothing_comes_twice() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if "text/event-stream" not in handler.headers.get("Accept", ""):
            after = int(handler.path.partition("after=")[2].split("&")[0])
            data = [json.loads(frame(seq).split(b"data: ")[1]) for seq in range(after + 1, min(after + 3, 6))]
            send(handler, 200, {"object": "list", "data": data, "has_more": after + 2 < 5, "last_seq": 5})
            return
        last = start_stream(handler)
        if last < 5:
            handler.wfile.write(frame(last + 1) + b'event: reset\ndata: {"state": "running"}\n\n')
        else:
            handler.wfile.write(frame(5) + frame(6) + b": ping\n\nevent: end\n\n")

    with server(answer) as url, Client(url) as client:
        assert [event["seq"] for event in client.events("job_1")] == [1, 2, 3, 4, 5, 6]


def test_a_stream_that_stays_silent_ends_at_the_deadline() -> None:
    hold = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        start_stream(handler)
        handler.wfile.write(frame(1) + b": ping\n\n")
        hold.wait(10)

    with server(answer) as url, Client(url) as client:
        with pytest.raises(TimeoutError, match="job_1"):
            list(client.events("job_1", timeout_s=0.5))
        hold.set()


def test_a_submission_is_sent_again_with_the_same_key_until_it_is_answered() -> None:
    keys: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        keys.append(handler.headers["Idempotency-Key"])
        handler.rfile.read(int(handler.headers["content-length"]))
        if len(keys) == 1:
            handler.connection.close()
        elif len(keys) == 2:
            send(handler, 503, {"detail": "later"}, retry_after="0")
        else:
            send(handler, 202, {"id": "job_1"})

    with server(answer) as url, Client(url) as client:
        assert client.submit("train", {})["id"] == "job_1"
    assert len(keys) == 3
    assert len(set(keys)) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, UnauthorisedError),
        (403, UnauthorisedError),
        (404, NotFoundError),
        (410, NotFoundError),
        (409, RefusedError),
        (422, RefusedError),
        (500, ServerFaultError),
    ],
)
def test_problem_documents_become_exceptions(status: int, kind: type[RefusedError]) -> None:
    problem = {
        "detail": "why",
        "code": "the-code",
        "param": "spec.steps",
        "errors": [{"param": "spec.steps"}],
    }
    with (
        server(lambda handler: send(handler, status, problem)) as url,
        Client(url) as client,
        pytest.raises(kind, match="why") as caught,
    ):
        client.get("job_1")
    assert (caught.value.status, caught.value.code, caught.value.param) == (status, "the-code", "spec.steps")
    assert caught.value.errors == [{"param": "spec.steps"}]


def test_an_error_that_is_not_json_is_still_an_error() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_error(500)

    with server(answer) as url, Client(url) as client, pytest.raises(ServerFaultError, match="500"):
        client.get("job_1")


def test_what_must_not_be_tried_again_is_not() -> None:
    asked: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        send(handler, 429, {"detail": "never"}, x_should_retry="false")

    with server(answer) as url, Client(url) as client, pytest.raises(RefusedError, match="never"):
        client.get("job_1")
    assert len(asked) == 1


def test_an_absent_server_is_unreachable_once_the_patience_is_over() -> None:
    with server(lambda handler: None) as url:
        pass
    with Client(url, patience_s=0.3) as client:
        with pytest.raises(UnreachableError, match=url):
            client.get("job_1")
        with pytest.raises(UnreachableError, match=url):
            list(client.events("job_1", patience_s=0.3))


@pytest.mark.parametrize("name", ["../../etc", "..", "a/b", "x?y=1", "x#y", "%2e%2e", "job_x@3"])
def test_a_name_is_one_part_of_a_path(name: str) -> None:
    url = httpx.URL("http://host/v1/jobs/").join(f"/v1/jobs/{segment(name)}/logs")
    assert unquote(url.raw_path.decode()) == f"/v1/jobs/{name}/logs"
    assert url.raw_path.count(b"/") == 4


def test_closing_a_completion_closes_its_connection() -> None:
    closed = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers["content-length"]))
        start_stream(handler)
        chunk = b'data: {"choices": [{"text": "a"}]}\n\n'
        try:
            while True:
                handler.wfile.write(chunk)
        except OSError:
            closed.set()

    with server(answer) as url, Client(url) as client:
        pieces = client.stream_completion("m", "p")
        assert next(pieces) == "a"
        pieces.close()  # type: ignore[attr-defined]
        assert closed.wait(10)


@pytest.mark.parametrize(
    ("lines", "frames"),
    [
        (
            ["data: a", "", ": ping", "", "data: b", ""],
            [Frame("message", "a", None), Frame("message", "b", None)],
        ),
        (["id: 7", "event: x", "data:a", "data: b", ""], [Frame("x", "a\nb", "7")]),
        (["event: end", ""], [Frame("end", "", None)]),
        (["data: unfinished"], []),
    ],
)
def test_frames_are_read_as_the_standard_says(lines: list[str], frames: list[Frame]) -> None:
    assert list(parse_frames(lines)) == frames
