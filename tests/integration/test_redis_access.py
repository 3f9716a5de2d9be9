"""Redis and who may write to it: a user with few rights is enough, and whoever writes to it runs no code."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import redis
from cluster import ROOT, STOP_WITHIN_S, Cluster
from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError
from rq import Queue
from rq.command import PUBSUB_CHANNEL_TEMPLATE
from rq.serializers import JSONSerializer
from rq.suspension import WORKERS_SUSPENDED

from service.embedded import EmbeddedServer
from service.jobs import tickets
from service.jobs.lanes import BATCH, LANES
from service.jobs.records import key, text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a server with the users of the compose file, for the one that Gradmill uses."""
    secrets = tmp_path_factory.mktemp("users") / "secrets"
    subprocess.run([sys.executable, ROOT / "deploy" / "compose_secrets.py", secrets], check=True)
    with Redis.from_url(server.url) as owner:
        for line in reversed((secrets / "redis.acl").read_text().splitlines()):
            owner.execute_command("ACL", "SETUSER", *line.split()[1:])
    user = urlsplit((secrets / "redis_url").read_text().strip())
    return f"unix://{user.username}@{urlsplit(server.url).path}?password={user.password}"


DENIED: list[tuple[str | int, ...]] = [
    ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "dir", "/tmp"),
    ("FLUSHALL",),
    ("KEYS", "*"),
    ("DEBUG", "SLEEP", 0),
    ("SHUTDOWN", "NOSAVE"),
    ("ACL", "LIST"),
    ("MONITOR",),
    ("REPLICAOF", "127.0.0.1", 1),
    ("GET", "foreign"),
    ("SET", "foreign", 1),
    ("PUBLISH", "foreign", "x"),
    ("PUBLISH", "gradmill:rq:pubsub:w", "x"),
    ("SUBSCRIBE", "gradmill:rq:pubsub:w"),
    ("EVAL", "return redis.call('SET', 'foreign', 1)", 0),
]


@pytest.mark.parametrize("command", DENIED, ids=lambda command: " ".join(map(str, command[:2])))
def test_gradmills_user_may_do_nothing_else(guarded: str, command: tuple[str | int, ...]) -> None:
    with (
        Redis.from_url(guarded) as user,
        pytest.raises((NoPermissionError, ResponseError), match=r"(?i)perm|acl|not allowed"),
    ):
        user.execute_command(*command)


def test_without_a_user_one_may_ping_and_no_more(guarded: str, server: EmbeddedServer) -> None:
    with Redis.from_url(server.url) as nobody:
        assert nobody.execute_command("PING")
        for command in (
            ("GET", "gradmill:schema"),
            ("INFO",),
            ("LRANGE", "gradmill:rq:queue:cpu-batch", 0, -1),
        ):
            with pytest.raises(NoPermissionError):
                nobody.execute_command(*command)


def test_the_whole_system_works_with_that_user(guarded: str, tmp_path: Path) -> None:
    with Cluster(guarded, tmp_path / "data") as cluster:
        url = cluster.start_api()
        cluster.start_toy()
        job = cluster.toy()
        cluster.wait_state(job, "succeeded")
        with httpx.Client(base_url=url, trust_env=False) as http:
            for path in (
                f"/v1/jobs/{job}/events",
                "/v1/jobs",
                "/v1/queues",
                "/v1/workers",
                "/readyz",
                "/metrics",
            ):
                assert http.get(path).status_code == 200, path
            made = http.post("/v1/files", files={"file": ("a", b"text")}).json()["id"]
            assert http.delete(f"/v1/files/{made}").status_code == 200


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Path]:
    """A file that exists if somebody's code was run."""
    yield tmp_path / "witness"
    assert not (tmp_path / "witness").exists()


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, (self.command,)


def test_whoever_writes_to_redis_runs_no_code(cluster: Cluster, witness: Path) -> None:
    worker = cluster.start_toy()
    cluster.wait_state(cluster.toy(), "succeeded")
    queue = Queue(BATCH, connection=cluster.redis, serializer=JSONSerializer)
    touch = f"touch {witness}"
    queue.enqueue("os.system", touch)
    queue.enqueue("subprocess.getoutput", touch)
    queue.enqueue("builtins.eval", f"open({str(witness)!r}, 'w')")
    queue.enqueue(tickets.ENTRY, BATCH, touch)
    queue.enqueue(tickets.ENTRY, "cpu-quick")
    for data in (
        pickle.dumps(Bomb(touch)),
        zlib.compress(pickle.dumps(Bomb(touch))),
        b"\x80\x05garbage",
        b"",
    ):
        forged = queue.enqueue(tickets.ENTRY, BATCH)
        cluster.redis.hset(f"gradmill:rq:job:{forged.id}", "data", data)
    hooked = queue.enqueue(tickets.ENTRY, BATCH)
    callbacks = dict.fromkeys(
        ("success_callback_name", "failure_callback_name", "stopped_callback_name"), "os.abort"
    )
    cluster.redis.hset(f"gradmill:rq:job:{hooked.id}", mapping={**callbacks, "retries_left": 3})
    job = cluster.toy()
    cluster.wait_state(job, "succeeded")
    assert worker.poll() is None


@pytest.mark.parametrize("lane", LANES)
def test_workers_take_no_commands_over_redis(cluster: Cluster, lane: str) -> None:
    """RQ's would end a job or a worker; nobody listens, and a signal still stops the worker."""
    worker = cluster.start_toy(lane)
    job = cluster.toy(lane=lane, steps=60)
    cluster.wait_step(job, 5)
    (name,) = map(text, cluster.redis.hkeys(key("workers")))
    (ticket,) = map(text, cluster.redis.zrange(f"gradmill:rq:wip:{lane}", 0, -1))
    execution = {"job_id": ticket.partition(":")[0], "execution_id": ticket.partition(":")[2]}
    for command in ("kill-horse", "stop-job", "stop-execution", "shutdown"):
        message = json.dumps({"command": command, **execution})
        assert cluster.redis.publish(PUBSUB_CHANNEL_TEMPLATE % name, message) == 0
    assert cluster.redis.client_list(_type="pubsub") == []
    cluster.redis.set(WORKERS_SUSPENDED, 1)
    assert cluster.wait_state(job, "succeeded").attempt == 1
    cluster.wait_state(cluster.toy(lane=lane), "succeeded")
    worker.terminate()
    assert worker.wait(STOP_WITHIN_S) == 0


def test_a_job_of_an_unknown_kind_names_no_module(cluster: Cluster, witness: Path) -> None:
    """The kind chooses from a table; nothing in a record is imported."""
    cluster.start("-m", "workers.lane", BATCH)
    for kind in ("os", "workers.handlers.train", "../train", "subprocess.run", ""):
        job = cluster.submit(kind, {"command": f"touch {witness}"}, max_attempts=1)
        failed = cluster.wait_state(job, "failed")
        assert failed.error["code"] == "internal-error"


def test_a_lost_password_is_no_way_in(guarded: str) -> None:
    wrong = guarded.rpartition("=")[0] + "=" + "0" * 64
    with Redis.from_url(wrong) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
