"""A real API on a loopback port with an embedded server, and a worker that says what a test tells it to."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from service.api.server import Server, make_server
from service.blobs import BlobStore, open_store
from service.client import Frame, parse_frames
from service.embedded import EmbeddedServer
from service.jobs import calls
from service.jobs.connection import connect
from service.jobs.lanes import BATCH
from service.jobs.records import Claim
from service.settings import Settings

TEXT = "to be or not to be that is the question " * 20
SPEC: dict[str, Any] = {"model": {"name": "bigram", "seq_len": 8}, "corpus": {"text": TEXT}, "steps": 10}
TRAIN: dict[str, Any] = {"kind": "train", "spec": SPEC}
DEADLINE_S = 30.0


def train_with(**changes: Any) -> dict[str, Any]:
    """The body of a train job whose spec has other fields."""
    return {"kind": "train", "spec": {**SPEC, **changes}}


class RunningServer:
    """A server in a thread, from entry to exit."""

    def __init__(self, settings: Settings) -> None:
        ready = threading.Event()
        self.server: Server = make_server(settings, ready.set)
        self._ready = ready
        self._thread = threading.Thread(target=self.server.run, daemon=True)

    @property
    def port(self) -> int:
        port: int = self.server.servers[0].sockets[0].getsockname()[1]
        return port

    def __enter__(self) -> RunningServer:
        self._thread.start()
        assert self._ready.wait(DEADLINE_S), "the API does not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """As a signal would."""
        self.server.should_exit = True
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the API does not stop"


class Api:
    """Server, store, API and a client, from entry to exit."""

    def __init__(self, data: Path, **settings: Any) -> None:
        self.data = data
        self._given = settings
        self._embedded = EmbeddedServer(data)
        self._names = itertools.count()

    def __enter__(self) -> Api:
        self._embedded.start()
        self.settings = Settings(
            **{
                "redis_url": self._embedded.url,
                "data_dir": self.data,
                "port": 0,
                "sweep_s": 0.2,
                **self._given,
            }
        )
        self.running = RunningServer(self.settings).__enter__()
        self.redis = connect(self._embedded.url)
        self.blobs: BlobStore = open_store(self.settings)
        self.http = self.client()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        self.running.stop()
        self.redis.close()
        self._embedded.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.running.port}"

    @property
    def redis_pid(self) -> int:
        return self._embedded.pid

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, trust_env=False, timeout=DEADLINE_S, **options)

    def restart(self) -> None:
        """Stops the API and starts another one on the same data, as a deployment does."""
        self.http.close()
        self.running.stop()
        self.running = RunningServer(self.settings).__enter__()
        self.http = self.client()

    def submit(self, body: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        answer = self.http.post("/v1/jobs", json=body or TRAIN, headers=headers)
        assert answer.status_code == 202, answer.text
        job: dict[str, Any] = answer.json()
        return job

    def queued(self) -> int:
        return sum(entry["queued"] for entry in self.http.get("/v1/queues").json()["data"])

    def worker(self, lane: str = BATCH) -> FakeWorker:
        return FakeWorker(self, f"worker-{next(self._names)}", lane)

    def frames(self, job: str, *, after: int = 0, stop_after: int | None = None) -> Iterator[Frame]:
        """Frames of a job's stream, up to its end or until ``stop_after`` events have come."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        with self.http.stream("GET", f"/v1/jobs/{job}/events", headers=headers) as answer:
            assert answer.status_code == 200
            seen = 0
            for frame in parse_frames(answer.iter_lines()):
                yield frame
                seen += frame.id is not None
                if stop_after is not None and seen >= stop_after:
                    return


class FakeWorker:
    """Speaks the calls of the job model; one claim at a time."""

    def __init__(self, api: Api, name: str, lane: str) -> None:
        self._api = api
        self.name, self.lane = name, lane
        self._nonces = itertools.count()
        self.said = 0

    def live(self) -> FakeWorker:
        calls.run(self._api.redis, calls.heartbeat(self.name, self.lane, {"pid": 1}))
        return self

    def leave(self) -> None:
        calls.run(self._api.redis, calls.leave(self.name, self.lane))

    def claim(self) -> Claim:
        self.said = 0
        call = calls.claim(self.lane, self.name, f"{self.name}-{next(self._nonces)}")
        claim = calls.run(self._api.redis, call)
        assert claim is not None
        self.job, self.token = claim.job.id, claim.token
        return claim

    def say(self, *events: calls.Event) -> str:
        appended = calls.run(self._api.redis, calls.append(self.job, self.token, self.said, events))
        self.said += len(events)
        return appended.verb

    def loss(self, *points: tuple[int, float | None]) -> str:
        values = {"loss": [value for _, value in points]}
        return self.say(("metric", {"steps": [step for step, _ in points], "values": values}))

    def finish(self, outcome: str = "succeeded", **options: Any) -> str:
        return calls.run(
            self._api.redis, calls.finish(self.job, self.token, outcome, first=self.said, **options)
        )


def ids_of(frames: Iterator[Frame]) -> list[int]:
    return [int(frame.id) for frame in frames if frame.id is not None]


def data_of(frame: Frame) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(frame.data)
    return event
