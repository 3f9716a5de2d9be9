"""Outages of Redis and of the API while jobs run: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import signal
import threading

from cluster import LEASE_S, Cluster, check_log
from test_worker_faults import final_value

from service.client import Client
from service.embedded import EmbeddedServer
from service.wire import Event


def test_a_redis_that_is_killed_and_comes_back_costs_nothing(
    cluster: Cluster, embedded_server: EmbeddedServer
) -> None:
    cluster.start_toy()
    job_id = cluster.toy(steps=100)
    cluster.wait_step(job_id, 20)
    process = embedded_server._process
    assert process is not None
    process.kill()
    process.wait()
    assert embedded_server.revive() == -signal.SIGKILL
    job = cluster.wait_state(job_id, "succeeded")
    assert job.result["value"] == final_value(1, 100)
    check_log(cluster.events(job_id))
    assert cluster.wait_state(cluster.toy(steps=3), "succeeded").attempt == 1


def test_a_redis_that_is_silent_for_longer_than_the_lease_costs_at_most_an_attempt(
    cluster: Cluster, embedded_server: EmbeddedServer
) -> None:
    cluster.start_toy()
    job_id = cluster.toy(steps=400)
    cluster.wait_step(job_id, 20)
    os.kill(embedded_server.pid, signal.SIGSTOP)
    threading.Event().wait(1.5 * LEASE_S)  # this is the outage, not a wait for something
    os.kill(embedded_server.pid, signal.SIGCONT)
    job = cluster.wait_state(job_id, "succeeded")
    assert job.result["value"] == final_value(1, 400)
    assert job.failures <= 1
    check_log(cluster.events(job_id))


def test_a_follower_gets_every_event_once_across_restarts_of_the_api(cluster: Cluster) -> None:
    url = cluster.start_api()
    api = cluster.processes[-1]
    cluster.start_toy()
    job_id = cluster.toy(steps=150)
    seen: list[Event] = []

    def read() -> None:
        with Client(url) as client:
            seen.extend(client.events(job_id))

    reader = threading.Thread(target=read)
    reader.start()
    for step in (20, 60):
        cluster.wait_step(job_id, step)
        api.kill()
        api.wait()
        cluster.processes.remove(api)
        assert cluster.start_api(int(url.rpartition(":")[2])) == url
        api = cluster.processes[-1]
    cluster.wait_state(job_id, "succeeded")
    reader.join(30)
    assert not reader.is_alive()
    assert seen == cluster.events(job_id)
