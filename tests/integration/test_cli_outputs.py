"""Commands on files, models, artifacts and lists, in this process against a real API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from api_rig import SPEC, TEXT, TRAIN, Api
from click.testing import CliRunner, Result

from service.cli.app import group
from service.ids import new_id
from service.jobs import calls


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    api.redis.flushall()


def run(api: Api, *arguments: str, code: int = 0, stdin: bytes | None = None) -> Result:
    done = CliRunner().invoke(group, ["--url", api.url, *arguments], input=stdin)
    assert done.exit_code == code, done.output
    return done


def test_files_are_uploaded_listed_downloaded_and_deleted(api: Api, tmp_path: Path) -> None:
    text = tmp_path / "hamlet.txt"
    text.write_text(TEXT)
    first, second = run(api, "files", "upload", str(text), "-", stdin=b"from a pipe").stdout.split()
    listed = [json.loads(line) for line in run(api, "files", "--json").stdout.splitlines()]
    assert [(each["id"], each["filename"]) for each in listed] == [(second, "stdin"), (first, "hamlet.txt")]
    assert "hamlet.txt" in run(api, "files").stdout
    run(api, "files", "download", first, "-o", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_text() == TEXT
    assert run(api, "files", "download", second, "-o", "-").stdout_bytes == b"from a pipe"
    run(api, "files", "delete", first, second)
    assert run(api, "files", "--json").stdout == ""
    refused = run(api, "files", "download", first, "-o", str(tmp_path / "none"), code=1)
    assert refused.exception is not None
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["copy", "hamlet.txt"]


def test_models_get_aliases_and_are_downloaded_and_deleted(api: Api, tmp_path: Path) -> None:
    api.submit()
    worker = api.worker()
    worker.claim()
    model = new_id("model")
    record = {"id": model, "alias": "bard", "weights": api.blobs.put(b"weights"), "owner": "local"}
    worker.finish(model=calls.Model(model, {**record, "config": {"name": "bigram", "vocab_size": 3}}, "bard"))
    run(api, "models", "alias", "poet", "bard")
    assert "bard, poet" in run(api, "models").stdout
    run(api, "models", "alias", "--remove", "bard")
    assert run(api, "models").stdout.splitlines()[1].split()[1] == "poet"
    run(api, "models", "alias", "poet", code=2)
    run(api, "models", "download", "poet", "-o", str(tmp_path / "m"))
    assert (tmp_path / "m").read_bytes() == b"weights"
    run(api, "models", "delete", "poet")
    assert run(api, "models", "--json").stdout == ""


def test_artifacts_are_listed_and_downloaded_by_name(api: Api, tmp_path: Path) -> None:
    api.submit()
    worker = api.worker()
    worker.claim()
    blob = api.blobs.put(b"int x;")
    artifact = {"name": "c/../kernel.c", "type": "text/x-c", "bytes": 6, "blob": blob}
    worker.finish(result={"artifacts": [artifact], "speed": 2})
    assert "c/../kernel.c" in run(api, "artifacts", "latest").stdout
    run(api, "artifacts", worker.job, "c/../kernel.c", "-o", str(tmp_path / "out"))
    assert (tmp_path / "out" / "kernel.c").read_bytes() == b"int x;"
    assert "it has c/../kernel.c" in run(api, "artifacts", worker.job, "other", code=2).stderr
    shown = run(api, "show", worker.job).stdout
    assert "artifact     c/../kernel.c, 6 bytes" in shown
    assert '{"speed": 2}' in shown


def test_lists_and_logs_are_cut_to_what_is_asked_for(api: Api) -> None:
    made = api.submit({**TRAIN, "name": "a", "metadata": {"team": "blue"}})["id"]
    api.submit({"kind": "train", "spec": SPEC, "name": "b"})
    assert made in run(api, "jobs", "--metadata", "team=blue", "--since", "2020-01-01").stdout
    assert len(run(api, "jobs", "--name", "b").stdout.splitlines()) == 2
    assert len(run(api, "jobs", "--until", "2020-01-01T00:00:00Z").stdout.splitlines()) == 1
    run(api, "jobs", "--metadata", "team", code=2)
    worker = api.worker()
    worker.claim()
    worker.say(("log", {"level": "info", "message": "hello"}))
    assert run(api, "logs", worker.job, "--after", "2").stdout.endswith(" info hello\n")
    assert len(run(api, "logs", worker.job, "--after", "2").stdout.splitlines()) == 1
    worker.finish()
    assert len(run(api, "logs", worker.job, "--after", "2", "--follow").stdout.splitlines()) == 2


def test_each_job_named_is_asked(api: Api) -> None:
    jobs = [api.submit()["id"] for _ in range(2)]
    assert run(api, "pause", *jobs).stdout == "".join(f"{job} paused\n" for job in jobs)
    assert [
        json.loads(line)["state"] for line in run(api, "resume", "--json", *jobs).stdout.splitlines()
    ] == [
        "queued",
        "queued",
    ]
    assert run(api, "cancel", *jobs).stdout == "".join(f"{job} cancelled\n" for job in jobs)
