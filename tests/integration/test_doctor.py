"""What ``gradmill doctor`` finds wrong with a system, each on a real one."""

from __future__ import annotations

from pathlib import Path

import pytest
from api_rig import Api

from service.cli import doctor
from service.cli.doctor import Finding
from service.client import Client
from service.jobs.lanes import LANES
from service.jobs.schema import SCHEMA_KEY, VERSION


def verdicts(findings: list[Finding]) -> dict[str, bool | None]:
    return {finding.name: finding.ok for finding in findings}


def test_a_sound_store_is_found_sound(api: Api) -> None:
    assert verdicts(doctor.redis_state(api.settings.redis_url)) == {
        "durability": True,
        "schema": True,
        "clock": True,
    }


@pytest.mark.parametrize(
    "option, wrong, right", [("appendonly", "no", "yes"), ("maxmemory-policy", "allkeys-lru", "noeviction")]
)
def test_a_store_that_may_lose_jobs_is_found(api: Api, option: str, wrong: str, right: str) -> None:
    api.redis.config_set(option, wrong)
    try:
        assert verdicts(doctor.redis_state(api.settings.redis_url))["durability"] is False
    finally:
        api.redis.config_set(option, right)


def test_data_of_a_newer_release_are_found(api: Api) -> None:
    api.redis.set(SCHEMA_KEY, VERSION + 1)
    try:
        assert verdicts(doctor.redis_state(api.settings.redis_url))["schema"] is False
    finally:
        api.redis.set(SCHEMA_KEY, VERSION)


def test_missing_workers_are_found(api: Api) -> None:
    with Client(api.url) as client:
        assert verdicts(doctor.system(client)) == {"system": True, "version": True, "workers": False}
        workers = [api.worker(lane).live() for lane in LANES]
        assert verdicts(doctor.system(client))["workers"] is True
        for worker in workers:
            worker.leave()


def test_an_absent_redis_is_found_and_its_password_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADMILL_REDIS_URL", "redis://gradmill:s3cret@127.0.0.1:1/0")
    finding = doctor.redis_server()
    assert finding.ok is False
    assert "s3cret" not in finding.detail
    assert verdicts(doctor.redis_state(doctor.redis_url())) == {"store": False}


def test_a_key_file_that_others_can_read_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    path.write_text(f"key_a_{'0' * 40}\n")
    monkeypatch.setenv("GRADMILL_API_KEY_FILE", str(path))
    path.chmod(0o600)
    assert doctor.key_file().ok is True
    path.chmod(0o644)
    assert "chmod" in doctor.key_file().detail
    path.write_text("short\n")
    assert doctor.key_file().ok is False
