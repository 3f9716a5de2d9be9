"""What two cores carry: ``python -m bench.service [part …]``; API, server and load on the same machine.

| part | what it measures |
|---|---|
| ``accept`` | accepted jobs a second at 32 connections, the API's CPU time for each |
| ``read`` | the same of reading one job |
| ``running`` | from the request to the ``running`` event at an open viewer, both lanes |
| ``viewers`` | 1,000 viewers of one job with 100 events a second |
| ``list`` | the first page of a list of 100,000 jobs |
| ``memory`` | the API's memory before and after a load; ``--minutes`` says how long |

Prints a table with the bars, and with ``--write`` stores it in ``bench/results/service.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import uvloop

from bench.figures import Figure, store
from bench.service_system import Connection, System, cpu_seconds, request, resident_mib
from bench.service_viewers import Watch
from service.ids import new_id
from service.jobs import calls
from service.jobs.connection import connect
from service.jobs.lanes import BATCH, QUICK
from service.jobs.records import key

CONNECTIONS = 32
LOAD_S = 5.0
WARM_UP = 300
LANE_RUNS = 40
VIEWERS = 1000
EVENTS_A_SECOND = 100
WATCH_S = 10.0
LISTED = 100_000
PAGES = 50
SPEC: dict[str, Any] = {
    "model": {"name": "bigram", "seq_len": 8},
    "corpus": {"name": "shakespeare"},
    "steps": 10,
}
SAMPLED = {"name": "bigram", "vocab_size": 65, "seq_len": 8}
SUBMIT = request("POST", "/v1/jobs", json.dumps({"kind": "train", "spec": SPEC}).encode())


def percentile(values: list[float], percent: int) -> float:
    """A percentile of at least two values."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


@dataclass(frozen=True)
class Load:
    """What came of sending requests as fast as answers come."""

    answers: int
    seconds: float
    api_cpu: float
    redis_cpu: float
    latencies: list[float]


async def load(system: System, sent: bytes, status: int, seconds: float) -> Load:
    """Sends a request over and over on every connection; each answer must have the status."""
    connections = [await Connection.open(system.port) for _ in range(CONNECTIONS)]
    latencies: list[float] = []

    async def repeat(connection: Connection, until: float, at_most: int) -> None:
        while time.perf_counter() < until and len(latencies) < at_most:
            began = time.perf_counter()
            found, body = await connection.send(sent)
            if found != status:
                raise AssertionError(f"{found} instead of {status}: {body[:300]!r}")
            latencies.append(time.perf_counter() - began)

    async def all_repeat(until: float, at_most: int) -> None:
        await asyncio.gather(*(repeat(each, until, at_most) for each in connections))

    await all_repeat(time.perf_counter() + LOAD_S, WARM_UP)
    latencies.clear()
    pids = system.api_pid, system.redis.pid
    before, began = [cpu_seconds(pid) for pid in pids], time.perf_counter()
    await all_repeat(began + seconds, 10**9)
    took = time.perf_counter() - began
    api_cpu, redis_cpu = (cpu_seconds(pid) - then for pid, then in zip(pids, before, strict=True))
    for connection in connections:
        connection.close()
    return Load(len(latencies), took, api_cpu, redis_cpu, latencies)


async def accept(system: System) -> list[Figure]:
    done = await load(system, SUBMIT, 202, LOAD_S)
    return [
        Figure("accepted jobs", done.answers / done.seconds, "1/s", 800, at_least=True),
        Figure("accepting: p99", 1e3 * percentile(done.latencies, 99), "ms", 150),
        Figure("CPU of the API for each accepted job", 1e6 * done.api_cpu / done.answers, "us", 500),
        Figure("CPU of Redis for each accepted job", 1e6 * done.redis_cpu / done.answers, "us"),
    ]


async def read(system: System) -> list[Figure]:
    connection = await Connection.open(system.port)
    _, body = await connection.send(SUBMIT)
    connection.close()
    done = await load(system, request("GET", f"/v1/jobs/{json.loads(body)['id']}"), 200, LOAD_S)
    return [
        Figure("jobs read", done.answers / done.seconds, "1/s", 1000, at_least=True),
        Figure("reading: p99", 1e3 * percentile(done.latencies, 99), "ms"),
        Figure("CPU of the API for each job read", 1e6 * done.api_cpu / done.answers, "us"),
    ]


async def running(system: System) -> list[Figure]:
    """A viewer's stream is opened as soon as the job has an id, on a connection that is already there."""
    figures = []
    with connect(system.redis.url) as redis:
        model = new_id("model")
        record = {"id": model, "owner": "local", "weights": "0" * 64, "config": SAMPLED, "created": 1}
        redis.set(key("model", model), json.dumps(record))
        sample = {"kind": "sample", "spec": {"model": model, "prompt": "x", "max_tokens": 1}}
        submits = {BATCH: SUBMIT, QUICK: request("POST", "/v1/jobs", json.dumps(sample).encode())}
        for lane, bar in ((BATCH, 30), (QUICK, 10)):
            system.start_worker(lane)
            while not calls.run(redis, calls.lane_state(lane)).live_workers:
                await asyncio.sleep(0.05)
            times = [await until_running(system, submits[lane]) for _ in range(LANE_RUNS)]
            figures.append(Figure(f"until running, {lane}: median", 1e3 * median(times), "ms", bar))
            figures.append(Figure(f"until running, {lane}: p95", 1e3 * percentile(times, 95), "ms"))
    return figures


