"""The fault table: whatever fails, in whichever phase of a job, the job ends as if nothing had happened.

Each cell is a system of real processes with leases of two seconds. A job of :mod:`toy_lane` stops at a gate
in the phase, the fault strikes, the gate opens, the fault is healed; then, in every cell,

- the log has ids without gap or repeat, the steps of an attempt increase, and exactly one state is terminal;
- the result has the bits of an undisturbed run, and no more attempts were lost than the fault explains;
- every blob is whole, and what was half-written can be seen by nobody;
- the next job runs as if nothing had been;
- no process is left behind.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cluster import LEASE_S, Cluster, check_log, is_running, steps_by_attempt, wait_for
from relay import Relay
from toy_lane import GATED_STEP, NEEDED_BYTES, final_value

from service.client import Client
from service.embedded import EmbeddedServer
from service.jobs.records import TERMINAL, JobRecord
from service.wire import Event

STEPS = 40
CHECKPOINTED_STEP = 20  # the last before the gate in the middle of a step
AT_ONCE = 4  # cells; they mostly wait
PATIENT = {"GRADMILL_STALL_S": "30", "TOY_SPACE_PAUSE_S": "0.5"}

PHASES = {
    "queued": "a worker has a ticket and is about to claim",
    "claimed": "the handler begins",
    "mid-step": "five steps after the last checkpoint",
    "checkpointing": "half of a blob is written",
    "finishing": "the result is about to be told",
}


@dataclass
class Scene:
    """The system of one cell; ``horse`` is the process that stands at the gate."""

    cluster: Cluster
    server: EmbeddedServer
    relay: Relay
    folder: Path
    job_id: str = ""
    horse: int = 0
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    api: str = ""
    seen: list[Event] = field(default_factory=list)

    @property
    def worker(self) -> subprocess.Popen[bytes]:
        return self.workers[-1]

    def start_worker(self) -> None:
        self.workers.append(self.cluster.start_toy())

    def open_gate(self) -> None:
        (self.folder / "open").touch()


# Faults: entered when the phase is reached, left when it is time to heal -----------------------------------


@contextmanager
def kill_horse(scene: Scene) -> Iterator[None]:
    os.kill(scene.horse, signal.SIGKILL)
    yield


@contextmanager
def kill_worker(scene: Scene) -> Iterator[None]:
    scene.worker.kill()
    scene.worker.wait()
    wait_for("its horse is gone as well", lambda: not is_running(scene.horse), LEASE_S)
    yield


@contextmanager
def kill_api(scene: Scene) -> Iterator[None]:
    api = scene.cluster.processes[0]
    api.kill()
    api.wait()
    scene.cluster.processes.remove(api)
    yield
    assert scene.cluster.start_api(int(scene.api.rpartition(":")[2])) == scene.api


@contextmanager
def kill_redis(scene: Scene) -> Iterator[None]:
    os.kill(scene.server.pid, signal.SIGKILL)
    yield
    assert wait_for("it is dead", scene.server.revive) == -signal.SIGKILL


@contextmanager
def reset_connections(scene: Scene) -> Iterator[None]:
    """What is asked during this is obeyed, and its reply is lost."""
    scene.relay.lose_replies()
    yield
    scene.relay.reset()
    threading.Event().wait(0.5)
    scene.relay.heal()


@contextmanager
def black_hole(scene: Scene) -> Iterator[None]:
    scene.relay.silence()
    yield
    scene.relay.heal()


@contextmanager
def terminate_worker(scene: Scene) -> Iterator[None]:
    scene.worker.terminate()
    yield
    assert scene.worker.wait(10) == 0


@contextmanager
def fill_disk(scene: Scene) -> Iterator[None]:
    """The worker can write nothing, and Redis takes no writes, as when its own disk is full."""
    limits = resource.prlimit(scene.horse, resource.RLIMIT_FSIZE)
    resource.prlimit(scene.horse, resource.RLIMIT_FSIZE, (0, limits[1]))
    scene.cluster.redis.config_set("min-replicas-to-write", 1)
    yield
    scene.cluster.redis.config_set("min-replicas-to-write", 0)
    if is_running(scene.horse):
        resource.prlimit(scene.horse, resource.RLIMIT_FSIZE, limits)


@contextmanager
def exhaust_memory(scene: Scene) -> Iterator[None]:
    """The horse may have a quarter of what it is about to need."""
    pages = int(Path(f"/proc/{scene.horse}/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + NEEDED_BYTES // 4
    resource.prlimit(scene.horse, resource.RLIMIT_AS, (bound, bound))
    yield


@dataclass(frozen=True)
class Fault:
    """What strikes and for how long, and what it may do to the job.

    ``ends``: the outcome of the attempt that it ends for certain; without it, at most one attempt is lost.
    ``spares``: phases in which it ends none. ``fails``: those in which the job rightly ends as failed.
    """

    strike: Callable[[Scene], AbstractContextManager[None]]
    lasts_s: float = 0.0
    ends: str = ""
    spares: frozenset[str] = frozenset()
    through_relay: bool = False
    before_an_api: bool = False
    fails: frozenset[str] = frozenset()


FAULTS = {
    "kill -9 horse": Fault(kill_horse, ends="worker-crashed", spares=frozenset({"queued"})),
    "kill -9 worker": Fault(kill_worker, ends="worker-lost", spares=frozenset({"queued"})),
    "kill -9 API": Fault(kill_api, spares=frozenset(PHASES), before_an_api=True),
    "kill Redis": Fault(kill_redis, lasts_s=0.3),
    "connection reset": Fault(reset_connections, lasts_s=0.3, through_relay=True),
    "black hole": Fault(black_hole, lasts_s=1.2 * LEASE_S, through_relay=True),
    "SIGTERM": Fault(terminate_worker, ends="shutdown", spares=frozenset({"finishing"})),
    "disk full": Fault(fill_disk, lasts_s=0.5),
    "out of memory": Fault(exhaust_memory, fails=frozenset({"claimed", "mid-step", "checkpointing"})),
}

WITHOUT_MEANING: dict[tuple[str, str], str] = {
    ("disk full", "claimed"): "between claim and checkpoint nothing is written to disk that `queued` has not",
}


def cells() -> Iterator[Any]:
    """All cells; quick are every fault in the middle of a step, and every phase of a killed worker."""
    for fault in FAULTS:
        for phase in PHASES:
            reason = WITHOUT_MEANING.get((fault, phase))
            quick = phase == "mid-step" or fault == "kill -9 worker"
            marks = [pytest.mark.skip(reason=reason)] if reason else [] if quick else [pytest.mark.slow]
            yield pytest.param((fault, phase), marks=marks, id=f"{fault}, {phase}")


# One cell --------------------------------------------------------------------------------------------------


def run_cell(fault: Fault, phase: str, folder: Path) -> None:
    with EmbeddedServer(folder / "data") as server, Relay(server.url) as relay:
        with Cluster(server.url, folder / "data") as cluster:
            scene = Scene(cluster, server, relay, folder)
            cluster.environment |= PATIENT | {"TOY_GATE": f"{phase} {folder}"}
            job = play(scene, fault)
            check_end(scene, fault, phase, job)
            check_blobs(scene)
            assert cluster.wait_state(cluster.toy(steps=3), "succeeded").attempt == 1
        assert not is_running(scene.horse)


def play(scene: Scene, fault: Fault) -> JobRecord:
    """The job's life with the fault in it, up to its end."""
    cluster = scene.cluster
    if fault.before_an_api:
        scene.api = cluster.start_api()
    if fault.through_relay:
        cluster.environment["GRADMILL_REDIS_URL"] = scene.relay.url
    scene.job_id = cluster.toy(seed=7, steps=STEPS, max_attempts=5)
    follower = threading.Thread(target=follow, args=[scene])
    if fault.before_an_api:
        follower.start()
    scene.start_worker()
    reached = scene.folder / "reached"
    scene.horse = int(wait_for("the phase is reached", lambda: reached.exists() and reached.read_text()))
    with fault.strike(scene):
        scene.open_gate()
        threading.Event().wait(fault.lasts_s)  # this is the fault, not a wait for something
    job = wait_for("the job ends", lambda: ended(scene))
    if fault.before_an_api:
        follower.join(30)
        assert not follower.is_alive()
    return job


