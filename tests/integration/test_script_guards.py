"""Each guard of a script alone: what it refuses, and what it leaves as it was.

Together they are tested by test_scripts_model; here each has the test that fails without it (see mutations).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from service.embedded import EmbeddedServer
from service.ids import new_id
from service.jobs import calls
from service.jobs.connection import connect
from service.jobs.models import set_alias
from service.jobs.records import Segment, checkpoints, flat, job_record, key, segments

LANE = "cpu-batch"
LOG = ("log", {"message": "x"})


class Store:
    """The calls, on an empty store; every claim is of a worker of its own unless one is named."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self._numbers = itertools.count(1)

    def accept(self, *, idempotency: str = "", body: str = "", **new: Any) -> calls.Accepted:
        job = calls.NewJob(**{"id": new_id("job"), "kind": "train", "lane": LANE, "spec": {}, **new})
        return calls.run(self.redis, calls.accept(job, idempotency=idempotency, body_sha=body))

    def queued(self, **new: Any) -> str:
        accepted = self.accept(**new)
        assert accepted.outcome == "accepted"
        return accepted.job

    def claim(self, worker: str = "", nonce: str = "") -> Any:
        number = next(self._numbers)
        call = calls.claim(LANE, worker or f"worker-{number}", nonce or f"nonce-{number}", 3_600_000)
        return calls.run(self.redis, call)

    def running(self, **new: Any) -> tuple[str, int]:
        self.queued(**new)
        claim = self.claim()
        return claim.job.id, claim.token

    def superseded(self) -> tuple[str, int]:
        """A job and the token of a worker that has lost it to another one."""
        job, token = self.running()
        self.expire_lease(job)
        assert self.run(calls.sweep()) == [(job, "queued")]
        assert self.claim().job.id == job
        return job, token

    def expire_lease(self, job: str) -> None:
        self.redis.zadd(key("leases"), {job: 1})

    def run(self, call: calls.Call[Any]) -> Any:
        return calls.run(self.redis, call)

    def job(self, job: str) -> Any:
        fields: Any = self.redis.hgetall(key("job", job))
        return job_record(flat([part for pair in fields.items() for part in pair]))

    def state(self, job: str) -> str:
        state: str = self.job(job).state
        return state

    def log(self, job: str) -> list[tuple[str, Any]]:
        entries: Any = self.redis.xrange(key("job", job, "events"))
        return [(fields[b"type"].decode(), json.loads(fields[b"data"])) for _, fields in entries]

    def said(self, job: str) -> list[str]:
        return [data["message"] for type_, data in self.log(job) if type_ == "log"]

    def steps(self, job: str) -> dict[int, bool]:
        """The job's checkpoints, and whether they are whole."""
        manifests = checkpoints(self.redis.hgetall(key("job", job, "checkpoints")))
        return {each["step"]: "optimizer" in each for each in manifests}

    def save(self, job: str, token: int, step: int, **more: Any) -> str:
        manifest = {"step": step, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}, **more}
        verb: str = self.run(calls.checkpoint(job, token, manifest))
        return verb


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("guards")) as running:
        yield running


@pytest.fixture
def store(server: EmbeddedServer) -> Iterator[Store]:
    with connect(server.url) as redis:
        redis.flushall()
        yield Store(redis)


# accept ----------------------------------------------------------------------------------------------------


def test_an_accept_that_is_sent_again_makes_no_second_job(store: Store) -> None:
    job = new_id("job")
    assert store.queued(id=job) == store.queued(id=job) == job
    assert len(store.log(job)) == 1


def test_a_key_with_the_same_body_names_the_job_that_is_there(store: Store) -> None:
    first = store.queued(idempotency="k", body="b")
    again = store.accept(idempotency="k", body="b")
    assert (again.outcome, again.job) == ("replayed", first)


def test_a_key_with_another_body_is_a_conflict(store: Store) -> None:
    store.queued(idempotency="k", body="b")
    assert store.accept(idempotency="k", body="other").outcome == "conflict"


def test_the_key_of_a_deleted_job_is_free(store: Store) -> None:
    job = store.queued(idempotency="k", body="b")
    store.run(calls.cancel(job))
    store.run(calls.remove(job))
    assert store.accept(idempotency="k", body="b").outcome == "accepted"


