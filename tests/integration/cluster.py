"""A running system made of real processes, for tests: embedded server, workers, and what tests wait for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from redis import Redis
from redis.exceptions import RedisError

from service.blobs import FolderStore
from service.ids import new_id
from service.jobs import calls, tickets
from service.jobs.connection import connect
from service.jobs.events import LoggedEvent, from_entry, stream_key
from service.jobs.lanes import BATCH, LANES
from service.jobs.records import JobRecord, flat, job_record, key

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
TOY_LANE = Path(__file__).parent / "toy_lane.py"
API_PROCESS = Path(__file__).parent / "api_process.py"
SHORT_TIMES = {
    "GRADMILL_LEASE_S": "2",
    "GRADMILL_RENEW_S": "0.5",
    "GRADMILL_FLUSH_S": "0.05",
    "GRADMILL_SWEEP_S": "0.2",
    "GRADMILL_GRACE_S": "2",
    "GRADMILL_STALL_S": "3",
    "GRADMILL_THREADS": "1",
}
LEASE_S = 2.0
DEADLINE_S = 60.0
STOP_WITHIN_S = 20.0


def wait_for(what: str, look: Callable[[], T | None], within_s: float = DEADLINE_S) -> T:
    """The first truthy answer of ``look``; AssertionError with ``what`` when none comes in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.01)
    raise AssertionError(f"not within {within_s:g} s: {what}")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    """The processes that ``pid`` has started, not those that these have started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == pid:
                found.append(int(folder.name))
    return found


class Cluster:
    """Workers on one Redis server and one data folder; the test's process sweeps."""

    def __init__(self, redis_url: str, data_dir: Path) -> None:
        self.environment = {
            **os.environ,
            **SHORT_TIMES,
            "GRADMILL_REDIS_URL": redis_url,
            "GRADMILL_DATA_DIR": str(data_dir),
            "PYTHONPATH": str(ROOT),
        }
        self.redis: Redis = connect(redis_url)
        self.blobs = FolderStore(data_dir / "blobs")
        self.processes: list[subprocess.Popen[bytes]] = []
        self._ended = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, daemon=True)

    def __enter__(self) -> Cluster:
        self._sweeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_processes()
        self._ended.set()
        self._sweeper.join()
        self.redis.close()

    def stop_processes(self) -> None:
        started = [p.pid for p in self.processes] + [pid for p in self.processes for pid in children(p.pid)]
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                late = " ".join(map(str, process.args))
                raise AssertionError(f"{late} did not end within {STOP_WITHIN_S:g} s of SIGTERM") from None
        wait_for("every process is gone", lambda: not any(map(is_running, started)), STOP_WITHIN_S)
        self.processes.clear()

    def _sweep(self) -> None:
        while not self._ended.wait(0.2):
            with suppress(RedisError):  # the next sweep may have more luck
                calls.run(self.redis, calls.sweep())
                for lane in LANES:
                    tickets.wake(self.redis, lane)

    # Processes -------------------------------------------------------------------------------------------

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, *command], env=self.environment, cwd=ROOT)
        self.processes.append(process)
        return process

    def start_toy(self, lane: str = BATCH) -> subprocess.Popen[bytes]:
        return self.start(str(TOY_LANE), lane)

    def start_api(self, port: int = 0) -> str:
        """The API in front of this cluster; its address."""
        command = [sys.executable, str(API_PROCESS), str(port)]
        process = subprocess.Popen(command, env=self.environment, cwd=ROOT, stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None
        return process.stdout.readline().decode().strip()

    def horse(self, worker: subprocess.Popen[bytes]) -> int:
        """The process in which a batch worker runs its present job."""
        return wait_for("the worker has forked", lambda: children(worker.pid))[0]

    # Jobs ------------------------------------------------------------------------------------------------

    def submit(self, kind: str, spec: dict[str, Any], *, lane: str = BATCH, **more: Any) -> str:
        new = calls.NewJob(new_id("job"), kind, lane, spec, **more)
        accepted = calls.run(self.redis, calls.accept(new))
        tickets.push(self.redis, lane, accepted.missing_tickets)
        return accepted.job

    def toy(self, *, lane: str = BATCH, **spec: Any) -> str:
        more = {name: spec.pop(name) for name in ("timeout_s", "max_attempts") if name in spec}
        whole = {"seed": 1, "steps": 40, "pause_s": 0.02, "every": 10, **spec}
        return self.submit("toy", whole, lane=lane, **more)

    def job(self, job_id: str) -> JobRecord:
        return job_record(
            flat([part for pair in self.redis.hgetall(key("job", job_id)).items() for part in pair])
        )

    def events(self, job_id: str) -> list[dict[str, Any]]:
        entries: list[LoggedEvent] = [from_entry(*entry) for entry in self.redis.xrange(stream_key(job_id))]
        return [entry.to_dict() for entry in entries]

    def wait_state(self, job_id: str, *states: str, within_s: float = DEADLINE_S) -> JobRecord:
        def look() -> JobRecord | None:
            job = self.job(job_id)
            return job if job.state in states else None

        return wait_for(f"{job_id} is {' or '.join(states)}", look, within_s)

    def wait_step(self, job_id: str, step: int) -> None:
        """Until the job has said that it reached a step."""
        wait_for(f"{job_id} is at step {step}", lambda: last_step(self.events(job_id)) >= step)


def steps_by_attempt(events: list[dict[str, Any]]) -> dict[int, list[int]]:
    """The steps of the metric events, in order, for each attempt."""
    steps: dict[int, list[int]] = {}
    for event in events:
        if event["type"] == "metric":
            steps.setdefault(event["attempt"], []).extend(event["data"]["steps"])
    return steps


def last_step(events: list[dict[str, Any]]) -> int:
    return max((step for steps in steps_by_attempt(events).values() for step in steps), default=-1)


def check_log(events: list[dict[str, Any]]) -> None:
    """What holds for every log: ids without a gap, steps increasing in an attempt, one terminal state."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    for steps in steps_by_attempt(events).values():
        assert steps == sorted(set(steps))
    states = [event["data"]["state"] for event in events if event["type"] == "state"]
    assert sum(state in ("succeeded", "failed", "cancelled") for state in states) == 1
    assert events[-1]["type"] == "state"
