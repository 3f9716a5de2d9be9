"""The compose file: what it promises, and its services as processes on machines of their own; no images."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import children, wait_for
from namespaces import Network, why_not

from service.embedded import find_product

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
NAMES = {"redis": "redis", "api": "api", "worker-1": "worker", "worker-2": "worker"}  # machine → service
PING = "import redis; redis.Redis(socket_timeout=3).execute_command('PING')"


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["init"] is True
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"cpus", "memory"} <= set(service["deploy"]["resources"]["limits"])
    assert isinstance(service["command"], list)  # the exec form: signals reach the process, not a shell
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["stop_grace_period"]


def test_only_loopback_is_published() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8000:8000"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert SERVICES["redis"]["networks"] == SERVICES["worker"]["networks"] == ["inside"]


def test_secrets_are_files_and_stand_in_no_variable_or_argument() -> None:
    for service in SERVICES.values():
        said = [*service["command"], *service.get("environment", {}).values()]
        assert not [text for text in said if "key_" in text.replace("worker_key", "") or "://:" in text]
        for name, value in service.get("environment", {}).items():
            if value.startswith("/run/secrets/"):
                assert name.endswith("_FILE")
                assert value.removeprefix("/run/secrets/") in service["secrets"]


def test_redis_writes_everything_down_and_knows_its_users() -> None:
    command = SERVICES["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--aclfile"] == "/run/secrets/redis_acl"


def test_a_worker_has_no_part_of_the_data_folder() -> None:
    assert SERVICES["worker"]["volumes"] == ["cache:/cache"]
    assert "GRADMILL_DATA_DIR" not in SERVICES["worker"]["environment"]


def test_the_image_is_built_in_stages_and_runs_as_nobody_special() -> None:
    assert DOCKERFILE.count("\nFROM python:3.13-slim") >= 1
    last = DOCKERFILE.rpartition("FROM ")[2]
    assert "USER 10001:10001" in last
    assert "HEALTHCHECK" in last
    assert 'CMD ["gradmill", "serve"]' in last
    assert "COPY . " not in DOCKERFILE


def test_our_own_image_is_never_pulled() -> None:
    ours = [service for service in SERVICES.values() if service["image"].startswith("gradmill")]
    assert len(ours) == 2
    assert all(service["build"] == "." and service["image"] == "gradmill:local" for service in ours)


def secrets_folder(folder: Path) -> Path:
    subprocess.run([sys.executable, ROOT / "deploy" / "compose_secrets.py", folder], check=True)
    return folder


def test_made_secrets_are_kept(tmp_path: Path) -> None:
    folder = secrets_folder(tmp_path / "secrets")
    before = {path.name: path.read_text() for path in folder.iterdir()}
    secrets_folder(folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == before
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {Path(each["file"]).name for each in COMPOSE["secrets"].values()} == set(before)


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose")
def test_docker_compose_takes_the_file(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    secrets_folder(tmp_path / "secrets")
    subprocess.run(["docker-compose", "config", "-q"], cwd=tmp_path, check=True)


class Machines:
    """Each service of the compose file on a machine of its own; a folder stands for its volumes."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self._secrets = secrets_folder(folder / "secrets")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def _place(self, service: Mapping[str, Any], text: str) -> str:
        """A text in which the container's paths are those of this machine."""
        for name, secret in COMPOSE["secrets"].items():
            text = text.replace(f"/run/secrets/{name}", str(self._secrets / Path(secret["file"]).name))
        for volume in service.get("volumes", []):
            name, _, inside = volume.partition(":")
            (self.folder / name).mkdir(exist_ok=True)
            if text == inside or text.startswith(f"{inside}/"):
                text = str(self.folder / name) + text.removeprefix(inside)
        return text

    def _command(self, service: Mapping[str, Any], command: list[str]) -> list[str]:
        here = {
            "gradmill": [sys.executable, "-m", "service.cli"],
            "python": [sys.executable],
            "valkey-server": [str(find_product().binary)],
            "valkey-cli": [sys.executable, "-c", PING],
        }
        return [*here[command[0]], *(self._place(service, text) for text in command[1:])]

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        given = {name: self._place(service, value) for name, value in service.get("environment", {}).items()}
        given.pop("GRADMILL_CACHE", None)  # the kernels that other tests have compiled serve here too
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return kept | {"PYTHONPATH": str(ROOT), "GRADMILL_THREADS": "1", "GRADMILL_LEASE_S": "5"} | given

    def start(self, machine: str) -> None:
        """Starts a service once those that it depends on are healthy, and waits until it is itself."""
        service = SERVICES[NAMES[machine]]
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert self.is_healthy(needed)
        command = self._command(service, service["command"])
        self.processes[machine] = self.network.start(machine, command, self.environment(service))
        wait_for(f"{machine} is healthy", lambda: self.is_healthy(machine))

    def is_healthy(self, machine: str) -> bool:
        service = SERVICES[NAMES[machine]]
        check = self._command(service, service["healthcheck"]["test"][1:])
        return self.network.run(machine, check, self.environment(service)).returncode == 0

    def ask(self, *arguments: str) -> Any:
        """What the command line says, on the machine of the API with the admin's key."""
        key = (self._secrets / "api_keys").read_text().split()[0]
        environment = self.environment(SERVICES["api"]) | {"GRADMILL_API_KEY": key}
        command = [sys.executable, "-m", "service.cli", *arguments, "--json"]
        done = self.network.run("api", command, environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def state(self, job: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.ask("show", job)
        return shown

    def machine_of(self, worker: str) -> str:
        """On which machine a worker's process runs."""
        pid = int(worker.split(".")[-2])
        return next(name for name, process in self.processes.items() if pid in children(process.pid))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    if reason := why_not():
        pytest.skip(reason)
    with Network(list(NAMES)) as network:
        yield Machines(network, tmp_path)


@pytest.mark.slow
def test_services_on_machines_of_their_own_survive_the_loss_of_one(
    machines: Machines, tmp_path: Path
) -> None:
    for machine in NAMES:
        machines.start(machine)
    spec = tmp_path / "spec.json"
    spec.write_text(
        json.dumps(
            {
                "model": {"name": "mlp", "seq_len": 4},
                "corpus": {"text": "to be or not to be that is the question\n" * 50},
                "steps": 20_000,
                "checkpoint_every_s": 0.5,
                "sample_every": 0,
                "eval_every": 0,
            }
        )
    )

    def submit() -> str:
        job: str = machines.ask("train", "--detach", "--file", str(spec))["id"]
        return job

    def ended(job: str) -> dict[str, Any]:
        return wait_for(f"{job} has succeeded", lambda: one_of(machines.state(job), "succeeded"), 120)

    undisturbed = ended(submit())
    job = submit()
    running = wait_for("the job is under way", lambda: at_step(machines.state(job), 200), 60)
    lost = machines.machine_of(running["attempts"][-1]["worker"])
    machines.network.cut(lost)
    after = ended(job)
    assert after["attempts"][0]["outcome"] == "worker-lost"
    assert machines.machine_of(after["attempts"][-1]["worker"]) != lost
    assert after["result"]["weights"] == undisturbed["result"]["weights"]
    machines.network.join(lost)
    wait_for(f"{lost} is back", lambda: machines.is_healthy(lost))
    other = next(name for name in ("worker-1", "worker-2") if name != lost)
    machines.network.cut(other)
    assert ended(submit())["result"]["weights"] == undisturbed["result"]["weights"]
    machines.network.join(other)
    started = time.monotonic()
    machines.processes["api"].terminate()
    machines.processes["api"].wait(10)
    assert time.monotonic() - started < 10


def one_of(job: dict[str, Any], *states: str) -> dict[str, Any] | None:
    assert job["state"] not in {"succeeded", "failed", "cancelled"} - set(states), job["error"]
    return job if job["state"] in states else None


def at_step(job: dict[str, Any], step: int) -> dict[str, Any] | None:
    return job if job["state"] == "running" and (job["progress"] or {}).get("step", 0) >= step else None
