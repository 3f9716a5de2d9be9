"""Compile jobs end to end: through the API, on a real worker, and from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from cluster import ROOT, Cluster, check_log, wait_for
from hostile_programs import BOUNDED, GRAPH, HOSTILE, body_of, looped

from engine.graph_json import read_graph
from service.client import Client
from service.jobs.lanes import BATCH

CHAIN = {
    "expression": "relu(a + b) * c",
    "inputs": {name: {"shape": [64, 100]} for name in "abc"},
    "repeats": 2,
    "peers": False,
}
STAGES = ["graph", "fusion", "code", "build", "verify", "timing", "profile"]


@pytest.fixture(scope="module")
def system(start_system: Callable[..., Cluster]) -> Cluster:
    return start_system(BATCH)


def finished(
    system: Cluster, client: Client, spec: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result of a job, and what it reported."""
    job = client.submit("compile", spec)
    record = system.wait_state(job["id"], "succeeded", "failed")
    assert record.state == "succeeded", record.error
    events = system.events(job["id"])
    check_log(events)
    assert isinstance(record.result, dict)
    return record.result, [event["data"] for event in events if event["type"] == "report"]


def test_a_compile_job_says_each_stage_and_leaves_its_artifacts(system: Cluster, client: Client) -> None:
    result, said = finished(system, client, CHAIN)
    assert list(dict.fromkeys(report["stage"] for report in said)) == STAGES
    by_stage = {report["stage"]: report for report in said}
    assert by_stage["graph"]["text"].endswith("targets v8")
    (kernel,) = by_stage["fusion"]["kernels"]
    assert len(kernel["nodes"]) == 4 and kernel["level"] == 1 and by_stage["fusion"]["refusals"] == []
    assert "kernel_0" in by_stage["code"]["text"]
    assert by_stage["build"]["moved"] == 4 * 64 * 100 * 4
    assert by_stage["verify"]["verified"] is True
    variants = [report["variant"] for report in said if report["stage"] == "timing"]
    assert variants == ["without fusion", "fused"]
    assert result["verified"] and result["programs"][0]["kernels"] == 1
    contents = {each["name"]: system.blobs.get(each["blob"]) for each in result["artifacts"]}
    assert set(contents) == {"graph.txt", "graph.json", "plan.txt", "source.c", "trace.json"}
    assert contents["source.c"].decode() == by_stage["code"]["text"]
    assert json.loads(contents["trace.json"])["traceEvents"]
    assert all(len(contents[each["name"]]) == each["bytes"] for each in result["artifacts"])


def test_the_graph_that_is_left_is_a_program_of_its_own(system: Cluster, client: Client) -> None:
    spec = {"expression": "mean((tanh(x @ w) - y) ** 2)", "gradients": True, "repeats": 1, "peers": False}
    spec["inputs"] = {"x": {"shape": [8, 4]}, "w": {"shape": [4, 3]}, "y": {"shape": [8, 3]}}
    result, _ = finished(system, client, spec)
    blob = next(each["blob"] for each in result["artifacts"] if each["name"] == "graph.json")
    document = json.loads(system.blobs.get(blob))
    assert len(read_graph(document).targets) == 4
    again, said = finished(system, client, {"graph": document, "repeats": 1})
    assert again["programs"][0]["nodes"] == result["programs"][0]["nodes"]
    assert again["programs"][0]["kernels"] == result["programs"][0]["kernels"]
    assert said[0]["targets"] == document["targets"]


def test_a_graph_with_loops_is_a_program_too(system: Cluster, client: Client) -> None:
    spec = {"graph": looped(20, depth=2, width=3), "gradients": True, "repeats": 1}
    result, said = finished(system, client, spec)
    by_stage = {report["stage"]: report for report in said}
    assert by_stage["verify"]["verified"] is True
    assert by_stage["build"]["moved"] > 0
    blob = next(each["blob"] for each in result["artifacts"] if each["name"] == "graph.json")
    document = json.loads(system.blobs.get(blob))
    again, _ = finished(system, client, {"graph": document, "repeats": 1})
    assert again["programs"][0]["nodes"] == result["programs"][0]["nodes"]


def test_an_index_out_of_range_fails_the_job_with_its_code(system: Cluster, client: Client) -> None:
    graph = {
        "inputs": {"x": {"shape": [1, 2], "dtype": "float32"}, "i": {"shape": [64], "dtype": "int64"}},
        "nodes": [{"name": "y", "op": "gather", "inputs": ["x", "i"], "attrs": {"mode": "checked"}}],
        "targets": ["y"],
    }
    job = client.submit("compile", {"graph": graph, "repeats": 1})
    record = system.wait_state(job["id"], "failed")
    assert record.error is not None and record.error["code"] == "unusable-program"


