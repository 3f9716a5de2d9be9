"""The Lua scripts against a model: random interleavings of several workers, re-sent calls and lost leases.

Calls run with the server's own clock. A lease is over when the test moves its end into the past.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from job_model import HELD, TERMINAL, Event, Model, ModelJob
from redis import Redis

from service.embedded import EmbeddedServer
from service.ids import new_id
from service.jobs import calls, tickets
from service.jobs.connection import connect
from service.jobs.listing import Wanted, list_jobs
from service.jobs.records import STATES, flat, job_record, key
from workers.resume import starting_points

LANE = "cpu-batch"
LEASE_MS = 3_600_000  # never over by itself
MOST_QUEUED = 2
LIMITS = {"ann": calls.Limits(MOST_QUEUED, 0, 0), "bob": calls.Limits(MOST_QUEUED, 1, 0)}
MOST_OPEN = 4  # jobs that have not ended, so that each gets far

STALE = st.sampled_from([False, False, True])
SELDOM = st.sampled_from([False, False, False, True])
NUMBER = st.integers(0, 9)
WORKERS = st.sampled_from(["w1", "w2", "w3"])
PRIORITIES = st.integers(-1, 1)
MAX_ATTEMPTS = st.integers(1, 3)
OWNERS = st.sampled_from(["ann", "bob"])
EVENTS: st.SearchStrategy[list[Event]] = st.lists(
    st.one_of(
        st.tuples(st.just("log"), st.fixed_dictionaries({"message": st.text(max_size=4)})),
        st.tuples(
            st.just("metric"), st.fixed_dictionaries({"steps": st.lists(st.integers(0, 9), max_size=2)})
        ),
        st.tuples(
            st.just("progress"), st.fixed_dictionaries({"step": st.integers(0, 9), "steps": st.just(9)})
        ),
    ),
    max_size=3,
)


def manifest(step: int) -> dict[str, Any]:
    return {"step": step, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}}


class Scripts(RuleBasedStateMachine):
    """Every rule runs a call and the model, and compares their answers."""

    redis: Redis  # set by the test
    jobs: Bundle[ModelJob] = Bundle("jobs")

    @initialize(
        target=jobs,
        made=st.lists(st.tuples(OWNERS, PRIORITIES, MAX_ATTEMPTS), min_size=2, max_size=4),
        claims=st.lists(WORKERS, min_size=1, max_size=3),
    )
    def start(self, made: list[tuple[str, int, int]], claims: list[str]) -> Any:
        """Some jobs, and some of them claimed, so that short examples get somewhere."""
        self.redis.flushall()
        self.model = Model({owner: limits.running for owner, limits in LIMITS.items()})
        self.accepted: dict[str, calls.Call[calls.Accepted]] = {}
        self.nonces: dict[str, tuple[str, tuple[str, int]]] = {}
        self.counter = 0
        self.checked: dict[str, tuple[str, int]] = {}
        found = [self.accept_one(*each, "", "b1") for each in made]
        for worker in claims:
            self.claim_one(worker)
        return multiple(*(job for job in found if job is not None))

    def run(self, call: calls.Call[Any]) -> Any:
        return calls.run(self.redis, call)

    # Jobs ------------------------------------------------------------------------------------------------

    @precondition(lambda self: sum(job.state not in TERMINAL for job in self.model.jobs.values()) < MOST_OPEN)
    @rule(
        target=jobs,
        owner=OWNERS,
        priority=PRIORITIES,
        max_attempts=MAX_ATTEMPTS,
        idempotency=st.sampled_from(["", "", "k1", "k2"]),
        body=st.sampled_from(["b1", "b2"]),
    )
    def accept(self, owner: str, priority: int, max_attempts: int, idempotency: str, body: str) -> Any:
        job = self.accept_one(owner, priority, max_attempts, idempotency, body)
        return multiple() if job is None else job

    def accept_one(
        self, owner: str, priority: int, max_attempts: int, idempotency: str, body: str
    ) -> ModelJob | None:
        new = ModelJob(new_id("job"), owner, priority, 0, max_attempts)
        chosen = {"owner": owner, "priority": priority, "max_attempts": max_attempts}
        call = calls.accept(
            calls.NewJob(new.id, "train", LANE, {}, **chosen),  # type: ignore[arg-type]
            idempotency=idempotency,
            body_sha=body,
            limits=LIMITS[owner],
        )
        answer = self.run(call)
        assert (answer.outcome, answer.job) == self.model.accept(new, idempotency, body, MOST_QUEUED)
        if answer.job != new.id:
            return None
        self.accepted[new.id] = call
        assert answer.place == self.model.place(new)
        return new

    @rule(
        job=jobs, what=st.sampled_from(["cancel", "pause", "resume", "cancel", "pause", "resume", "accept"])
    )
    def ask(self, job: ModelJob, what: str) -> None:
        if what == "accept":  # sent again
            answer = self.run(self.accepted[job.id])
            assert (answer.outcome, answer.job) == ("accepted", job.id)
        elif what == "cancel":
            before = job.state
            assert self.run(calls.cancel(job.id)) == calls.Changed(
                self.model.cancel(job), job.state != before
            )
        else:
            answer = self.run({"pause": calls.pause, "resume": calls.resume}[what](job.id))
            state = {"pause": self.model.pause, "resume": self.model.resume}[what](job)
            allowed = {"pause": ("paused", "running"), "resume": ("queued", "running")}[what]
            assert (answer.state, answer.done) == (state, state in allowed)

    # Attempts --------------------------------------------------------------------------------------------

    def pick(self, stale: bool, number: int) -> tuple[ModelJob, int] | None:
        """One of the attempts that hold their job, or of those that don't."""
        all_ = [(job, each.token) for job in self.model.jobs.values() for each in job.attempts]
        wanted = [(job, token) for job, token in all_ if job.is_current(token) != stale] or all_
        return wanted[number % len(wanted)] if wanted else None

    @rule(worker=WORKERS)
    def claim(self, worker: str) -> None:
        self.claim_one(worker)

    def claim_one(self, worker: str) -> None:
        self.counter += 1
        nonce = f"n{self.counter}"
        claim = self.run(calls.claim(LANE, worker, nonce, LEASE_MS))
        job = self.model.claim(worker)
        if job is None:
            assert claim is None
            return
        assert claim is not None
        assert (claim.job.id, claim.token, claim.job.worker) == (job.id, job.token, worker)
        kept = [each["step"] for each in starting_points(self.redis, claim.job)]
        assert kept == sorted(job.checkpoints, reverse=True)
        self.nonces[worker] = nonce, (job.id, job.token)

    @rule(worker=WORKERS)
    def claim_again(self, worker: str) -> None:
        if worker in self.nonces:
            nonce, expected = self.nonces[worker]
            claim = self.run(calls.claim(LANE, worker, nonce, LEASE_MS))
            assert (claim.job.id, claim.token) == expected

    @rule(stale=STALE, number=NUMBER, events=EVENTS, again=st.integers(0, 2), lost=SELDOM)
    def append(self, stale: bool, number: int, events: list[Event], again: int, lost: bool) -> None:
        """Sends up to ``again`` events a second time, or leaves one out that never came."""
        if (attempt := self.pick(stale, number)) is None:
            return
        job, token = attempt
        said = job.attempts[token - 1].said
        first = len(said) + 1 if lost else max(0, len(said) - again)
        sent = [*said[first:], *events]
        answer = self.run(calls.append(job.id, token, first, sent))
        assert answer.verb == self.model.append(job, token, first, sent)
        if answer.verb not in ("fenced", "gap"):
            assert (answer.appended, answer.seq) == (len(said), len(job.events))

    @rule(stale=STALE, number=NUMBER, step=st.integers(1, 5))
    def checkpoint(self, stale: bool, number: int, step: int) -> None:
        if (attempt := self.pick(stale, number)) is not None:
            job, token = attempt
            verb = self.run(calls.checkpoint(job.id, token, manifest(step)))
            assert verb == self.model.checkpoint(job, token, step)

    @rule(stale=STALE, number=NUMBER, reason=st.sampled_from(["shutdown", "pause", "crash", "crash"]))
    def release(self, stale: bool, number: int, reason: str) -> None:
        if (attempt := self.pick(stale, number)) is not None:
            job, token = attempt
            answer = self.run(calls.release(job.id, token, reason, "crash", "It broke."))
            assert answer.outcome == self.model.release(job, token, reason)

    @rule(
        stale=STALE,
        number=NUMBER,
        outcome=st.sampled_from(["succeeded", "failed", "cancelled"]),
        events=EVENTS,
        again=st.integers(-1, 1),
    )
    def finish(self, stale: bool, number: int, outcome: str, events: list[Event], again: int) -> None:
        if (attempt := self.pick(stale, number)) is None:
            return
        job, token = attempt
        said = job.attempts[token - 1].said
        first = max(0, len(said) - again)
        sent = [*said[first:], *events]
        call = calls.finish(
            job.id,
            token,
            outcome,
            result={"x": 1},
            code="some-code",
            message="Why.",
            first=first,
            events=sent,
        )
        assert self.run(call) == self.model.finish(job, token, outcome, first, sent)

    @rule(worker=WORKERS)
    def held(self, worker: str) -> None:
        held = self.run(calls.held(worker))
        last = self.nonces.get(worker)
        job = self.model.jobs[last[1][0]] if last else None
        if job is None or last is None or not job.is_current(last[1][1]):
            assert held is None
        else:
            assert held == calls.Held(job.id, job.token, job.state, job.verb())

    # Time ------------------------------------------------------------------------------------------------

    @rule(number=NUMBER)
    def lease_runs_out(self, number: int) -> None:
        attempt = self.pick(False, number)
        if attempt is not None and attempt[0].state in HELD:
            job, _ = attempt
            self.redis.zadd(key("leases"), {job.id: 1})
            self.model.expired.add(job.id)

    @rule()
    def sweep(self) -> None:
        assert set(self.run(calls.sweep())) == self.model.sweep()

    # What always holds -----------------------------------------------------------------------------------

    @invariant()
    def records_and_logs_agree(self) -> None:
        """After every step for the jobs that the model changed, at the end for all."""
        for job in self.model.jobs.values():
            if self.checked.get(job.id) != (job.state, len(job.events)):
                self.record_agrees(job)
                self.checked[job.id] = (job.state, len(job.events))

    def teardown(self) -> None:
        for job in self.model.jobs.values():
            self.record_agrees(job)
        self.indexes_agree()

    def record_agrees(self, job: ModelJob) -> None:
        record = job_record(flat_hash(self.redis.hgetall(key("job", job.id))))
        assert (record.state, record.attempt, record.failures) == (job.state, job.token, job.failures)
        assert (record.pausing, record.seq) == (job.pausing, len(job.events))
        assert record.worker == (job.attempts[-1].worker if job.state in HELD else None)
        assert [(each.n, each.worker, each.outcome) for each in record.attempts] == [
            (each.token, each.worker, each.outcome) for each in job.attempts
        ]
        self.log_agrees(job)

    def log_agrees(self, job: ModelJob) -> None:
        entries: Any = self.redis.xrange(key("job", job.id, "events"))
        assert [entry for entry, _ in entries] == [b"%d-0" % (i + 1) for i in range(len(job.events))]
        for (_, fields), (type_, attempt, data) in zip(entries, job.events, strict=True):
            stored = json.loads(fields[b"data"])
            assert (fields[b"type"].decode(), int(fields[b"attempt"])) == (type_, attempt)
            assert {name: stored.get(name) for name in data} == data
        ends = [data for type_, _, data in job.events if type_ == "state" and data["state"] in TERMINAL]
        assert len(ends) == (job.state in TERMINAL)

    def indexes_agree(self) -> None:
        jobs = self.model.jobs.values()
        assert [name.decode() for name in self.redis.zrange(key("queue", LANE), 0, -1)] == [
            job.id for job in self.model.queued()
        ]
        for job in self.model.queued():
            assert self.run(calls.place(job.id)).place == self.model.place(job)
        held = {job.id for job in jobs if job.state in HELD}
        assert {name.decode() for name in self.redis.zrange(key("leases"), 0, -1)} == held
        for state in STATES:
            expected = sorted(job.id for job in jobs if job.state == state)
            call = list_jobs("*", Wanted(["train"], [state]), descending=False, limit=100)
            assert [job.id for job in self.run(call)] == expected
        for owner in ("ann", "bob"):
            usage = flat_hash(self.redis.hgetall(key("usage", owner)))
            for state in STATES:
                number = sum(job.owner == owner and job.state == state for job in jobs)
                assert int(usage.get(state, 0)) == (0 if state in TERMINAL else number)


def flat_hash(fields: dict[bytes, bytes]) -> dict[str, str]:
    return flat([part for pair in fields.items() for part in pair])


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
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
