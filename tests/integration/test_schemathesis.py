"""Requests that the OpenAPI document allows, and some that it doesn't: every answer is one that it names.

Without a store of things first, then with one of each; schemathesis makes the requests. Endless streams
are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_rig import Api

from service.ids import new_id
from service.jobs import calls
from service.jobs.lanes import QUICK

KEY = f"key_admin_{'a' * 40}"
ENDLESS = "/v1/events"
OPEN = ("/healthz", "/readyz", "/version")
CHECKS = (  # not those which ask that the schema says every rule: some can't be said in one
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
    "ignored_auth",
)
FEWEST_CASES = 1_500
LONGEST_S = 240


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Api]:
    """An API with a key, and a worker that answers whatever its quick lane is asked."""
    keys = tmp_path / "keys"
    keys.write_text(f"{KEY} admin,worker\n")
    with Api(tmp_path / "data", api_key_file=keys) as api:
        api.http.headers["Authorization"] = f"Bearer {KEY}"
        ended = threading.Event()
        answering = threading.Thread(target=answer, args=[api, ended])
        answering.start()
        yield api
        ended.set()
        answering.join()


def answer(api: Api, ended: threading.Event) -> None:
    worker = api.worker(QUICK).live()
    choice = {"index": 0, "text": "x", "logprobs": [-1.0], "finish_reason": "length"}
    while not ended.wait(0.03):
        calls.run(api.redis, calls.heartbeat(worker.name, QUICK, {"pid": 1}))
        claim = calls.run(api.redis, calls.claim(QUICK, worker.name, new_id("nonce")))
        if claim is not None:
            worker.job, worker.token, worker.said = claim.job.id, claim.token, 0
            worker.finish(result={"choices": [choice], "seed": 0})


def with_one_of_each(api: Api) -> dict[str, str]:
    """What there is in the store, as values of the document's parameters."""
    job = api.submit()["id"]
    worker = api.worker()
    worker.claim()
    worker.loss((1, 1.0))
    worker.say(("log", {"level": "info", "message": "x"}))
    blob = api.blobs.put(b"w" * 100)
    parts = {"weights": blob, "optimizer": blob, "state": blob}
    manifest = {"step": 1, **parts, "bytes": {"weights": 100}}
    calls.run(api.redis, calls.checkpoint(worker.job, worker.token, manifest))
    config = {"name": "bigram", "vocab_size": 65, "seq_len": 8}
    record = {"id": new_id("model"), "alias": "bard", "job": job, "step": 1, "created": 1, "owner": "admin"}
    artifact = {"name": "a.txt", "type": "text/plain", "bytes": 100, "blob": blob}
    model = calls.Model(record["id"], {**record, "config": config, "weights": blob}, "bard")  # type: ignore[arg-type]
    worker.finish(model=model, result={"artifacts": [artifact]})
    upload = api.http.post("/v1/files", files={"file": ("a.txt", b"to be or not to be " * 10)})
    return {"job_id": job, "file_id": upload.json()["id"], "alias": "bard", "artifact_id": blob}


def run_schemathesis(api: Api, folder: Path, *options: str) -> dict[str, Any]:
    """The report of a run."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(folder / "settings.toml")]
    command += ["run", f"{api.url}/openapi.json", "--header", f"Authorization: Bearer {KEY}", "--seed", "1"]
    command += ["--checks", ",".join(CHECKS), "--exclude-path", ENDLESS, "--request-timeout", "10"]
    command += ["--continue-on-failure", "--no-shrink", "--max-examples", "10", "--report", "json"]
    command += ["--report-json-path", str(report), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert report.exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(report.read_text())
    assert found["failures"] == [], done.stdout
    assert found["errors"] == [], done.stdout
    return found


@pytest.mark.slow
@pytest.mark.parametrize("filled", [False, True])
def test_every_answer_is_one_that_the_document_names(guarded: Api, tmp_path: Path, filled: bool) -> None:
    there = with_one_of_each(guarded) if filled else {}
    lines = [f'"path.{name}" = "{value}"' for name, value in there.items()]
    (tmp_path / "settings.toml").write_text("\n".join(["[parameters]", *lines]))
    phases = "coverage,fuzzing" if filled else "coverage,fuzzing,stateful"
    kept = ("--exclude-method", "DELETE") if filled else ()
    report = run_schemathesis(guarded, tmp_path, "--phases", phases, *kept)
    assert report["operations"]["tested"] == report["operations"]["selected"] >= 35
    assert report["test_cases"]["generated"] >= FEWEST_CASES


def test_without_a_key_no_operation_is_served(guarded: Api) -> None:
    document = guarded.http.get("/openapi.json").json()
    asked = 0
    with guarded.client() as stranger:
        for path, operations in document["paths"].items():
            for method in operations:
                answer = stranger.request(method, path.replace("{", "").replace("}", ""))
                assert (answer.status_code == 401) == (path not in OPEN), (method, path)
                asked += 1
    assert asked >= 40