def follow(scene: Scene) -> None:
    with Client(scene.api) as client:
        scene.seen.extend(client.events(scene.job_id))


def ended(scene: Scene) -> JobRecord | None:
    """The job when it has ended. A worker that is gone is replaced, as a supervisor does."""
    if scene.worker.poll() is not None:
        scene.start_worker()
    job = scene.cluster.job(scene.job_id)
    return job if job.state in TERMINAL else None


def check_end(scene: Scene, fault: Fault, phase: str, job: JobRecord) -> None:
    events = scene.cluster.events(job.id)
    check_log(events)
    check_attempts(fault, phase, job, steps_by_attempt(events))
    if phase in fault.fails:
        assert (job.state, job.error["code"]) == ("failed", "out-of-memory")
    else:
        assert (job.state, job.result["value"]) == ("succeeded", final_value(7, STEPS)), job.error
        assert last_steps(events) == list(range(1, STEPS + 1))
    if fault.before_an_api:
        assert scene.seen == events


def check_attempts(fault: Fault, phase: str, job: JobRecord, steps: dict[int, list[int]]) -> None:
    outcomes = [attempt.outcome for attempt in job.attempts]
    if phase in fault.spares:
        assert outcomes == ["succeeded"]
    elif fault.ends:
        assert outcomes == [fault.ends, "succeeded"]
        if phase == "mid-step":
            reached = GATED_STEP if fault.ends == "shutdown" else CHECKPOINTED_STEP
            assert steps[2][0] == reached + 1
    assert job.failures <= (fault.ends != "shutdown")


def last_steps(events: list[dict[str, Any]]) -> list[int]:
    """The steps as a chart shows them: each attempt replaces what it does again."""
    shown: list[int] = []
    for steps in steps_by_attempt(events).values():
        shown = [step for step in shown if step < steps[0]] + steps
    return shown


def check_blobs(scene: Scene) -> None:
    store = scene.cluster.blobs
    for path in store.root.glob("??/*"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name + path.name
    for _ in store.older_than(time.time() + 60):  # a collection, much later
        pass
    assert list(store.partial.iterdir()) == []


# The table -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, str], Future[None]]]:
    """The cells that were chosen, a few at a time."""
    chosen = [
        item.callspec.params["cell"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and not item.get_closest_marker("skip")
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            (fault, phase): pool.submit(run_cell, FAULTS[fault], phase, tmp_path_factory.mktemp("cell"))
            for fault, phase in chosen
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("cell", list(cells()))
def test_a_fault_changes_nothing_about_the_end(
    outcomes: dict[tuple[str, str], Future[None]], cell: tuple[str, str]
) -> None:
    outcomes[cell].result()
