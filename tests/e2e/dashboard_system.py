"""A running service for the browser tests: the real API, and a worker that a test drives."""

from __future__ import annotations

import contextlib
import math
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx
from redis import Redis

from service.api.server import make_server
from service.embedded import EmbeddedServer
from service.ids import new_id
from service.jobs import calls
from service.jobs.connection import connect
from service.jobs.events import stream_key
from service.jobs.lanes import BATCH
from service.jobs.records import key
from service.settings import Settings

T = TypeVar("T")
DEADLINE_S = 30.0
LONG_LEASE_MS = 600_000
TRAIN_SPEC = {
    "model": {"name": "bigram", "seq_len": 4},
    "corpus": {"text": "to be or not to be " * 40},
    "steps": 400,
}


def wait_for(what: str, look: Callable[[], T | None]) -> T:
    """The first truthy answer of ``look``; AssertionError with ``what`` when none comes in time."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE_S:g} s: {what}")


class System:
    """The API in a thread of this process, on a free port; ``environment`` is what a real worker needs."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        self._redis_server = EmbeddedServer(data_dir)
        self._settings = {"data_dir": data_dir, **settings}

    def __enter__(self) -> System:
        redis_url = self._redis_server.__enter__().url
        self.redis: Redis = connect(redis_url)
        self.environment = {
            "GRADMILL_REDIS_URL": redis_url,
            "GRADMILL_DATA_DIR": str(self._settings["data_dir"]),
        }
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        settings = Settings(redis_url=redis_url, port=self.port, **self._settings)
        ready = threading.Event()
        self._server = make_server(settings, ready.set)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), daemon=True)
        self._thread.start()
        if not ready.wait(DEADLINE_S):
            raise AssertionError("the API did not start")
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=DEADLINE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join(DEADLINE_S)
        self.redis.close()
        self._redis_server.__exit__(kind, error, trace)

    def submit(
        self, name: str = "A train job", spec: Mapping[str, Any] = TRAIN_SPEC, kind: str = "train"
    ) -> str:
        """Queues a job through the API; its id."""
        answer = self.http.post("/v1/jobs", json={"kind": kind, "name": name, "spec": spec})
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    def start(self, name: str = "A train job", **more: Any) -> Worker:
        """Queues a job and claims it."""
        job_id = self.submit(name, **more)
        worker = self.claim()
        assert worker.job_id == job_id
        return worker

    def publish(self, alias: str = "", spec: Mapping[str, Any] = TRAIN_SPEC) -> str:
        """The id of a bigram model that a job has left behind; its weights are never read."""
        worker, model_id = self.start("Trained", spec=spec), new_id("model")
        record = {
            "id": model_id,
            "alias": alias,
            "job": worker.job_id,
            "step": 400,
            "weights": "0" * 64,
            "config": {"name": "bigram", "seq_len": 4, "vocab_size": 8},
            "created": 1,
        }
        worker.finish(model=calls.Model(model_id, record, alias))
        return model_id

    def claim(self, lane: str = BATCH) -> Worker:
        """A worker that has claimed the next job of a lane."""
        worker = self.try_claim(lane)
        assert worker is not None, f"nothing is queued in lane {lane}"
        return worker

    def try_claim(self, lane: str) -> Worker | None:
        """The same, or None when nothing is queued."""
        request = calls.claim(lane, "test-worker", secrets.token_hex(8), LONG_LEASE_MS)
        claim = calls.run(self.redis, request)
        return None if claim is None else Worker(self.redis, claim.job.id, claim.token)

    def job(self, job_id: str) -> dict[str, Any]:
        """The job object."""
        job: dict[str, Any] = self.http.get(f"/v1/jobs/{job_id}").json()
        return job

    def forget_after(self, job_id: str, seq: int) -> None:
        """Takes back a job's last events, as a store does that has lost its last second."""
        stream, record = stream_key(job_id), key("job", job_id)
        kept = self.redis.xrange(stream, max=f"{seq}-0")
        self.redis.delete(stream)
        for entry_id, fields in kept:
            self.redis.xadd(stream, fields, id=entry_id)
        self.redis.hset(record, "seq", str(seq))

    def end_all(self) -> None:
        """Cancels whatever a test has left, so that the next one's claims get its own jobs."""
        for job in self.http.get("/v1/jobs", params={"limit": 100}).json()["data"]:
            if job["state"] in ("queued", "running", "paused"):
                self.http.post(f"/v1/jobs/{job['id']}/cancel")
            if job["state"] in ("running", "cancelling"):
                calls.run(self.redis, calls.finish(job["id"], job["attempt"], "cancelled"))


class Worker:
    """One attempt of a job, whose events a test writes. The lease is long, so nothing happens by itself."""

    def __init__(self, redis: Redis, job_id: str, token: int) -> None:
        self.job_id = job_id
        self.token = token
        self._redis = redis
        self._sent = 0

    def say(self, *events: calls.Event) -> None:
        """Appends events to the job's log."""
        answer = calls.run(self._redis, calls.append(self.job_id, self.token, self._sent, events))
        assert answer.verb in ("go", "cancel"), answer
        self._sent += len(events)

    def losses(self, steps: Iterable[int], loss: Callable[[int], float], name: str = "loss") -> None:
        """One flush of a metric: a value a step."""
        steps = list(steps)
        values = [loss(step) for step in steps]
        finite = [value if math.isfinite(value) else None for value in values]
        data: dict[str, Any] = {"steps": steps, "values": {name: finite}}
        if None in finite:
            data["nonfinite"] = [name]
        self.say(("metric", data))

    def sample(self, step: int, text: str, prompt: str = "to ") -> None:
        """A text sample of a step."""
        self.say(("sample", {"step": step, "prompt": prompt, "text": text}))

    def finish(self, outcome: str = "succeeded", **more: Any) -> None:
        """Ends the job."""
        assert calls.run(self._redis, calls.finish(self.job_id, self.token, outcome, **more)) == outcome

    def pause(self) -> None:
        """Gives the job back as a worker that was asked to pause it."""
        calls.run(self._redis, calls.release(self.job_id, self.token, "pause"))

    def lose(self) -> None:
        """Gives the job back as a worker that has crashed."""
        calls.run(self._redis, calls.release(self.job_id, self.token, "crash"))


class Proxy:
    """A TCP relay in front of the API whose connections a test can cut, and whose requests it can read."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Closes every open connection; how many there were."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _close(end)
        return len(pairs)

    def close(self) -> None:
        """Stops listening."""
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(target=self._relay, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._relay, args=(server, client, False), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, record: bool) -> None:
        try:
            while data := source.recv(65_536):
                if record:
                    self.requests.append(data)
                sink.sendall(data)
        except OSError:
            pass
        _close(source)
        _close(sink)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
