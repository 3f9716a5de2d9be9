"""What workers do when told to, and when a job's code fails; with jobs that need no engine.

What fails around a job, in every phase, is in test_faults.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from cluster import ROOT, Cluster, check_log, is_running, last_step, steps_by_attempt, wait_for
from toy_lane import final_value

from service.jobs import calls, tickets
from service.jobs.lanes import BATCH, QUICK


def test_a_job_runs_to_its_end_in_a_process_of_its_own(cluster: Cluster) -> None:
    worker = cluster.start_toy()
    job = cluster.wait_state(cluster.toy(), "succeeded")
    assert job.result["value"] == final_value(1, 40)
    assert job.result["pid"] != worker.pid
    assert job.progress["step"] == job.progress["steps"] == 40
    events = cluster.events(job.id)
    check_log(events)
    assert steps_by_attempt(events) == {1: list(range(1, 41))}


def test_a_quick_job_runs_in_the_workers_own_process(cluster: Cluster) -> None:
    worker = cluster.start_toy(QUICK)
    for _ in range(2):
        job = cluster.wait_state(cluster.toy(lane=QUICK, steps=3), "succeeded")
        assert job.result["pid"] == worker.pid


def test_sigterm_of_a_warm_worker_stores_a_checkpoint_and_gives_the_job_back(cluster: Cluster) -> None:
    worker = cluster.start_toy(QUICK)
    job_id = cluster.toy(lane=QUICK, steps=60, every=1000)
    cluster.wait_step(job_id, 25)
    worker.terminate()
    assert worker.wait(10) == 0
    cluster.wait_state(job_id, "queued", within_s=1)
    reached = last_step(cluster.events(job_id))
    cluster.start_toy(QUICK)
    job = cluster.wait_state(job_id, "succeeded")
    assert job.result["value"] == final_value(1, 60)
    assert job.failures == 0
    events = cluster.events(job_id)
    check_log(events)
    assert steps_by_attempt(events)[2][0] == reached + 1


def test_sigterm_of_an_idle_worker_ends_it(cluster: Cluster) -> None:
    for lane in (BATCH, QUICK):
        worker = cluster.start_toy(lane)
        wait_for(
            "it is live", lambda lane=lane: calls.run(cluster.redis, calls.lane_state(lane)).live_workers
        )
        worker.terminate()
        assert worker.wait(10) == 0
        assert not calls.run(cluster.redis, calls.lane_state(lane)).live_workers


def test_cancelling_a_running_job_keeps_its_last_checkpoint(cluster: Cluster) -> None:
    cluster.start_toy()
    job_id = cluster.toy(steps=10_000, every=1000)
    cluster.wait_step(job_id, 5)
    changed = calls.run(cluster.redis, calls.cancel(job_id))
    assert changed is not None
    assert changed.state == "cancelling"
    cluster.wait_state(job_id, "cancelled", within_s=5)
    check_log(cluster.events(job_id))
    assert any(event["type"] == "checkpoint" for event in cluster.events(job_id))


@pytest.mark.parametrize("fault", [{}, {"fault": "hang", "fault_at": 3}], ids=["listens", "hangs"])
def test_a_cancelled_job_uses_no_cpu_any_more(cluster: Cluster, fault: dict[str, Any]) -> None:
    """Its process is gone, also one that does not listen; its worker takes the next job."""
    worker = cluster.start_toy()
    job_id = cluster.toy(steps=10_000, **fault)
    cluster.wait_step(job_id, 3)
    horse = cluster.horse(worker)
    calls.run(cluster.redis, calls.cancel(job_id))
    cluster.wait_state(job_id, "cancelled", within_s=30)
    assert cluster.job(job_id).attempts[0].outcome == "cancelled"  # not given up for another reason first
    wait_for("its process is gone", lambda: not is_running(horse))
    check_log(cluster.events(job_id))
    cluster.wait_state(cluster.toy(steps=3), "succeeded")


def test_cancelling_a_queued_job_means_that_it_never_starts(cluster: Cluster) -> None:
    first, second = cluster.toy(steps=5), cluster.toy(steps=5)
    calls.run(cluster.redis, calls.cancel(first))
    cluster.start_toy()
    cluster.wait_state(second, "succeeded")
    job = cluster.job(first)
    assert job.state == "cancelled"
    assert job.attempts == ()
    check_log(cluster.events(first))


def test_a_paused_job_waits_with_its_work_and_goes_on_when_asked(cluster: Cluster) -> None:
    cluster.start_toy()
    job_id = cluster.toy(steps=80, every=1000)
    cluster.wait_step(job_id, 5)
    calls.run(cluster.redis, calls.pause(job_id))
    cluster.wait_state(job_id, "paused", within_s=10)
    reached = last_step(cluster.events(job_id))
    resumed = calls.run(cluster.redis, calls.resume(job_id))
    assert resumed is not None
    tickets.push(cluster.redis, resumed.lane, resumed.missing_tickets)
    job = cluster.wait_state(job_id, "succeeded")
    assert job.result["value"] == final_value(1, 80)
    assert job.failures == 0
    events = cluster.events(job_id)
    check_log(events)
    assert steps_by_attempt(events)[2][0] == reached + 1


@pytest.mark.parametrize(
    ("fault", "code"), [("not_a_number", "non-finite-loss"), ("no_memory", "out-of-memory")]
)
def test_what_would_fail_again_fails_at_once(cluster: Cluster, fault: str, code: str) -> None:
    cluster.start_toy()
    job = cluster.wait_state(cluster.toy(fault=fault, fault_at=3), "failed")
    assert job.error["code"] == code
    assert len(job.attempts) == 1
    check_log(cluster.events(job.id))


def test_a_bug_is_tried_again_and_then_named(cluster: Cluster) -> None:
    cluster.start_toy()
    job = cluster.wait_state(cluster.toy(fault="bug", fault_at=3, max_attempts=2), "failed")
    assert job.error == {"code": "internal-error", "message": "RuntimeError: a bug"}
    assert len(job.attempts) == 2
    check_log(cluster.events(job.id))


@pytest.mark.parametrize("fault", ["hang", "swallow"])
def test_a_job_past_its_time_fails_even_if_it_does_not_listen(cluster: Cluster, fault: str) -> None:
    cluster.start_toy()
    job = cluster.wait_state(
        cluster.toy(fault=fault, fault_at=3, timeout_s=1, every=1000), "failed", within_s=30
    )
    assert job.error["code"] in ("timeout", "stalled")
    check_log(cluster.events(job.id))


def test_a_hung_job_loses_its_lease(cluster: Cluster) -> None:
    cluster.start_toy()
    job = cluster.wait_state(cluster.toy(fault="hang", fault_at=3, max_attempts=1), "failed", within_s=30)
    assert job.error["code"] == "stalled"
    check_log(cluster.events(job.id))


def test_a_server_that_takes_no_writes_for_a_while_costs_nothing(cluster: Cluster) -> None:
    """As when its disk is full: what the job has to say waits."""
    cluster.start_toy(QUICK)
    job_id = cluster.toy(lane=QUICK, steps=60, pause_s=0.05, every=1000)  # longer than the lease
    cluster.wait_step(job_id, 5)
    cluster.redis.config_set("min-replicas-to-write", 1)
    threading.Event().wait(0.5)  # this is the outage, not a wait for something
    cluster.redis.config_set("min-replicas-to-write", 0)
    job = cluster.wait_state(job_id, "succeeded")
    assert [attempt.outcome for attempt in job.attempts] == ["succeeded"]
    events = cluster.events(job_id)
    check_log(events)
    assert steps_by_attempt(events) == {1: list(range(1, 61))}


def test_an_entry_that_is_not_a_ticket_is_refused(cluster: Cluster, tmp_path: object) -> None:
    cluster.start_toy()
    queue = tickets.queue(cluster.redis, BATCH)
    forged = queue.enqueue("os.system", args=["touch forged"], on_failure=None)
    job = cluster.wait_state(cluster.toy(steps=3), "succeeded")
    assert job.state == "succeeded"
    wait_for("the forged entry has failed", lambda: forged.get_status().value == "failed")
    assert not (ROOT / "forged").exists()


def test_the_supervisor_replaces_a_dead_worker(cluster: Cluster) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from workers.supervisor import Supervisor\n"
        "Supervisor(['cpu-batch'], (sys.executable, sys.argv[2])).run()\n"
    )
    toy = str(ROOT / "tests/integration/toy_lane.py")
    supervisor = cluster.start("-c", code, str(ROOT), toy)
    worker = cluster.horse(supervisor)
    job_id = cluster.toy(steps=60)
    cluster.wait_step(job_id, 15)
    os.kill(worker, signal.SIGKILL)
    job = cluster.wait_state(job_id, "succeeded")
    assert job.result["value"] == final_value(1, 60)
    assert cluster.horse(supervisor) != worker
    check_log(cluster.events(job_id))


def test_the_supervisor_refuses_an_unknown_lane() -> None:
    asked = [sys.executable, "-m", "workers.supervisor", "gpu-batch"]
    answer = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, check=False)
    assert answer.returncode == 2
    assert "unknown lane 'gpu-batch'" in answer.stderr


def test_a_full_disk_does_not_use_up_the_attempts(cluster: Cluster) -> None:
    """The job is kept for a while; a cancellation is obeyed meanwhile, and a shutdown costs no attempt."""
    worker = cluster.start_toy()
    job_id = cluster.toy(steps=60, fault="full_disk", fault_at=3)

    def waits() -> bool:
        said = [event["data"].get("message", "") for event in cluster.events(job_id)]
        return any("for space" in message for message in said)

    wait_for("the job waits for space", waits)
    assert cluster.job(job_id).state == "running"
    worker.terminate()
    assert worker.wait(15) == 0
    job = cluster.job(job_id)
    assert (job.state, job.failures) == ("queued", 0)
    cluster.start_toy()
    cluster.wait_state(job_id, "running")
    wait_for("it waits again", lambda: len(cluster.job(job_id).attempts) == 2 and waits())
    calls.run(cluster.redis, calls.cancel(job_id))
    cluster.wait_state(job_id, "cancelled")
