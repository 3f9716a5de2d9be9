"""The state machine of the model-based test: calls of several workers and users in any order.

Calls run with the server's own clock. A lease is over when the test moves its end into the past; a worker
lives until it leaves.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from job_model import HELD, PART_BYTES, TERMINAL, Event, Model, ModelJob
from redis import Redis

from service.ids import new_id
from service.jobs import calls
from service.jobs.listing import Wanted, list_jobs
from service.jobs.records import STATES, Segment, checkpoints, flat, job_record, key, segments
from service.versions import NUMERICS_VERSION
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
NEW = st.fixed_dictionaries(
    {
        "owner": st.sampled_from(["ann", "bob"]),
        "priority": st.integers(-1, 1),
        "max_attempts": st.integers(1, 3),
        "ephemeral": SELDOM,
    }
)
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


EVENTS_KEPT = 3
FOR_LONG_MS = 3_600_000


def manifest(step: int, loss: float | None, sample: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "step": step,
        "weights": "w",
        "numerics_version": NUMERICS_VERSION,
        "optimizer": "o",
        "state": "s",
        "bytes": PART_BYTES,
    }
    return found | ({} if loss is None else {"val_loss": loss}) | ({"sample": True} if sample else {})


class Scripts(RuleBasedStateMachine):
    """Every rule runs a call and the model, and compares their answers."""

    redis: Redis  # set by the test
    jobs: Bundle[ModelJob] = Bundle("jobs")

    @initialize(
        target=jobs,
        made=st.lists(NEW, min_size=2, max_size=4),
        claims=st.lists(WORKERS, min_size=1, max_size=3),
    )
    def start(self, made: list[dict[str, Any]], claims: list[str]) -> Any:
        """Some jobs, and some of them claimed, so that short examples get somewhere."""
        self.redis.flushall()
        self.model = Model({owner: limits.running for owner, limits in LIMITS.items()})
        self.accepted: dict[str, calls.Call[calls.Accepted]] = {}
        self.nonces: dict[str, tuple[str, tuple[str, int]]] = {}
        self.counter = 0
        self.checked: dict[str, tuple[str, int]] = {}
        found = [self.accept_one(each, "", "b1") for each in made]
        for worker in claims:
            self.claim_one(worker)
        return multiple(*(job for job in found if job is not None))

    def run(self, call: calls.Call[Any]) -> Any:
        return calls.run(self.redis, call)

    # Jobs ------------------------------------------------------------------------------------------------

    @precondition(lambda self: sum(job.state not in TERMINAL for job in self.model.jobs.values()) < MOST_OPEN)
    @rule(
        target=jobs,
        new=NEW,
        idempotency=st.sampled_from(["", "", "k1", "k2"]),
        body=st.sampled_from(["b1", "b2"]),
    )
    def accept(self, new: dict[str, Any], idempotency: str, body: str) -> Any:
        job = self.accept_one(new, idempotency, body)
        return multiple() if job is None else job

    def accept_one(self, given: dict[str, Any], idempotency: str, body: str) -> ModelJob | None:
        new = ModelJob(id=new_id("job"), arrival=0, **given)
        call = calls.accept(
            calls.NewJob(new.id, "train", LANE, {}, **given),
            idempotency=idempotency,
            body_sha=body,
            limits=LIMITS[new.owner],
        )
        answer = self.run(call)
        assert (answer.outcome, answer.job) == self.model.accept(new, idempotency, body, MOST_QUEUED)
        if answer.job != new.id:
            return None
        self.accepted[new.id] = call
        assert (answer.place, answer.missing_tickets) == (self.model.place(new), self.model.missing())
        return new

    @rule(
        job=jobs,
        what=st.sampled_from(["cancel", "pause", "resume", "cancel", "pause", "resume", "accept", "remove"]),
    )
    def ask(self, job: ModelJob, what: str) -> None:
        if job in self.model.removed:
            if what != "accept":
                assert self.run(getattr(calls, what)(job.id)) is None
        elif what == "accept":  # sent again
            answer = self.run(self.accepted[job.id])
            assert (answer.outcome, answer.job) == ("accepted", job.id)
        elif what == "remove":
            assert self.run(calls.remove(job.id)) == calls.Changed(*self.model.remove(job))
        elif what == "cancel":
            before = job.state
            changed = calls.Changed(self.model.cancel(job), job.state != before)
            assert self.run(calls.cancel(job.id)) == changed
        else:
            answer = self.run({"pause": calls.pause, "resume": calls.resume}[what](job.id))
            state = {"pause": self.model.pause, "resume": self.model.resume}[what](job)
            allowed = {"pause": ("paused", "running"), "resume": ("queued", "running")}[what]
            assert (answer.state, answer.done) == (state, state in allowed)
            if what == "resume":
                assert answer.missing_tickets == self.model.missing()

    # Attempts --------------------------------------------------------------------------------------------

    def pick(self, stale: bool, number: int) -> tuple[ModelJob, int] | None:
        """One of the attempts that hold their job, or of those that don't."""
        all_ = [(job, each.token) for job in self.model.everything() for each in job.attempts]
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
        assert kept == sorted((step for step, each in job.checkpoints.items() if each.whole), reverse=True)
        assert (claim.stored_seq, claim.missing_tickets) == (job.stored, self.model.missing())
        self.nonces[worker] = nonce, (job.id, job.token)

    @rule(worker=WORKERS)
    def claim_again(self, worker: str) -> None:
        if worker in self.nonces and self.nonces[worker][1][0] in self.model.jobs:
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

    @rule(
        stale=STALE,
        number=NUMBER,
        made=st.tuples(st.integers(1, 5), st.sampled_from([None, 1.0, 2.0]), SELDOM),
        with_segment=st.booleans(),
    )
    def checkpoint(
        self, stale: bool, number: int, made: tuple[int, float | None, bool], with_segment: bool
    ) -> None:
        if (attempt := self.pick(stale, number)) is None:
            return
        job, token = attempt
        last = len(job.events)
        segment = Segment(job.stored + 1, last, "blob") if with_segment and last > job.stored else None
        call = calls.checkpoint(job.id, token, manifest(*made), segment, EVENTS_KEPT)
        verb = self.model.checkpoint(job, token, *made)
        assert self.run(call) == verb
        if segment is not None and verb != "fenced":
            self.model.store_segment(job, last, EVENTS_KEPT)

    @rule(stale=STALE, number=NUMBER, reason=st.sampled_from(["shutdown", "pause", "crash", "crash"]))
    def release(self, stale: bool, number: int, reason: str) -> None:
        if (attempt := self.pick(stale, number)) is not None:
            job, token = attempt
            answer = self.run(calls.release(job.id, token, reason, "crash", "It broke."))
            assert answer.outcome == self.model.release(job, token, reason)
            if answer.outcome not in ("already", "fenced"):
                assert answer.missing_tickets == self.model.missing()

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
        job = self.model.jobs.get(last[1][0]) if last else None
        if job is None or last is None or not job.is_current(last[1][1]):
            assert held is None
        else:
            assert held == calls.Held(job.id, job.token, job.state, job.verb())

    # Workers ---------------------------------------------------------------------------------------------

    @rule(worker=WORKERS, leaves=SELDOM)
    def worker_lives(self, worker: str, leaves: bool) -> None:
        if leaves:
            assert self.run(calls.leave(worker, LANE)) == (worker in self.model.live)
            self.model.live.discard(worker)
        else:
            self.model.live.add(worker)
            assert self.run(calls.heartbeat(worker, LANE, {})) == self.model.missing()
            self.redis.zincrby(key("workers", LANE), FOR_LONG_MS, worker)

    @rule(taken=st.booleans())
    def ticket_moves(self, taken: bool) -> None:
        """Somebody sends for a worker, or a worker takes a ticket."""
        if taken:
            self.model.tickets -= self.redis.lpop(key("rq", "queue", LANE)) is not None
        else:
            self.model.tickets += 1
            self.redis.rpush(key("rq", "queue", LANE), "ticket")

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
        self.checkpoints_agree(job)
        self.log_agrees(job)
        ends = job.ephemeral and job.state in TERMINAL
        assert (self.redis.ttl(key("job", job.id)) > 0) == ends

    def checkpoints_agree(self, job: ModelJob) -> None:
        manifests = checkpoints(self.redis.hgetall(key("job", job.id, "checkpoints")))
        assert [
            (each["step"], each["attempt"], "optimizer" in each, each.get("val_loss")) for each in manifests
        ] == [(step, each.attempt, each.whole, each.loss) for step, each in sorted(job.checkpoints.items())]
        stored = segments(self.redis.lrange(key("job", job.id, "segments"), 0, -1))
        ends = [0, *(each.last for each in stored)]
        assert [each.first for each in stored] == [last + 1 for last in ends[:-1]]
        assert ends[-1] == job.stored

    def log_agrees(self, job: ModelJob) -> None:
        entries: Any = self.redis.xrange(key("job", job.id, "events"))
        kept = job.events[job.first_kept - 1 :]
        assert [entry for entry, _ in entries] == [b"%d-0" % (job.first_kept + i) for i in range(len(kept))]
        for (_, fields), (type_, attempt, data) in zip(entries, kept, strict=True):
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
            assert self.run(calls.places([job.id]))[0].place == self.model.place(job)
        held = {job.id for job in jobs if job.state in HELD}
        assert {name.decode() for name in self.redis.zrange(key("leases"), 0, -1)} == held
        for state in STATES:
            expected = sorted(job.id for job in jobs if job.state == state and not job.ephemeral)
            call = list_jobs("*", Wanted(["train"], [state]), descending=False, limit=100)
            assert [job.id for job in self.run(call)] == expected
        for owner in ("ann", "bob"):
            usage = flat_hash(self.redis.hgetall(key("usage", owner)))
            for state in STATES:
                number = sum(job.owner == owner and job.state == state for job in jobs)
                assert int(usage.get(state, 0)) == (0 if state in TERMINAL else number)
            stored = [each.bytes for job in jobs if job.owner == owner for each in job.checkpoints.values()]
            assert int(usage.get("bytes", 0)) == sum(stored)
        lane = self.run(calls.lane_state(LANE))
        assert (lane.queued, lane.live_workers) == (len(self.model.queued()), len(self.model.live))
        for job in self.model.removed:
            assert self.redis.keys(key("job", job.id) + "*") == []


def flat_hash(fields: dict[bytes, bytes]) -> dict[str, str]:
    return flat([part for pair in fields.items() for part in pair])