@pytest.mark.parametrize("limit", ["queued", "running", "bytes"])
def test_an_owner_stays_within_its_limits(store: Store, limit: str) -> None:
    limits = calls.Limits(**{"queued": 0, "running": 0, "bytes": 0, limit: 1})

    def ask(owner: str) -> str:
        new = calls.NewJob(new_id("job"), "train", LANE, {}, owner=owner)
        outcome: str = store.run(calls.accept(new, limits=limits)).outcome
        return outcome

    assert ask("ann") == "accepted"
    if limit == "bytes":
        store.run(calls.keep_file(new_id("file"), {"owner": "ann", "bytes": 1}))
    second = ask("ann")
    assert second == {"queued": "quota", "running": "accepted", "bytes": "space"}[limit]
    assert ask("bob") == "accepted"
    if limit == "running":
        assert [store.claim().job.owner for _ in range(2)] == ["ann", "bob"]
        assert store.claim() is None


# claim -----------------------------------------------------------------------------------------------------


def test_a_claim_that_is_sent_again_takes_no_second_job(store: Store) -> None:
    store.queued()
    store.queued()
    first, again = store.claim("w", "n"), store.claim("w", "n")
    assert (first.job.id, first.token) == (again.job.id, again.token)
    assert store.claim("w", "other").job.id != first.job.id


def test_a_job_is_claimed_once(store: Store) -> None:
    store.queued()
    assert store.claim() is not None
    assert store.claim() is None


def test_higher_priorities_go_first(store: Store) -> None:
    jobs = {priority: store.queued(priority=priority) for priority in (0, 10, -10, 1)}
    assert [store.claim().job.id for _ in jobs] == [jobs[each] for each in (10, 1, 0, -10)]


def test_owners_take_turns(store: Store) -> None:
    for owner in ("ann", "ann", "ann", "bob", "bob"):
        store.queued(owner=owner)
    assert [store.claim().job.owner for _ in range(5)] == ["ann", "bob", "ann", "bob", "ann"]


def test_turns_are_kept_across_priorities(store: Store) -> None:
    """Who was served in one priority waits in the others."""
    store.queued(owner="ann", priority=1)
    store.queued(owner="ann")
    store.queued(owner="bob")
    assert [store.claim().job.owner for _ in range(3)] == ["ann", "bob", "ann"]


def test_each_claim_has_a_higher_token(store: Store) -> None:
    job, token = store.running()
    store.run(calls.release(job, token, "shutdown"))
    assert store.claim().token == token + 1


# The token -------------------------------------------------------------------------------------------------


def test_a_worker_that_lost_its_job_appends_nothing(store: Store) -> None:
    job, token = store.superseded()
    assert store.run(calls.append(job, token, 0, [LOG])).verb == "fenced"
    assert store.said(job) == []


def test_a_worker_that_lost_its_job_renews_no_lease(store: Store) -> None:
    job, token = store.superseded()
    store.expire_lease(job)
    store.run(calls.append(job, token, 0, []))
    assert store.run(calls.sweep()) == [(job, "queued")]


def test_a_worker_that_lost_its_job_stores_no_checkpoint(store: Store) -> None:
    job, token = store.superseded()
    assert store.save(job, token, 5) == "fenced"
    assert store.steps(job) == {}


def test_a_worker_that_lost_its_job_releases_nothing(store: Store) -> None:
    job, token = store.superseded()
    assert store.run(calls.release(job, token, "crash")).outcome == "fenced"
    assert store.state(job) == "running"


def test_a_worker_that_lost_its_job_publishes_no_result(store: Store) -> None:
    job, token = store.superseded()
    assert store.run(calls.finish(job, token, "succeeded", result={"x": 1})) == "fenced"
    assert (store.state(job), store.job(job).result) == ("running", None)


def test_nothing_is_appended_to_a_job_that_waits(store: Store) -> None:
    """Its last token is still the highest."""
    job, token = store.running()
    store.run(calls.release(job, token, "shutdown"))
    assert store.run(calls.append(job, token, 0, [LOG])).verb == "fenced"


