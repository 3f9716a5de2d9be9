"""A copy made as docs/operations.md says is a whole system: nothing is missing, and its jobs go on."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from cluster import Cluster, check_log, is_running, wait_for

from service.blobs import FolderStore
from service.embedded import EmbeddedServer

BLOB = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def named_blobs(cluster: Cluster) -> set[str]:
    """Every blob that a record names."""
    values = [
        value
        for name in cluster.redis.scan_iter("gradmill:job:*", _type="HASH")
        for value in cluster.redis.hvals(name)
    ]
    return {name.decode() for value in values for name in BLOB.findall(value)}


@pytest.mark.slow
def test_a_copy_holds_everything_and_its_jobs_go_on(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with EmbeddedServer(data) as server, Cluster(server.url, data) as cluster:
        cluster.start_toy()
        ended = cluster.toy()
        cluster.wait_state(ended, "succeeded")
        running = cluster.toy(steps=200)
        cluster.wait_step(running, 30)
        pid = server.pid
        os.kill(pid, signal.SIGTERM)  # Redis stands still; workers and API wait for it
        wait_for("Redis is down", lambda: not is_running(pid))
        shutil.copytree(data / "redis", copy / "redis")
        assert server.revive() is not None
        cluster.wait_step(running, 40)
        shutil.copytree(data / "blobs", copy / "blobs")  # after Redis: blobs are never changed
        here = cluster.wait_state(running, "succeeded")
        before = cluster.job(ended)
    with EmbeddedServer(copy) as server, Cluster(server.url, copy) as cluster:
        assert cluster.job(ended) == before
        store = FolderStore(copy / "blobs")
        names = named_blobs(cluster)
        assert names
        for name in names:
            store.get(name)
        assert not cluster.job(running).is_terminal
        cluster.start_toy()
        there = cluster.wait_state(running, "succeeded")
        assert there.result["value"] == here.result["value"]
        check_log(cluster.events(running))
