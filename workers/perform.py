"""From a ticket to a finished job: claim, run the handler, say how it ended."""

from __future__ import annotations

import logging
import time

from redis import Redis

from service.jobs import calls, tickets
from service.jobs.connection import connect
from service.jobs.records import Claim
from service.logs import about
from service.versions import ENGINE_VERSION, NUMERICS_VERSION
from workers.attempt import Attempt, Timing, timeout_message
from workers.context import WorkerContext
from workers.failures import JobError, explain
from workers.handlers import find_handler
from workers.resume import all_points, is_usable
from workers.stop import Reason, Stop

log = logging.getLogger(__name__)

SPACE_PAUSE_S = 60.0
OTHER_NUMERICS = (
    f"Checkpoints of other numerics than version {NUMERICS_VERSION} are passed over: resume was not 'any'."
)


def perform_next(context: WorkerContext, nonce: str) -> None:
    """Claims the lane's next job and performs it to whatever end. ``nonce`` is new for each ticket."""
    settings = context.settings
    with connect(settings.redis_url) as redis:
        call = calls.claim(
            context.lane,
            context.worker,
            nonce,
            settings.lease_ms,
            engine_version=ENGINE_VERSION,
            numerics_version=NUMERICS_VERSION,
        )
        claim = calls.run(redis, call)
        if claim is not None:
            tickets.push(redis, context.lane, claim.missing_tickets)
            perform(context, redis, claim)


def perform(context: WorkerContext, redis: Redis, claim: Claim) -> None:
    """Runs the job's handler under its lease and reports the outcome."""
    settings = context.settings
    flush_s = settings.quick_flush_s if claim.job.ephemeral else settings.flush_s
    timing = Timing(flush_s, settings.renew_s, settings.grace_s, settings.stall_s)
    log.info("job %s: attempt %d", claim.job.id, claim.token)
    points = all_points(redis, claim.job)
    usable = [each for each in points if is_usable(each, claim.job)]
    with (
        about(job=claim.job.id, attempt=claim.token),
        Attempt(redis, claim, usable, timing, context.stop) as attempt,
    ):
        if len(usable) < len(points):
            attempt.log("warning", OTHER_NUMERICS)
        try:
            outcome = find_handler(claim.job.kind)(attempt, context.store)
        except Stop as stop:
            end_early(attempt, redis, stop.reason)
        except Exception as error:
            log_failure(claim.job.id, error)
            end_failed(attempt, redis, error)
        else:
            attempt.finish("succeeded", result=outcome.result, model=outcome.model)


def log_failure(job_id: str, error: Exception) -> None:
    """What the job itself is to blame for needs one line; anything else a trace."""
    if isinstance(error, JobError):
        log.info("job %s failed: %s: %s", job_id, error.code, error)
    else:
        log.error("job %s failed", job_id, exc_info=error)


def end_early(attempt: Attempt, redis: Redis, reason: Reason) -> None:
    """Does what the order that ended the attempt asks for."""
    log.info("job %s: stopped by %s", attempt.job.id, reason.value)
    if reason is Reason.CANCEL:
        attempt.finish("cancelled")
    elif reason is Reason.TIMEOUT:
        attempt.finish("failed", code="timeout", message=timeout_message(attempt.job.timeout_s))
    elif reason is not Reason.FENCED:
        give_back(attempt, redis, reason.value)


def end_failed(attempt: Attempt, redis: Redis, error: Exception) -> None:
    """Fails the job, or gives it back when another attempt may do better."""
    failure = explain(error)
    attempt.log("error", failure.message)
    if failure.final:
        attempt.finish("failed", code=failure.code, message=failure.message)
    else:
        try:
            if failure.code == "no-space":
                wait_for_space(attempt)
            give_back(attempt, redis, "crash", failure.code, failure.message)
        except Stop as stop:
            end_early(attempt, redis, stop.reason)


def wait_for_space(attempt: Attempt) -> None:
    """Keeps the job for a while, so that a full disk does not use up its attempts at once. Raises Stop."""
    attempt.log("info", f"waits {SPACE_PAUSE_S:g} s for space")
    end = time.monotonic() + SPACE_PAUSE_S
    while time.monotonic() < end:
        attempt.check()
        time.sleep(0.1)


def give_back(attempt: Attempt, redis: Redis, reason: str, code: str = "", message: str = "") -> None:
    """Releases the job and wakes the lane for it."""
    released = attempt.release(reason, code, message)
    tickets.push(redis, released.lane, released.missing_tickets)
