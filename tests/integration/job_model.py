"""What the scripts of the job model must do, in plain Python: the oracle of the model-based test."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

TERMINAL = {"succeeded", "failed", "cancelled"}
HELD = {"running", "cancelling"}

PART_BYTES = {"weights": 4, "optimizer": 2, "state": 1}

Event = tuple[str, dict[str, Any]]


@dataclass
class ModelAttempt:
    """One claim: who holds it and what it has said."""

    token: int
    worker: str
    said: list[Event] = field(default_factory=list)
    outcome: str | None = None


@dataclass(frozen=True)
class ModelCheckpoint:
    """What stands at a step: by whom, whether it can be restored, and why it may be kept."""

    attempt: int
    loss: float | None
    sample: bool
    whole: bool = True

    @property
    def bytes(self) -> int:
        return sum(PART_BYTES.values()) if self.whole else PART_BYTES["weights"]


@dataclass
class ModelJob:
    """A job as the rules of the design say it is."""

    id: str
    owner: str
    priority: int
    arrival: int
    max_attempts: int
    ephemeral: bool = False
    state: str = ""
    failures: int = 0
    pausing: bool = False
    attempts: list[ModelAttempt] = field(default_factory=list)
    events: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)  # type, attempt, data
    checkpoints: dict[int, ModelCheckpoint] = field(default_factory=dict)  # by step
    stored: int = 0  # the last event in a segment
    first_kept: int = 1  # event of the stream
    released: int = 0
    finished: int = 0

    @property
    def token(self) -> int:
        return len(self.attempts)

    def emit(self, type_: str, data: dict[str, Any]) -> None:
        self.events.append((type_, self.token, data))

    def move(self, state: str, **detail: Any) -> None:
        self.state = state
        self.emit("state", {"state": state, **detail})

    def is_current(self, token: int) -> bool:
        return token == self.token and self.state in HELD

    def verb(self) -> str:
        return "cancel" if self.state == "cancelling" else "pause" if self.pausing else "go"

    def say(self, first: int, events: list[Event]) -> bool:
        """Adds the events that are new; False when some before ``first`` never came."""
        said = self.attempts[-1].said
        if first > len(said):
            return False
        for type_, data in events[len(said) - first :]:
            said.append((type_, data))
            self.emit(type_, data)
        return True

    def end_attempt(self, outcome: str) -> None:
        self.attempts[-1].outcome = outcome
        self.pausing = False


class Model:
    """All jobs of one lane, and the answers that each call must give."""

    def __init__(self, most_running: dict[str, int]) -> None:
        self.most_running = most_running  # by owner; 0: no bound
        self.jobs: dict[str, ModelJob] = {}
        self.keys: dict[str, tuple[str, str]] = {}  # idempotency key → body, job
        self.served: dict[str, int] = {}
        self.arrivals = 0
        self.claims = 0
        self.expired: set[str] = set()
        self.removed: list[ModelJob] = []
        self.live: set[str] = set()
        self.tickets = 0

    def everything(self) -> list[ModelJob]:
        """Also what was deleted: late workers still ask for it."""
        return [*self.jobs.values(), *self.removed]

    def missing(self) -> int:
        """The tickets that the lane lacks."""
        return max(0, min(len(self.queued()), 2 * len(self.live)) - self.tickets)

    def queued(self, owner: str | None = None) -> list[ModelJob]:
        found = [job for job in self.jobs.values() if job.state == "queued" and owner in (None, job.owner)]
        return sorted(found, key=lambda job: (-job.priority, job.arrival))

    def accept(self, new: ModelJob, key: str, body: str, most: int) -> tuple[str, str]:
        if new.id in self.jobs:
            return "accepted", new.id
        if key in self.keys and self.keys[key][1] in self.jobs:
            seen, job = self.keys[key]
            return ("replayed" if seen == body else "conflict"), job
        if most and len(self.queued(new.owner)) >= most:
            return "quota", ""
        if key:
            self.keys[key] = body, new.id
        self.arrivals += 1
        new.arrival = self.arrivals
        self.jobs[new.id] = new
        new.move("queued")
        return "accepted", new.id

    def place(self, job: ModelJob) -> int:
        """Which claim takes a queued job: after those of higher priority, owners take turns as they stand."""
        higher = [each for each in self.queued() if each.priority > job.priority]
        waiting = [each for each in self.queued() if each.priority == job.priority]
        served, order = dict(self.served), []
        while waiting:
            chosen = min(waiting, key=lambda each: (served.get(each.owner, 0), each.owner, each.arrival))
            served[chosen.owner] = self.claims + len(order) + 1
            order.append(chosen)
            waiting.remove(chosen)
        return len(higher) + order.index(job) + 1

    def claim(self, worker: str) -> ModelJob | None:
        """The next job by priority, then the least recently served owner, then arrival, within the limits."""
        waiting = [job for job in self.queued() if not self.must_wait(job.owner)]
        if not waiting:
            return None
        top = [job for job in waiting if job.priority == waiting[0].priority]
        chosen = min(top, key=lambda job: (self.served.get(job.owner, 0), job.owner, job.arrival))
        self.claims += 1
        self.served[chosen.owner] = self.claims
        self.expired.discard(chosen.id)
        chosen.attempts.append(ModelAttempt(chosen.token + 1, worker))
        chosen.pausing = False
        chosen.move("running", worker=worker)
        return chosen

    def must_wait(self, owner: str) -> bool:
        most = self.most_running.get(owner, 0)
        return 0 < most <= sum(job.owner == owner and job.state in HELD for job in self.jobs.values())

    def append(self, job: ModelJob, token: int, first: int, events: list[Event]) -> str:
        if not job.is_current(token):
            return "fenced"
        if not job.say(first, events):
            return "gap"
        self.expired.discard(job.id)
        return job.verb()

    def checkpoint(self, job: ModelJob, token: int, step: int, loss: float | None, sample: bool) -> str:
        if not job.is_current(token):
            return "fenced"
        new = ModelCheckpoint(token, loss, sample)
        if job.checkpoints.get(step) != new:
            job.checkpoints[step] = new
            job.emit("checkpoint", {"step": step, "best": self._prune(job, step) == step})
        self.expired.discard(job.id)
        return job.verb()

    def _prune(self, job: ModelJob, newest: int) -> int | None:
        """Keeps whole the last two up to the newest and the best of these; of the others sampled weights."""
        whole = sorted(step for step, each in job.checkpoints.items() if each.whole and step <= newest)
        losses = {step: job.checkpoints[step].loss for step in whole}
        evaluated = [step for step in whole if losses[step] is not None]
        best = min(evaluated, key=lambda step: (losses[step], step), default=None)
        for step, each in list(job.checkpoints.items()):
            if step not in {*whole[-2:], best}:
                del job.checkpoints[step]
                if each.sample:
                    job.checkpoints[step] = replace(each, whole=False)
        return best

    def store_segment(self, job: ModelJob, last: int, kept: int) -> None:
        """The events up to ``last`` are in segments; the stream keeps its last ones and those in none."""
        job.stored = max(job.stored, last)
        job.first_kept = max(job.first_kept, min(job.stored + 1, len(job.events) - kept + 1))

    def remove(self, job: ModelJob) -> tuple[str, bool]:
        if job.state not in TERMINAL:
            return job.state, False
        self.removed.append(self.jobs.pop(job.id))
        job.released = job.finished = -1  # nobody remembers
        return job.state, True

    def release(self, job: ModelJob, token: int, reason: str) -> str:
        if job.released == token:
            return "already"
        if not job.is_current(token):
            return "fenced"
        job.released = token
        if reason == "crash":
            self._lose(job, "crash")
        else:
            pausing = reason == "pause" or job.pausing
            job.end_attempt(reason)
            if job.state == "cancelling":
                job.move("cancelled", reason=reason)
            elif pausing:
                job.move("paused")
            else:
                job.move("queued", reason=reason)
        return job.state

    def _lose(self, job: ModelJob, code: str) -> None:
        pausing = job.pausing
        job.end_attempt(code)
        job.failures += 1
        if job.state == "cancelling":
            job.move("cancelled", reason=code)
        elif job.failures >= job.max_attempts:
            job.move("failed", code=code)
        else:
            job.move("paused" if pausing else "queued", reason=code)

    def finish(self, job: ModelJob, token: int, outcome: str, first: int, events: list[Event]) -> str:
        if job.finished == token:
            return "already"
        if not job.is_current(token):
            return "fenced"
        if outcome == "cancelled" and job.state != "cancelling":
            return "refused"
        if not job.say(first, events):
            return "gap"
        job.finished = token
        job.end_attempt(outcome)
        job.move(outcome, **({"code": "some-code"} if outcome == "failed" else {}))
        return job.state

    def cancel(self, job: ModelJob) -> str:
        if job.state in ("queued", "paused"):
            job.move("cancelled")
        elif job.state == "running":
            job.move("cancelling")
        return job.state

    def pause(self, job: ModelJob) -> str:
        if job.state == "queued":
            job.move("paused")
        elif job.state == "running" and not job.pausing:
            job.pausing = True
            job.emit("state", {"state": "running", "reason": "pausing"})
        return job.state

    def resume(self, job: ModelJob) -> str:
        if job.state == "paused":
            job.move("queued", reason="resumed")
        elif job.state == "running" and job.pausing:
            job.pausing = False
            job.emit("state", {"state": "running", "reason": "resumed"})
        return job.state

    def sweep(self) -> set[tuple[str, str]]:
        swept = set()
        for job in self.jobs.values():
            if job.id in self.expired and job.state in HELD:
                self._lose(job, "worker-lost")
                swept.add((job.id, job.state))
        self.expired.clear()
        return swept