# append ----------------------------------------------------------------------------------------------------


def test_events_that_are_sent_again_are_skipped(store: Store) -> None:
    job, token = store.running()
    one, two, three = (("log", {"message": text}) for text in "abc")
    store.run(calls.append(job, token, 0, [one, two]))
    answer = store.run(calls.append(job, token, 1, [two, three]))
    assert (answer.verb, answer.appended) == ("go", 3)
    assert store.said(job) == ["a", "b", "c"]


def test_events_that_never_came_are_a_gap(store: Store) -> None:
    job, token = store.running()
    answer = store.run(calls.append(job, token, 2, [LOG]))
    assert (answer.verb, answer.appended) == ("gap", 0)
    assert store.said(job) == []
    assert store.run(calls.finish(job, token, "succeeded", first=2, events=[LOG])) == "gap"
    assert store.state(job) == "running"


def test_an_append_keeps_the_lease(store: Store) -> None:
    job, token = store.running()
    store.expire_lease(job)
    store.run(calls.append(job, token, 0, []))
    assert store.run(calls.sweep()) == []


def test_a_new_attempt_counts_its_events_anew(store: Store) -> None:
    job, token = store.running()
    store.run(calls.append(job, token, 0, [LOG, LOG]))
    store.run(calls.release(job, token, "shutdown"))
    claim = store.claim()
    assert store.run(calls.append(job, claim.token, 0, [LOG])).appended == 1
    assert len(store.said(job)) == 3


# checkpoint ------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_sent_again_is_told_once(store: Store) -> None:
    job, token = store.running()
    assert [store.save(job, token, 5) for _ in range(2)] == ["go", "go"]
    assert [type_ for type_, _ in store.log(job)].count("checkpoint") == 1


def test_the_last_two_checkpoints_the_best_and_the_sampled_are_kept(store: Store) -> None:
    job, token = store.running()
    more: dict[int, dict[str, Any]] = {1: {"val_loss": 1.0}, 2: {"val_loss": 2.0, "sample": True}}
    for step in range(1, 6):
        store.save(job, token, step, **more.get(step, {}))
    assert store.steps(job) == {1: True, 2: False, 4: True, 5: True}


def test_of_equal_losses_the_earlier_checkpoint_is_the_best(store: Store) -> None:
    job, token = store.running()
    for step in range(1, 5):
        store.save(job, token, step, val_loss=1.0)
    assert store.steps(job) == {1: True, 3: True, 4: True}


def test_what_lies_beyond_a_new_checkpoint_is_not_restored(store: Store) -> None:
    """The attempt could not use it, and goes another way from here."""
    job, token = store.running()
    store.save(job, token, 10)
    store.save(job, token, 5)
    assert store.steps(job) == {5: True}


def test_weights_alone_do_not_count_among_the_last_two(store: Store) -> None:
    job, token = store.running()
    for step in (4, 6, 3, 5):
        store.save(job, token, step, sample=step == 4)
    assert store.steps(job) == {3: True, 4: False, 5: True}


def test_a_stream_is_not_trimmed_beyond_its_segments(store: Store) -> None:
    job, token = store.running()
    store.run(calls.append(job, token, 0, [LOG] * 8))  # after the two events of its states
    manifest = {"step": 1, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}}
    store.run(calls.checkpoint(job, token, manifest, Segment(1, 4, "b"), events_kept=1))
    assert [int(entry.partition(b"-")[0]) for entry, _ in entries_of(store, job)] == list(range(5, 12))


def test_a_stream_keeps_as_many_events_as_it_shall(store: Store) -> None:
    job, token = store.running()
    store.run(calls.append(job, token, 0, [LOG] * 8))
    manifest = {"step": 1, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}}
    store.run(calls.checkpoint(job, token, manifest, Segment(1, 10, "b"), events_kept=5))
    assert [int(entry.partition(b"-")[0]) for entry, _ in entries_of(store, job)] == [7, 8, 9, 10, 11]


def test_a_segment_is_stored_once(store: Store) -> None:
    job, token = store.running()
    manifest = {"step": 1, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}}
    for _ in range(2):
        store.run(calls.checkpoint(job, token, manifest, Segment(1, 2, "b")))
    assert segments(store.redis.lrange(key("job", job, "segments"), 0, -1)) == [Segment(1, 2, "b")]


