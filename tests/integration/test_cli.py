"""The command line against a running system: output for people and for programs, exit codes, detaching."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cluster import ROOT, Cluster, children, is_running, wait_for

from service.cli.app import COMMANDS
from service.client import Client
from service.embedded import EmbeddedServer
from service.ids import new_id
from service.jobs.lanes import BATCH
from service.jobs.records import key

TEXT = "To be, or not to be, that is the question.\n" * 40
MODEL = ("--model", "bigram", "--seq-len", "8")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="module")
def system(data: Path) -> Iterator[Cluster]:
    """API and a batch worker, whose training jobs are toys."""
    with EmbeddedServer(data) as server, Cluster(server.url, data) as cluster:
        cluster.environment["GRADMILL_URL"] = cluster.start_api()
        cluster.start_toy(BATCH)
        yield cluster


@pytest.fixture(scope="module")
def corpus(data: Path) -> str:
    path = data / "corpus.txt"
    path.write_text(TEXT)
    return str(path)


def start(system: Cluster, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "service.cli", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen(command, env=system.environment, cwd=ROOT, text=True, **pipes)


def run(system: Cluster, *arguments: str, code: int = 0) -> tuple[str, str]:
    """What a command prints on stdout and on stderr; its exit code must be ``code``."""
    with start(system, *arguments) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, (out, err)
    return out, err


def train(system: Cluster, corpus: str, *more: str) -> str:
    out, _ = run(system, "train", *MODEL, "--corpus", corpus, "--detach", *more)
    return out.strip()


def test_train_shows_the_job_until_it_ends(system: Cluster, corpus: str) -> None:
    out, err = run(system, "train", *MODEL, "--corpus", corpus, "--steps", "30", "--name", "first")
    assert re.match(r"job_\w+: http://127.0.0.1:\d+/jobs/job_", err)
    lines = out.splitlines()
    assert lines[0] == "queued"
    assert lines[1].startswith("running · on ")
    assert "step 30/30 · loss 0.0333" in out
    assert lines[-1] == "succeeded"


def test_options_file_and_set_make_one_spec(system: Cluster, corpus: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(
        json.dumps({"model": {"name": "gpt", "embed_dim": 8, "num_heads": 2}, "steps": 5, "seed": 7})
    )
    flags = [
        "--file",
        str(spec),
        "--steps",
        "6",
        "--prompts",
        "a",
        "--prompts",
        "b",
        "--set",
        "model.ff_dim=16",
    ]
    out, _ = run(system, "train", *flags, "--corpus", corpus, "--set", "lr=0.5", "--dry-run")
    answer = json.loads(out)
    assert answer["spec"]["model"] | {"embed_dim": 8, "num_heads": 2, "ff_dim": 16} == answer["spec"]["model"]
    assert answer["spec"]["steps"] == 6
    assert answer["spec"]["seed"] == 7
    assert answer["spec"]["prompts"] == ["a", "b"]
    assert answer["spec"]["lr"] == 0.5


def test_a_refused_spec_names_field_value_and_rule(system: Cluster, corpus: str) -> None:
    _, err = run(system, "train", *MODEL, "--corpus", corpus, "--batch", "1000000000", code=2)
    assert err.startswith("error: ")
    assert "spec.batch" in err
    assert "1000000000" in err
    assert "4096" in err
    out, err = run(system, "train", *MODEL, "--corpus", corpus, "--batch", "0", "--json", code=2)
    assert out == ""
    assert "spec.batch" in json.loads(err)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--corpus", "nowhere.txt"], "neither a file nor one of"),
        (["train", "--set", "steps"], "FIELD=VALUE"),
        (["train", "--set", "steps.x=1", "--steps", "3"], "has no members"),
        (["jobs", "--limit", "1000"], "1000"),
        (["nonsense"], "No such command"),
        (["show"], "Missing argument"),
        (["train", "--corpus", "{binary}", "--dry-run"], "must be text in UTF-8, but invalid start byte at"),
        (["train", "--corpus", "{binary}"], "must be text in UTF-8"),
        (
            ["train", "--corpus", "{text}", "--lr", "nan", "--dry-run"],
            "spec.lr is nan: must be a finite number",
        ),
        (["train", "--corpus", "{text}", "--lr", "nan"], "spec.lr is nan: must be a finite number"),
        (["train", "--corpus", "{text}", "--prompts", "ROMEO:"], "spec.prompts.0 is 'ROMEO:'"),
        (["train", "--corpus", "{text}", "--optimizer", "adam", "--momentum", "0.5"], "spec.momentum is 0.5"),
        (["sample", "bard", "--temperature", "nan"], "temperature is nan"),
        (["jobs", "--after", "xyz"], "after is 'xyz': must be the id of a job"),
        (["jobs", "--state", "bogus"], "'bogus' is not one of"),
    ],
)
def test_wrong_usage_exits_with_two_and_says_why(
    system: Cluster, data: Path, corpus: str, arguments: list[str], words: str
) -> None:
    binary = data / "binary"
    binary.write_bytes(b"fine so far \xff\xfe")
    arguments = [each.format(binary=binary, text=corpus) for each in arguments]
    out, err = run(system, *arguments, code=2)
    assert out == ""
    assert err.startswith("error: ")
    assert words in err
    if arguments[0] in ("train", "jobs"):
        out, err = run(system, *arguments, "--json", code=2)
        assert out == ""
        assert words in json.loads(err)["error"]["message"]


def test_a_bare_command_prints_its_help(system: Cluster) -> None:
    out, err = run(system)
    assert err == ""
    assert all(name in out for name in COMMANDS)


def test_a_text_is_uploaded_once_and_only_when_the_spec_is_accepted(system: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Nobody has this text.\n" * 30)
    with Client(system.environment["GRADMILL_URL"]) as client:

        def uploads() -> int:
            return sum(file["filename"] == "mine.txt" for file in client.files())

        run(system, "train", *MODEL, "--corpus", str(path), "--steps", "0", code=2)
        run(system, "train", *MODEL, "--corpus", str(path), "--dry-run")
        assert uploads() == 0
        train(system, str(path), "--steps", "1")
        train(system, str(path), "--steps", "2")
        assert uploads() == 1


def test_a_dry_run_says_about_how_long_it_takes(system: Cluster) -> None:
    out, err = run(system, "train", "--corpus", "shakespeare", "--dry-run")
    assert json.loads(out)["estimate"]["parameters"] == 550_720
    assert re.fullmatch(r"about [\d:]+ on a small machine\n", err)


def test_a_job_is_paused_resumed_and_deleted(system: Cluster, corpus: str) -> None:
    job_id = train(system, corpus, "--steps", "100000", "--publish-as", "mine")
    system.wait_step(job_id, 1)
    assert run(system, "delete", job_id, code=2)[1].startswith("error: The job is running: cancel it first")
    assert run(system, "pause", job_id)[0] in (f"{job_id} pausing\n", f"{job_id} paused\n")
    wait_for("the job is paused", lambda: system.job(job_id).state == "paused")
    with start(system, "watch", job_id) as watching:
        assert watching.stdout is not None
        shown = [watching.stdout.readline()]
        while not shown[-1].startswith("paused"):
            shown.append(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=30)
    assert shown[-1] == f"paused · `gradmill resume {job_id}` lets it go on\n"
    assert "pausing at its next checkpoint\n" in shown
    assert run(system, "resume", job_id)[0].startswith(job_id)
    row = next(line for line in run(system, "jobs")[0].splitlines() if job_id in line)
    assert row.endswith("mine")
    run(system, "cancel", job_id)
    assert run(system, "resume", job_id, code=2)[1].startswith("error: The job is cancelled")
    assert run(system, "delete", job_id)[0] == f"{job_id} deleted\n"
    run(system, "show", job_id, code=5)


def test_models_are_listed(system: Cluster) -> None:
    model_id = new_id("model")
    record = {"id": model_id, "alias": "bard", "job": "job_x", "step": 7, "weights": "0" * 64}
    record |= {"config": {"name": "bigram", "vocab_size": 3}, "created": 0, "owner": "local"}
    system.redis.set(key("model", model_id), json.dumps(record))
    system.redis.zadd(key("models", "*"), {model_id: 0})
    system.redis.hset(key("aliases", "*"), "bard", model_id)
    row = next(line for line in run(system, "models")[0].splitlines() if model_id in line)
    assert row.split()[1:] == ["bard", "bigram", "7", "1970-01-01T00:00:00Z", "job_x"]
    assert model_id in [json.loads(line)["id"] for line in run(system, "models", "--json")[0].splitlines()]


def test_jobs_show_watch_and_logs_agree(system: Cluster, corpus: str) -> None:
    job_id = train(system, corpus, "--steps", "20", "--name", "a\x1b[31mname")
    out, _ = run(system, "watch", job_id, "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["data"]["state"] == "succeeded"
    late, _ = run(system, "watch", job_id, "--json", "--after", "3")
    assert [json.loads(line)["seq"] for line in late.splitlines()] == list(range(4, len(events) + 1))
    out, _ = run(system, "show", job_id)
    assert re.search(r"^state +succeeded$", out, re.M)
    assert json.loads(run(system, "show", job_id, "--json")[0])["id"] == job_id
    assert json.loads(run(system, "show", "latest", "--json")[0])["id"] == job_id
    out, _ = run(system, "jobs")
    assert "\x1b" not in out
    row = next(line for line in out.splitlines() if job_id in line)
    assert "succeeded" in row
    assert "20/20" in row
    states = ("--state", "succeeded", "--state", "queued")
    page = json.loads(run(system, "jobs", "--json", *states, "--limit", "1")[0])
    assert [job["id"] for job in page["data"]] == [job_id]
    logged, _ = run(system, "logs", job_id, "--json")
    seqs = [json.loads(line)["seq"] for line in logged.splitlines()]
    assert seqs == [
        event["seq"] for event in events if event["type"] in ("state", "stage", "log", "checkpoint", "sample")
    ]
    followed, _ = run(system, "logs", job_id, "-f", "--json")
    assert followed == logged
    tail, _ = run(system, "logs", job_id, "--tail", "2")
    assert len(tail.splitlines()) == 2


def test_a_failed_job_exits_with_one_and_a_cancelled_one_with_six(system: Cluster, corpus: str) -> None:
    failed = system.toy(fault="not_a_number", fault_at=2)
    out, _ = run(system, "watch", failed, code=1)
    assert "failed · non-finite-loss: the loss is NaN at step 3" in out.splitlines()[-1]
    job_id = train(system, corpus, "--steps", "100000")
    with start(system, "watch", job_id) as watching:
        out, _ = run(system, "cancel", job_id)
        assert out == f"{job_id} cancelled\n"
        assert watching.wait(30) == 6
    assert run(system, "cancel", job_id)[0] == f"{job_id} cancelled\n"
    run(system, "watch", job_id, code=6)


def test_repeat_does_a_job_once_more_and_names_what_differs(system: Cluster, corpus: str) -> None:
    job_id = train(system, corpus, "--steps", "5")
    run(system, "watch", job_id)
    out, err = run(system, "repeat", job_id, code=1)  # a toy's result holds its process id
    assert f"repeats {job_id}" in err
    assert [line for line in out.splitlines() if "differs" in line] == [
        line for line in out.splitlines() if line.startswith("differs: pid:")
    ]
    assert "not the same" in out


def test_retry_makes_a_new_job(system: Cluster, corpus: str) -> None:
    job_id = train(system, corpus, "--steps", "100000")
    run(system, "cancel", job_id)
    new_id = run(system, "retry", job_id, "--detach")[0].strip()
    try:
        assert json.loads(run(system, "show", new_id, "--json")[0])["retry_of"] == job_id
    finally:
        run(system, "cancel", new_id)


def test_ctrl_c_detaches_and_the_job_goes_on(system: Cluster, corpus: str) -> None:
    job_id = train(system, corpus, "--steps", "100000")
    try:
        system.wait_step(job_id, 1)
        with start(system, "watch", job_id, "--json") as watching:
            assert watching.stdout is not None
            watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            _, err = watching.communicate(timeout=30)
        assert watching.returncode == 130
        assert f"gradmill cancel {job_id}" in err
        assert system.job(job_id).state == "running"
    finally:
        run(system, "cancel", job_id)


def test_watch_gives_up_after_its_timeout(system: Cluster, corpus: str) -> None:
    job_id = train(system, corpus, "--steps", "100000")
    try:
        _, err = run(system, "watch", job_id, "--timeout", "0.5", code=124)
        assert "the job goes on" in err
    finally:
        run(system, "cancel", job_id)


def test_an_unknown_job_exits_with_five(system: Cluster) -> None:
    for command in ("show", "watch", "logs", "cancel"):
        _, err = run(system, command, "job_nosuch", code=5)
        assert "job_nosuch" in err


def test_an_absent_server_exits_with_three(system: Cluster) -> None:
    _, err = run(system, "--url", "http://127.0.0.1:9", "jobs", code=3)
    assert "http://127.0.0.1:9" in err
    assert "gradmill up" in err


def test_a_missing_or_wrong_key_exits_with_four(system: Cluster, tmp_path: Path) -> None:
    secret = "key_" + "a" * 8 + "_" + "b" * 43
    (tmp_path / "keys").write_text(secret + "\n")
    before = dict(system.environment)
    system.environment["GRADMILL_API_KEY_FILE"] = str(tmp_path / "keys")
    try:
        system.environment["GRADMILL_URL"] = system.start_api()
        _, err = run(system, "jobs", code=4)
        assert "GRADMILL_API_KEY" in err
        system.environment["GRADMILL_API_KEY"] = secret
        run(system, "jobs")
        system.environment["GRADMILL_API_KEY"] = secret[:-1] + "c"
        _, err = run(system, "jobs", code=4)
        assert secret[:-1] not in err
    finally:
        system.environment.clear()
        system.environment.update(before)


def test_a_terminal_gets_a_live_display_that_ends_with_the_state(system: Cluster, corpus: str) -> None:
    ours, theirs = pty.openpty()
    with start(
        system,
        "train",
        *MODEL,
        "--corpus",
        corpus,
        "--steps",
        "40",
        stdout=theirs,
        stderr=theirs,
        stdin=theirs,
    ) as process:
        os.close(theirs)
        shown = read_all(ours)
        assert process.wait(30) == 0
    assert "━" in shown
    assert "loss █" in shown
    assert "succeeded" in shown.rpartition("loss █")[0][-600:]


def read_all(terminal: int) -> str:
    parts = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:  # the other side is closed
        pass
    os.close(terminal)
    return b"".join(parts).decode(errors="replace")


@contextmanager
def running_up(data: Path) -> Iterator[subprocess.Popen[str]]:
    """`gradmill up` on a free port, on the pure-Python device; killed at the end if it still runs."""
    command = [sys.executable, "-m", "service.cli", "up", "--port", "0", "--json"]
    with subprocess.Popen(command, env=own_system(data), stdout=subprocess.PIPE, text=True) as up:
        try:
            yield up
        finally:
            up.kill()


def own_system(data: Path, **more: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "GRADMILL_URL"}
    return (
        environment | {"GRADMILL_DATA_DIR": str(data), "GRADMILL_CC": "none", "PYTHONPATH": str(ROOT)} | more
    )


def address(up: subprocess.Popen[str]) -> str:
    assert up.stdout is not None
    url: str = json.loads(up.stdout.readline())["url"]
    return url


def submit_long_job(client: Client, tmp_path: Path, steps: int) -> str:
    """A training job that has begun."""
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    spec = {
        "model": {"name": "bigram", "seq_len": 8},
        "corpus": {"file": client.upload(text)["id"]},
        "steps": steps,
        "checkpoint_every_s": 3600,
    }
    job_id = client.submit("train", spec)["id"]

    def has_begun() -> bool:
        job = client.get(job_id)
        assert job["state"] in ("queued", "running"), job["error"]
        return job["progress"] is not None and job["progress"]["step"] >= 1

    wait_for("the job runs", has_begun)
    return job_id


def test_up_runs_everything_once_a_folder_and_leaves_nothing_behind(tmp_path: Path) -> None:
    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "service.cli", *arguments]
        return subprocess.run(
            command, env=own_system(tmp_path), capture_output=True, text=True, timeout=60, check=False
        )

    with running_up(tmp_path) as up:
        url = address(up)
        assert json.loads((tmp_path / "run.json").read_text())["url"] == url

        def workers_live() -> bool:
            doctor = json.loads(ask("doctor", "--json").stdout)
            return doctor[-1]["detail"] == "cpu-batch: 1, cpu-quick: 1"

        wait_for("both workers are live", workers_live, 30)
        second = ask("up", "--port", "0")
        assert second.returncode == 0
        assert f"already runs on {tmp_path} at {url}" in second.stderr
        elsewhere = ask("up", "--port", "1")
        assert (elsewhere.returncode, elsewhere.stderr.startswith("error: ")) == (2, True)
        assert f"at {url}" in elsewhere.stderr
        assert ask("jobs").returncode == 0
        started = descendants(up.pid)
        assert len(started) >= 4
        up.send_signal(signal.SIGINT)
        assert up.wait(20) == 0
    wait_for("every process is gone", lambda: not any(map(is_running, started)), 5)
    assert not (tmp_path / "run.json").exists()
    assert ask("jobs").returncode == 3


def test_a_job_goes_on_where_it_was_when_up_is_started_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_up(data) as up:
        with Client(address(up)) as client:
            job_id = submit_long_job(client, tmp_path, 150)
        up.terminate()
        assert up.wait(20) == 0
    with running_up(data) as up, Client(address(up)) as client:
        job = client.wait(job_id, timeout_s=60)
        assert job["state"] == "succeeded", job["error"]
        assert [attempt["outcome"] for attempt in job["attempts"]] == ["shutdown", "succeeded"]
        assert job["failures"] == 0
        losses = client.metrics(job_id, ["loss"])["loss"]
        assert losses["steps"] == list(range(1, 151))
        up.terminate()
        assert up.wait(20) == 0


@pytest.mark.parametrize(
    ("options", "variables", "words"),
    [
        (["--host", "0.0.0.0"], {}, "would let everyone in"),
        ([], {"GRADMILL_PORT": "many"}, "GRADMILL_PORT: Input should be a valid integer"),
        ([], {"GRADMILL_API_KEY_FILE": "/nowhere"}, "/nowhere"),
        (["--port", "{taken}"], {}, "choose another --port"),
        ([], {"GRADMILL_DATA_DIR": "/proc/nowhere"}, "the data folder /proc/nowhere can't be used"),
        ([], {"GRADMILL_LOG_LEVEL": "loud"}, "GRADMILL_LOG_LEVEL is 'loud'; it must be one of"),
    ],
)
def test_up_says_why_it_cannot_start(
    tmp_path: Path, options: list[str], variables: dict[str, str], words: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = [option.format(taken=taken.getsockname()[1]) for option in options]
        done = subprocess.run(
            [sys.executable, "-m", "service.cli", "up", *options],
            env=own_system(tmp_path / "data", **variables),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert not (tmp_path / "data" / "redis").exists()


def test_up_says_where_it_runs_and_that_it_is_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "service.cli", "up", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=own_system(tmp_path), text=True, **pipes) as up:  # type: ignore[call-overload]
        assert up.stdout.readline().startswith("Gradmill runs at http://127.0.0.1:")
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=30)
    assert up.returncode == 0
    assert err.endswith("Gradmill is stopped.\n")


def test_killing_up_ends_all_that_it_started_a_running_job_included(tmp_path: Path) -> None:
    with running_up(tmp_path / "data") as up:
        with Client(address(up)) as client:
            submit_long_job(client, tmp_path, 1_000_000)
        started = descendants(up.pid)
        assert len(started) >= 5
        up.kill()
    wait_for("every process is gone", lambda: not any(map(is_running, started)), 20)


def descendants(pid: int) -> list[int]:
    found = children(pid)
    return found + [each for child in found for each in descendants(child)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("mark", ["run.lock", "redis/lock", "redis/server.log", "blobs"])
def test_a_signal_stops_up_while_it_starts(tmp_path: Path, number: signal.Signals, mark: str) -> None:
    """As soon as a part of the start can be seen; nothing is left behind."""
    data = tmp_path / "data"
    with running_up(data) as up:
        wait_for(f"{mark} is there", (data / mark).exists)
        started = descendants(up.pid)
        up.send_signal(number)
        for _ in range(3):  # somebody insists
            up.send_signal(number)
        assert up.wait(30) == 0
    wait_for("every process is gone", lambda: not any(map(is_running, started)))
    assert not (data / "run.json").exists()


def test_up_brings_back_what_dies(tmp_path: Path) -> None:
    with running_up(tmp_path) as up, Client(address(up)) as client:
        names = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(up.pid)}
        assert len(names) == 2
        for pid, name in names.items():
            os.kill(pid, signal.SIGKILL)
            wait_for(f"{name!r} is back", lambda pid=pid: len(set(children(up.pid)) - {pid}) == 2)
            url = f"{client.url}/readyz"
        wait_for("everything works", lambda: httpx.get(url).is_success and httpx.get(url).json()["workers"])
        text = tmp_path / "text.txt"
        text.write_text(TEXT)
        file = client.upload(text)["id"]
        spec = {"model": {"name": "bigram", "seq_len": 8}, "corpus": {"file": file}, "steps": 2}
        assert client.wait(client.submit("train", spec)["id"], timeout_s=60)["state"] == "succeeded"
        up.terminate()
        assert up.wait(30) == 0


def test_up_names_a_data_folder_that_cannot_be_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    for data in (file, file / "below"):
        command = [sys.executable, "-m", "service.cli", "up", "--port", "0"]
        done = subprocess.run(
            command, env=own_system(data), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 2
        assert str(file) in done.stderr
        assert "Traceback" not in done.stderr
