"""The Lua scripts against a model: random interleavings of several workers, re-sent calls and lost leases.

On every server that is installed: the packaged one, and those on PATH.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from redis import Redis
from script_machine import LANE, Scripts

from service import embedded
from service.embedded import EmbeddedServer
from service.ids import new_id
from service.jobs import calls, tickets
from service.jobs.connection import connect
from service.jobs.records import key


def products() -> list[embedded.Product]:
    """The servers of this machine, each once."""
    binaries = [embedded.packaged_binary(), *map(shutil.which, embedded.ON_PATH)]
    found = [embedded.identify(Path(binary)) for binary in binaries if binary]
    return list({str(product): product for product in found if product is not None}.values())


@pytest.fixture(scope="module", params=products(), ids=str)
def redis(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "find_product", lambda: request.param)
        with EmbeddedServer(tmp_path_factory.mktemp("model")) as server, connect(server.url) as connection:
            yield connection


@pytest.mark.parametrize("priority", [-10, -1, 0, 1, 10])
def test_a_record_that_vanished_never_blocks_its_lane(redis: Redis, priority: int) -> None:
    redis.flushall()
    ids = [new_id("job") for _ in range(3)]
    for job, owner, place in zip(ids, ["ann", "ann", "bob"], [1, 2, 2], strict=True):
        new = calls.NewJob(job, "train", LANE, {}, owner=owner, priority=priority)
        assert calls.run(redis, calls.accept(new)).place == place
    redis.delete(key("job", ids[0]), key("job", ids[2]))
    claim = calls.run(redis, calls.claim(LANE, "w1", "n1"))
    assert claim is not None
    assert claim.job.id == ids[1]
    assert calls.run(redis, calls.claim(LANE, "w1", "n2")) is None
    assert redis.keys(key("queue", "*")) == []


def test_a_lane_never_has_more_tickets_than_its_workers_can_use(redis: Redis) -> None:
    redis.flushall()
    for _ in range(6):
        assert (
            calls.run(redis, calls.accept(calls.NewJob(new_id("job"), "train", LANE, {}))).missing_tickets
            == 0
        )
    assert calls.run(redis, calls.heartbeat("w1", LANE, {})) == 2
    assert tickets.wake(redis, LANE) == 2
    assert tickets.wake(redis, LANE) == 0
    assert calls.run(redis, calls.heartbeat("w2", LANE, {})) == 2
    redis.lpop(key("rq", "queue", LANE))
    claim = calls.run(redis, calls.claim(LANE, "w1", "n1"))
    assert claim is not None
    assert claim.missing_tickets == 3
    calls.run(redis, calls.leave("w1", LANE))
    calls.run(redis, calls.leave("w2", LANE))
    assert calls.run(redis, calls.lane_state(LANE)).missing_tickets == 0


def check(redis: Redis, examples: int, steps: int) -> None:
    Scripts.redis = redis
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks
    )
    run_state_machine_as_test(Scripts, settings=chosen)


def test_scripts_do_what_the_model_says(redis: Redis) -> None:
    check(redis, examples=200, steps=50)


@pytest.mark.slow
def test_scripts_do_what_the_model_says_at_length(redis: Redis) -> None:
    check(redis, examples=2000, steps=80)