def entries_of(store: Store, job: str) -> Any:
    return store.redis.xrange(key("job", job, "events"))


# release, finish -------------------------------------------------------------------------------------------


def test_a_release_that_is_sent_again_changes_nothing(store: Store) -> None:
    job, token = store.running()
    assert store.run(calls.release(job, token, "crash")).outcome == "queued"
    assert store.run(calls.release(job, token, "crash")).outcome == "already"
    assert store.job(job).failures == 1


def test_a_shutdown_costs_no_attempt_and_a_crash_does(store: Store) -> None:
    job, token = store.running(max_attempts=2)
    store.run(calls.release(job, token, "shutdown"))
    assert store.job(job).failures == 0
    for state in ("queued", "failed"):
        token = store.claim().token
        assert store.run(calls.release(job, token, "crash", "bug", "It broke.")).outcome == state
    assert store.job(job).error == {"code": "bug", "message": "It broke."}


@pytest.mark.parametrize("reason", ["shutdown", "pause", "crash"])
def test_a_job_that_is_being_cancelled_ends_when_its_worker_gives_it_back(store: Store, reason: str) -> None:
    job, token = store.running()
    store.run(calls.cancel(job))
    assert store.run(calls.release(job, token, reason)).outcome == "cancelled"
    assert store.claim() is None


@pytest.mark.parametrize("reason", ["shutdown", "crash"])
def test_a_wish_to_pause_outlives_the_worker(store: Store, reason: str) -> None:
    job, token = store.running()
    store.run(calls.pause(job))
    assert store.run(calls.release(job, token, reason)).outcome == "paused"


def test_a_finish_that_is_sent_again_changes_nothing(store: Store) -> None:
    job, token = store.running()
    assert store.run(calls.finish(job, token, "succeeded", result={"x": 1}, events=[LOG])) == "succeeded"
    assert store.run(calls.finish(job, token, "succeeded", result={"x": 1}, events=[LOG])) == "already"
    assert len(store.said(job)) == 1


def test_a_job_that_succeeded_never_becomes_failed_later(store: Store) -> None:
    job, token = store.running()
    store.run(calls.finish(job, token, "succeeded"))
    before = store.job(job)
    assert store.run(calls.finish(job, token, "failed", code="late", message="")) == "already"
    assert store.run(calls.release(job, token, "crash")).outcome == "fenced"
    assert store.run(calls.append(job, token, 0, [LOG])).verb == "fenced"
    store.expire_lease(job)
    assert store.run(calls.sweep()) == []
    for ask in (calls.cancel, calls.pause, calls.resume):
        assert store.run(ask(job)).state == "succeeded"
    assert store.job(job) == before


def test_nobody_but_the_user_cancels(store: Store) -> None:
    job, token = store.running()
    assert store.run(calls.finish(job, token, "cancelled")) == "refused"
    assert store.state(job) == "running"


def test_what_succeeded_before_it_heard_of_its_cancellation_has_succeeded(store: Store) -> None:
    job, token = store.running()
    store.run(calls.cancel(job))
    assert store.run(calls.finish(job, token, "succeeded")) == "succeeded"


def test_a_model_is_published_with_the_result_or_not_at_all(store: Store) -> None:
    job, token = store.superseded()
    model = calls.Model(new_id("model"), {"owner": "local"}, "bard")
    store.run(calls.finish(job, token, "succeeded", model=model))
    assert store.redis.exists(key("model", model.id), key("aliases", "*")) == 0
    store.run(calls.finish(job, store.job(job).attempt, "succeeded", model=model))
    assert store.redis.hget(key("aliases", "*"), "bard") == model.id.encode()


# cancel, pause, resume, remove -----------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
def test_a_job_that_waits_is_cancelled_at_once_and_never_starts(store: Store, paused: bool) -> None:
    job = store.queued()
    if paused:
        store.run(calls.pause(job))
    assert store.run(calls.cancel(job)) == calls.Changed("cancelled", True)
    assert store.claim() is None