async def until_running(system: System, submit: bytes) -> float:
    """Seconds from the request to the event; the next may begin when the job has ended."""
    connection, watch = await Connection.open(system.port), await Watch.open(system.port)
    began = time.perf_counter()
    status, body = await connection.send(submit)
    assert status == 202, body
    watch.follow(json.loads(body)["id"])
    found = await watch.saw(b'"state":"running"')
    await watch.saw(b"event: end")
    connection.close()
    watch.close()
    await asyncio.sleep(0.02)
    return found - began


async def viewers(system: System) -> list[Figure]:
    with connect(system.redis.url) as redis:
        new = calls.NewJob(new_id("job"), "train", "watched", {})
        calls.run(redis, calls.accept(new))
        claim = calls.run(redis, calls.claim("watched", "producer", "n"))
        assert claim is not None
        watches = [await Watch.open(system.port) for _ in range(VIEWERS)]
        for watch in watches:
            watch.follow(new.id)
        await asyncio.gather(*(watch.saw(b'"state":"running"') for watch in watches))
        await asyncio.sleep(1)
        appended: dict[int, float] = {}
        before, began = cpu_seconds(system.api_pid), time.perf_counter()
        for number in range(int(WATCH_S * EVENTS_A_SECOND)):
            await asyncio.sleep(max(0.0, began + number / EVENTS_A_SECOND - time.perf_counter()))
            event = ("metric", {"steps": [number], "values": {"loss": [1 / (number + 1)]}})
            answer = calls.run(redis, calls.append(new.id, claim.token, number, [event]))
            appended[answer.seq] = time.perf_counter()
        took = time.perf_counter() - began
        cpu = cpu_seconds(system.api_pid) - before
        await asyncio.sleep(1)
        delivered = [delay for watch in watches for delay in watch.delays(appended)]
        memory = resident_mib(system.api_pid)
    for watch in watches:
        watch.close()
    whole = len(appended) * VIEWERS
    return [
        Figure(f"{VIEWERS} viewers: events each a second", len(appended) / took, "1/s", 95, at_least=True),
        Figure("delivered", 100 * len(delivered) / whole, "%", 99, at_least=True),
        Figure("from append to socket: median", 1e3 * median(delivered), "ms"),
        Figure("from append to socket: p99", 1e3 * percentile(delivered, 99), "ms", 500),
        Figure("CPU of the API", 100 * cpu / took, "%", 30),
        Figure("memory of the API", memory, "MiB"),
    ]


def listed(number: int) -> calls.Call[calls.Accepted]:
    return calls.accept(calls.NewJob(new_id("job"), "train", BATCH, SPEC, name=f"job {number}"))


async def listing(system: System) -> list[Figure]:
    with connect(system.redis.url) as redis:
        calls.run(redis, listed(0))  # the server knows the script from now on
        for first in range(1, LISTED, 1000):
            pipe = redis.pipeline(transaction=False)
            for number in range(first, min(first + 1000, LISTED)):
                call = listed(number)
                pipe.evalsha(call.script.sha, 0, *call.args)
            pipe.execute()
    connection = await Connection.open(system.port)
    figures = []
    for name, path in (("first page", "/v1/jobs?limit=20"), ("queued only", "/v1/jobs?state=queued")):
        times = []
        for _ in range(PAGES):
            began = time.perf_counter()
            status, body = await connection.send(request("GET", path))
            times.append(time.perf_counter() - began)
            assert status == 200
            assert len(json.loads(body)["data"]) == 20
        figures.append(Figure(f"list of {LISTED:,} jobs, {name}: p95", 1e3 * percentile(times, 95), "ms", 50))
    connection.close()
    return figures


async def memory(system: System, minutes: float) -> list[Figure]:
    """Half of the time is warming up: caches and pools fill."""
    connection = await Connection.open(system.port)
    _, body = await connection.send(SUBMIT)
    connection.close()
    path = f"/v1/jobs/{json.loads(body)['id']}/events"
    grown = []
    for _ in range(2):
        until = time.perf_counter() + 30 * minutes
        while time.perf_counter() < until:
            await load(system, request("GET", path), 200, 1.0)
            await load(system, SUBMIT, 202, 1.0)
        grown.append(resident_mib(system.api_pid))
    return [
        Figure("memory of the API after half of the time", grown[0], "MiB"),
        Figure("more at the end", grown[1] - grown[0], "MiB", 5),
    ]


Part = Callable[[System], Awaitable[list[Figure]]]
PARTS: dict[str, Part] = {
    "accept": accept,
    "read": read,
    "running": running,
    "viewers": viewers,
    "list": listing,
}


def measure(part: Part) -> list[Figure]:
    """The figures of a part, on a system of its own."""
    with tempfile.TemporaryDirectory() as folder, System(Path(folder)) as system:
        figures: list[Figure] = uvloop.run(part(system))  # type: ignore[arg-type]
    for figure in figures:
        print(figure, flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "memory", []], help="default: all")
    parser.add_argument("--minutes", type=float, default=0.2, help="how long the memory is watched")
    parser.add_argument("--write", action="store_true", help="store the figures")
    given = parser.parse_args()
    parts: dict[str, Part] = {**PARTS, "memory": lambda system: memory(system, given.minutes)}
    figures = [figure for name in given.parts or parts for figure in measure(parts[name])]
    if given.write:
        store("service", figures)


if __name__ == "__main__":
    main()
