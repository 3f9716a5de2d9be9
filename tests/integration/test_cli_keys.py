"""``gradmill keys``: the first admin by whoever has Redis, all others by an admin."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from api_rig import Api

from service.cli.app import main
from service.jobs.records import key


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> object:
    with Api(tmp_path_factory.mktemp("keys")) as running:
        yield running


class Shell:
    """The command line in this process; a start of Python for each command would take most of the time."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.api = api
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(self, *arguments: str, secret: str = "", code: int = 0, **environment: str) -> tuple[str, str]:
        given = {"GRADMILL_URL": self.api.url, "GRADMILL_DATA_DIR": str(self.api.data), **environment}
        with self._monkeypatch.context() as here:
            for name, value in ({"GRADMILL_API_KEY": secret} | given).items():
                here.setenv(name, value)
            here.setattr(sys, "argv", ["gradmill", *arguments])
            with pytest.raises(SystemExit) as end:
                main()
        out, err = self._capsys.readouterr()
        assert (end.value.code or 0) == code, err
        return out.strip(), err


@pytest.fixture
def shell(api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(api, monkeypatch, capsys)


def test_from_an_open_system_to_a_guarded_one_and_back(shell: Shell) -> None:
    run, api = shell.run, shell.api
    redis = {"GRADMILL_REDIS_URL": api.settings.redis_url}
    admin, told = run("keys", "create", "--admin", "--name", "me", **redis)
    assert admin.startswith("key_")
    assert admin not in told
    run("jobs", code=0, secret=admin)
    made = json.loads(
        run(
            "keys",
            "create",
            "--name",
            "ann",
            "--scope",
            "read",
            "--expires",
            "30d",
            "--json",
            secret=admin,
        )[0]
    )
    assert made["scopes"] == ["read"]
    assert made["expires_at"]
    run("jobs", secret=made["secret"])
    _, refused = run("keys", "list", secret=made["secret"], code=4)
    assert "'admin'" in refused
    assert "gradmill keys create" in refused
    listed, _ = run("keys", "list", secret=admin)
    assert "ann" in listed
    assert made["secret"] not in listed
    run("keys", "revoke", made["id"], secret=admin)
    run("jobs", secret=made["secret"], code=4)
    run("keys", "revoke", made["id"], secret=admin, code=5)
    assert api.redis.zcard(key("keys", "*")) == 1


def test_what_can_not_be_made_is_said(shell: Shell, tmp_path: Path) -> None:
    run = shell.run
    _, told = run("keys", "create", "--admin", code=2, GRADMILL_DATA_DIR=str(tmp_path))
    assert "gradmill up" in told
    _, told = run("keys", "create", "--expires", "soon", code=2)
    assert "30d" in told
    _, told = run("keys", "create", "--admin", "--scope", "read", code=2)
    assert "--admin" in told
