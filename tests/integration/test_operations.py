"""What operators see: metrics, logs with ids and without secrets, and a quick end."""

from __future__ import annotations

import json
import logging
import re
import secrets
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest
from api_rig import Api
from cluster import Cluster, wait_for
from prometheus_client.parser import text_string_to_metric_families

from service.client import Client
from service.jobs.records import key
from service.logs import JsonFormatter, about, redact

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def metrics(api: Api) -> Samples:
    answer = api.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, tuple(sorted(labels.items()))), 0.0)


def test_requests_are_counted_by_route_and_status_and_timed(api: Api) -> None:
    jobs = {"method": "GET", "route": "/v1/jobs/{job_id}"}
    before = metrics(api)
    for _ in range(3):
        api.http.get(f"/v1/jobs/{secrets.token_hex(8)}")
    api.http.get("/v1/jobs", headers={"Host": "evil"})
    after = metrics(api)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("gradmill_http_requests_total", **jobs, status="404") == 3
    assert grown("gradmill_http_requests_total", method="GET", route="none", status="421") == 1
    assert grown("gradmill_http_request_seconds_count", route=jobs["route"]) == 3
    assert value(after, "gradmill_http_requests_open") == 1  # this one


def test_queues_jobs_losses_and_blobs_are_told(tmp_path: Path) -> None:
    with Api(tmp_path) as api:
        see_all(api)


def see_all(api: Api) -> None:
    for _ in range(2):
        api.submit()
    before = metrics(api)
    worker = api.worker().live()
    job = worker.claim().job.id
    api.redis.hset(key("job", api.submit()["id"]), "created_at", 1)  # not the head: its age is not told
    during = metrics(api)
    assert value(during, "gradmill_queued_jobs", lane="cpu-batch") == 2
    assert 0 <= value(during, "gradmill_queue_age_seconds", lane="cpu-batch") < 60
    assert value(during, "gradmill_live_workers", lane="cpu-batch") == 1
    assert value(during, "gradmill_running_jobs") == 1
    assert value(during, "gradmill_jobs_accepted_total") - value(before, "gradmill_jobs_accepted_total") == 1
    assert value(during, "gradmill_blobs") > 0
    assert value(during, "gradmill_blob_bytes") > 0
    api.redis.zadd(key("leases"), {job: 1})
    lost = {"code": "worker-lost"}
    wait_for(
        "the lost lease is counted",
        lambda: (
            value(metrics(api), "gradmill_attempts_lost_total", **lost)
            > value(before, "gradmill_attempts_lost_total", **lost)
        ),
    )
    worker.claim()
    worker.finish("failed", code="invalid-dataset", message="Why.")
    ended = value(metrics(api), "gradmill_jobs_ended_total", kind="train", state="failed")
    assert ended - value(before, "gradmill_jobs_ended_total", kind="train", state="failed") == 1


def logged(message: str, *args: object) -> dict[str, object]:
    record = logging.LogRecord("gradmill", logging.INFO, __file__, 1, message, args, None)
    line: dict[str, object] = json.loads(JsonFormatter().format(record))
    return line


def test_a_log_line_says_which_request_or_job_it_is_about() -> None:
    assert "job" not in logged("plain")
    with about(request_id="r1"), about(job="job_1"):
        line = logged("with ids")
    assert (line["request_id"], line["job"]) == ("r1", "job_1")
    assert "job" not in logged("plain again")


@pytest.mark.parametrize(
    "said",
    [
        f"key_ann_{'s3cret' * 8}",
        f"Authorization: Bearer key_06avh5s1c8e73p2r4n9k0xw5tz_{'s3cret' * 8}",
        "redis://gradmill:s3cret@redis:6379/0",
        "rediss://:s3cret@10.0.0.1",
    ],
)
def test_a_log_line_holds_no_secret(said: str) -> None:
    line = json.dumps(logged("refused %s", said))
    assert "s3cret" not in line
    assert "s3cret" not in redact(said)
    assert "…" in redact(said)


def test_the_processes_log_requests_and_jobs_as_json(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.environment["GRADMILL_LOG_LEVEL"] = "INFO"
    cluster.environment["GRADMILL_PORT"] = str(free_port())
    cluster.start("-m", "service.cli", "serve")
    cluster.start("-m", "workers.lane", "cpu-batch")
    headers = {"X-Request-ID": "mine", "Authorization": f"Bearer key_ann_{'s3cret' * 8}"}
    with Client(f"http://127.0.0.1:{cluster.environment['GRADMILL_PORT']}") as client:
        client.list()
    httpx.get(f"{client.url}/v1/jobs", headers=headers, trust_env=False)
    job = cluster.toy(max_attempts=1)  # of a kind that a worker of ours doesn't know
    cluster.wait_state(job, "failed")
    cluster.stop_processes()
    text = capfd.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line for line in lines if line.get("request_id") == "mine" and "/v1/jobs: 200" in line["message"]]
    assert [line for line in lines if line.get("job") == job]
    assert "s3cret" not in text


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def test_no_line_can_be_forged_with_control_characters() -> None:
    record = logging.LogRecord("x", logging.INFO, __file__, 1, 'a\n{"level": "forged"}\x1b[2J', (), None)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert not re.search(r"[\x00-\x1f]", line)


def test_the_api_ends_within_three_seconds_with_streams_open(cluster: Cluster) -> None:
    url = cluster.start_api()
    api = cluster.processes[-1]
    job = cluster.toy()
    ended: list[bool] = []

    def follow(path: str) -> None:
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
            with http.stream("GET", path, headers={"Accept": "text/event-stream"}) as answer:
                for _ in answer.iter_bytes():
                    opened.release()
            ended.append(True)

    opened = threading.Semaphore(0)
    paths = [f"/v1/jobs/{job}/events"] * 5
    threads = [threading.Thread(target=follow, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert opened.acquire(timeout=30)
    started = time.monotonic()
    api.send_signal(signal.SIGTERM)
    api.wait(30)
    took = time.monotonic() - started
    for thread in threads:
        thread.join(30)
    assert ended == [True] * len(paths)  # each had a clean end
    assert took < 3