def test_a_running_job_is_cancelled_when_its_worker_confirms(store: Store) -> None:
    job, token = store.running()
    assert store.run(calls.cancel(job)) == calls.Changed("cancelling", True)
    assert store.run(calls.cancel(job)) == calls.Changed("cancelling", False)
    assert store.run(calls.append(job, token, 0, [])).verb == "cancel"
    assert store.run(calls.finish(job, token, "cancelled")) == "cancelled"
    assert store.run(calls.cancel(job)) == calls.Changed("cancelled", False)


def test_a_paused_job_is_not_claimed(store: Store) -> None:
    job = store.queued()
    store.run(calls.pause(job))
    assert store.claim() is None
    assert store.run(calls.resume(job)).state == "queued"
    assert store.claim().job.id == job


def test_a_wish_to_pause_is_told_once_and_can_be_withdrawn(store: Store) -> None:
    job, token = store.running()
    store.run(calls.pause(job))
    events = len(store.log(job))
    store.run(calls.pause(job))
    assert len(store.log(job)) == events
    assert store.run(calls.append(job, token, 0, [])).verb == "pause"
    store.run(calls.resume(job))
    assert store.run(calls.append(job, token, 0, [])).verb == "go"


def test_only_jobs_that_have_ended_are_deleted(store: Store) -> None:
    job, token = store.running()
    assert store.run(calls.remove(job)) == calls.Changed("running", False)
    store.run(calls.finish(job, token, "succeeded"))
    assert store.run(calls.remove(job)) == calls.Changed("succeeded", True)
    assert store.run(calls.remove(job)) is None
    assert store.redis.keys(key("job", "*")) == []
    assert store.redis.keys(key("jobs", "*")) == []


# sweep -----------------------------------------------------------------------------------------------------


def test_only_leases_that_are_over_are_swept(store: Store) -> None:
    gone, _ = store.running()
    store.running()
    store.expire_lease(gone)
    assert store.run(calls.sweep()) == [(gone, "queued")]
    assert store.run(calls.sweep()) == []


def test_a_job_is_lost_as_often_as_it_may_be(store: Store) -> None:
    job, _ = store.running(max_attempts=2)
    for state in ("queued", "failed"):
        store.expire_lease(job)
        assert store.run(calls.sweep()) == [(job, state)]
        store.claim()
    assert store.job(job).error["code"] == "worker-lost"


def test_a_lease_of_a_job_that_does_not_run_is_forgotten(store: Store) -> None:
    job = store.queued()
    store.expire_lease(job)
    assert store.run(calls.sweep()) == []
    assert store.redis.zcard(key("leases")) == 0
    assert store.state(job) == "queued"


def test_an_ephemeral_job_disappears_after_its_end_and_not_before(store: Store) -> None:
    job, token = store.running(ephemeral=True)
    assert store.redis.ttl(key("job", job)) == -1
    store.run(calls.finish(job, token, "succeeded", events=[LOG]))
    for part in ((), ("events",)):
        assert 0 < store.redis.ttl(key("job", job, *part)) <= 600
    assert store.redis.keys(key("jobs", "*")) == []


def test_an_upload_that_is_sent_again_counts_once(store: Store) -> None:
    call = calls.keep_file(new_id("file"), {"owner": "ann", "bytes": 5}, 9)
    assert [store.run(call) for _ in range(2)] == [calls.Kept(True, 5)] * 2
    assert store.redis.hget(key("usage", "ann"), "bytes") == b"5"


def test_an_alias_names_only_a_model_that_is_there(store: Store) -> None:
    """It may have been deleted since the request was checked."""
    assert not store.run(set_alias("bard", new_id("model")))
    assert store.redis.exists(key("aliases", "*")) == 0


# What a dead horse held ------------------------------------------------------------------------------------


def test_a_parent_gives_back_only_what_its_worker_still_holds(store: Store) -> None:
    store.queued()
    claim = store.claim("w")
    assert store.run(calls.held("w")) == calls.Held(claim.job.id, claim.token, "running", "go")
    store.expire_lease(claim.job.id)
    store.run(calls.sweep())
    store.claim("other")
    assert store.run(calls.held("w")) is None
