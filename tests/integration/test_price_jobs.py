"""Price jobs end to end: through the API, on a real warm worker, and from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from cluster import ROOT, Cluster, check_log

from service.client import Client
from service.jobs.lanes import QUICK

CALL: dict[str, Any] = {
    "instrument": "european",
    "type": "call",
    "S": 100,
    "K": 100,
    "T": 1,
    "r": 0.05,
    "vol": 0.2,
}
EXACT = 10.450583572185565
WAIT = {"Prefer": "wait=30"}


@pytest.fixture(scope="module")
def system(start_system: Callable[..., Cluster]) -> Cluster:
    return start_system(QUICK)


def finished(
    system: Cluster, client: Client, spec: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result of a job, and what it reported."""
    job = client.submit("price", spec)
    record = system.wait_state(job["id"], "succeeded", "failed")
    assert record.state == "succeeded", record.error
    events = system.events(job["id"])
    check_log(events)
    assert isinstance(record.result, dict)
    return record.result, [event["data"] for event in events if event["type"] == "report"]


def test_a_job_says_its_running_estimate_and_leaves_answer_and_charts(
    system: Cluster, client: Client
) -> None:
    contract = {**CALL, "greeks": ["delta"], "convergence": True, "mc": {"paths": 600_000, "seed": 7}}
    result, said = finished(system, client, {"contract": contract})
    (answer,) = result["answers"]
    assert abs(answer["price"] - EXACT) < 4 * answer["se"]
    assert answer["closed_form"]["value"] == pytest.approx(EXACT, abs=1e-9)
    assert answer["greeks"]["delta"]["method"] == "pathwise"
    assert answer["spec"]["mc"]["seed"] == 7 and len(answer["hash"]) == 64
    running = [report["n"] for report in said if "n" in report]
    assert running == sorted(running) and running[-1] == 600_000 and len(running) > 1
    assert said[-1]["answer"]["price"] == answer["price"]
    (artifact,) = result["artifacts"]
    drawing = system.blobs.get(artifact["blob"]).decode()
    assert artifact["name"] == "report.svg" and len(ElementTree.fromstring(drawing)) == 2 + 6
    charts = answer["charts"]
    assert sum(charts["payoffs"]["counts"]) == charts["paths"] == 4096
    assert len(charts["fan"]["times"]) == len(charts["fan"]["quantiles"]["0.5"])


def test_the_same_request_gives_the_same_bits(system: Cluster, client: Client) -> None:
    contract = {
        **CALL,
        "instrument": "asian",
        "averaging": {"kind": "arithmetic", "n": 12},
        "mc": {"paths": 50_000},
    }
    spec = {"contract": contract, "charts": False}
    first, second = (finished(system, client, spec)[0]["answers"][0] for _ in range(2))
    assert (first["price"], first["se"]) == (second["price"], second["se"])


def test_errors_that_are_not_known_yet_are_null(system: Cluster, client: Client) -> None:
    """The first replicate of quasi-random points has no error."""
    contract = {**CALL, "mc": {"paths": 4096, "qmc": "sobol"}}
    result, said = finished(system, client, {"contract": contract, "charts": False})
    assert abs(result["answers"][0]["price"] - EXACT) < 0.1
    running = [report["se"] for report in said if "n" in report]
    assert running[0] is None and running[-1] == result["answers"][0]["se"]


@pytest.mark.parametrize(
    "change",
    [
        {"mc": {"paths": 2}},
        {"mc": {"paths": 8192, "moment_matching": True}, "convergence": True, "greeks": ["delta"]},
        {"mc": {"paths": 64}, "instrument": "custom", "payoff": "log(last(S) - 1000)"},
    ],
)
def test_answers_with_numbers_that_are_not_there_have_what_can_be_drawn(
    system: Cluster, client: Client, change: dict[str, Any]
) -> None:
    contract = {**CALL, **change}
    if "payoff" in change:
        del contract["type"], contract["K"]
        contract["monitoring"] = {"kind": "discrete", "n": 1}
    result, _ = finished(system, client, {"contract": contract})
    answer = result["answers"][0]
    assert ("charts" in answer) == (answer["se"] is not None)
    assert answer["se"] is not None or (answer["z"] is None and answer["warnings"])