@pytest.mark.parametrize(("expression", "exact"), [("cumsum(a * b, axis=1) / c", True), ("tanh(a)", False)])
def test_the_reference_device_is_compared_and_timed(
    system: Cluster, client: Client, expression: str, exact: bool
) -> None:
    spec = {**CHAIN, "expression": expression, "devices": ["cpu", "reference"]}
    spec["inputs"] = {name: {"shape": [5, 7]} for name in "abc" if name in expression.replace("cumsum", "")}
    _, said = finished(system, client, spec)
    (row,) = (row for row in said if row["stage"] == "timing" and row["variant"] == "reference")
    assert row["seconds"] > 0 and row["threads"] == 1
    assert row["difference"] == 0 if exact else row["difference"] < 1e-6


@pytest.mark.slow
def test_peers_are_timed_beside_it_and_compared(system: Cluster, client: Client) -> None:
    pytest.importorskip("torch")
    _, said = finished(system, client, {**CHAIN, "expression": "erf(a + b) * c", "peers": True})
    rows = {row["variant"].split()[0]: row for row in said if row["stage"] == "timing"}
    assert rows["numpy"]["skipped"] == "has no erf"
    assert rows["torch"]["difference"] < 1e-5


def test_hostile_programs_are_problems_or_bounded_runs(system: Cluster, client: Client) -> None:
    url = f"{system.environment['GRADMILL_URL']}/v1/jobs"
    accepted = []
    with httpx.Client() as http:
        for name, hostile in HOSTILE.items():
            body = json.dumps({"kind": "compile", "spec": {**body_of(hostile), "peers": False, "repeats": 1}})
            answer = http.post(url, content=body, headers={"Content-Type": "application/json"})
            if name in BOUNDED:
                assert answer.status_code == 202, name
                accepted.append(answer.json()["id"])
            else:
                assert answer.status_code in (400, 422), name
                problem = answer.json()
                assert problem["detail"] and len(answer.content) < 10_000, name
                assert answer.headers["Content-Type"] == "application/problem+json"
    for job_id in accepted:
        assert system.wait_state(job_id, "succeeded", "failed").state == "succeeded"


def test_the_short_path_waits_and_names_fields_of_its_body(system: Cluster) -> None:
    url = f"{system.environment['GRADMILL_URL']}/v1/compile"
    with httpx.Client(timeout=70) as http:
        waited = http.post(url, json=CHAIN, headers={"Prefer": "wait=60"})
        assert waited.status_code == 200 and waited.json()["result"]["verified"]
        assert waited.headers["Location"] == f"/v1/jobs/{waited.json()['id']}"
        for body, param in (
            ({**CHAIN, "expression": "a +"}, "expression"),
            ({**CHAIN, "repeats": 0}, "repeats"),
        ):
            refused = http.post(url, json=body)
            assert refused.status_code == 422 and refused.json()["param"] == param


def test_the_command_line_shows_stages_and_a_table(system: Cluster) -> None:
    done = gradmill(system, "relu(a + b) * c", "-i", "a,b=f32[64,100]", "-i", "c=f32[100]", *QUICKLY)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "queued" and lines[-1] == "succeeded"
    for head in ("graph: 7 nodes", "fusion: 1 kernel", "timing", "kernels"):
        assert head in lines
    assert "verify: the plan's results are those of one node a kernel, bit for bit" in lines
    assert any(line.startswith("    fused ") for line in lines)


@pytest.mark.slow
def test_the_command_line_takes_graphs_and_tells_costs(system: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    done = gradmill(system, "--graph", str(path), "--dry-run")
    answer = json.loads(done.stdout)
    assert answer["estimate"]["memory_bytes"] == 96
    detached = gradmill(system, "--graph", str(path), "--detach", *QUICKLY)
    assert system.wait_state(detached.stdout.strip(), "succeeded", "failed").state == "succeeded"


@pytest.mark.slow
def test_the_command_line_says_what_is_wrong(system: Cluster) -> None:
    refused = gradmill(system, "a.T @ a", "-i", "a=f32[2,2]")
    assert refused.returncode == 2
    assert "at character 2: there are no attributes" in refused.stderr


QUICKLY = ("--repeats", "1", "--no-peers")


def gradmill(system: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli", "compile", *arguments]
    return subprocess.run(
        command, env=system.environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
def test_a_compile_job_is_cancelled_between_two_runs(system: Cluster, client: Client) -> None:
    job = client.submit("compile", {"preset": "forge", "repeats": 1000, "peers": False})
    wait_for("it is timed", lambda: any(each["type"] == "report" for each in system.events(job["id"])))
    client.cancel(job["id"])
    system.wait_state(job["id"], "cancelled", within_s=30)


@pytest.mark.slow
def test_the_forge_table_runs_and_every_rung_is_verified(system: Cluster, client: Client) -> None:
    job = client.submit("compile", {"preset": "forge", "repeats": 1, "peers": False})
    record = system.wait_state(job["id"], "succeeded", "failed", within_s=200)
    assert record.state == "succeeded", record.error
    assert isinstance(record.result, dict)
    names = [program["program"] for program in record.result["programs"]]
    assert names[:3] == ["fusion 100k", "fusion 4M", "fusion 16M"] and names[-1] == "mlp 4x256"
    for program in record.result["programs"]:
        rungs = [row["variant"] for row in program["timings"] if row["variant"].startswith("C: ")]
        assert len(rungs) == (4 if program["program"].startswith("matmul") else 0)