def test_many_contracts_are_priced_in_one_job(system: Cluster, client: Client) -> None:
    contracts = [CALL, {**CALL, "K": 120}, {**CALL, "method": "closed_form", "instrument": "custom"}]
    custom = contracts.pop()
    del custom["type"], custom["K"]
    custom |= {"payoff": "last(S)", "monitoring": {"kind": "discrete", "n": 1}}
    result, said = finished(system, client, {"contracts": [*contracts, custom]})
    assert [answer["kind"] for answer in result["answers"]] == ["price", "price", "error"]
    assert "closed_form" in result["answers"][2]["message"]
    assert [report["contract"] for report in said] == [0, 1, 2]


def test_a_price_answers_in_the_same_request(http: httpx.Client) -> None:
    answer = http.post("/v1/price", json=CALL, headers=WAIT)
    assert answer.status_code == 200 and answer.headers["Preference-Applied"] == "wait=30"
    assert answer.json()["price"] == pytest.approx(EXACT, abs=1e-9)
    two = http.post("/v1/price", json={"contracts": [CALL, {**CALL, "type": "put"}]}, headers=WAIT).json()
    call, put = (own["price"] for own in two["data"])
    assert call - put == pytest.approx(100 - 100 * 0.951229424500714, abs=1e-9)
    listed = http.get("/v1/jobs", params={"limit": 100}).json()["data"]
    assert answer.json()["job"] not in [job["id"] for job in listed]


def test_a_price_without_the_wish_to_wait_is_a_job(http: httpx.Client) -> None:
    answer = http.post("/v1/price", json=CALL)
    assert answer.status_code == 202 and answer.json()["kind"] == "price"
    assert answer.headers["Location"].endswith(answer.json()["id"])


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"type": "C"}, "type"),
        ({"vol": -0.2}, "vol"),
        ({"S": "100"}, "S"),
        ({"r": 5}, "r"),
        ({"averaging": {}}, "averaging"),
        ({"mc": {"paths": 1}}, "mc.paths"),
        ({"greeks": ["speed"]}, "greeks[0]"),
    ],
)
def test_mistakes_are_named_by_their_path(http: httpx.Client, change: dict[str, Any], param: str) -> None:
    answer = http.post("/v1/price", json={**CALL, **change}, headers=WAIT)
    assert answer.status_code == 422, answer.text
    assert answer.json()["param"] == param


def test_a_price_that_no_formula_gives_is_refused_where_one_is_asked_for(http: httpx.Client) -> None:
    custom = {name: value for name, value in CALL.items() if name not in ("type", "K")}
    custom |= {"instrument": "custom", "payoff": "last(S)", "method": "closed_form"}
    custom["monitoring"] = {"kind": "discrete", "n": 1}
    answer = http.post("/v1/price", json=custom, headers=WAIT)
    assert answer.status_code == 400 and answer.json()["code"] == "invalid-contract"


def test_the_command_line_prints_the_answer(system: Cluster) -> None:
    command = [
        sys.executable,
        "-m",
        "service.cli",
        "price",
        "asian",
        "--type",
        "call",
        "-S",
        "100",
        "-K",
        "100",
    ]
    command += ["-T", "1", "-r", "0.05", "--vol", "0.2", "--set", 'averaging={"kind": "arithmetic", "n": 12}']
    command += ["--paths", "50000", "--seed", "4", "--greeks", "delta"]
    environment = {**os.environ, **system.environment}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert rows["exact"].startswith("6.15604") and "±" in rows["price"]
    assert "pathwise" in rows["delta"] and rows["bias"].startswith("none")
    dry = subprocess.run(
        [*command, "--dry-run"], capture_output=True, text=True, cwd=ROOT, env=environment, check=True
    )
    assert json.loads(dry.stdout)["spec"]["contract"]["mc"]["seed"] == 4
