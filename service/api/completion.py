"""One completion: an ephemeral sampling job, its tokens as they come, and its end when the client leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from redis.exceptions import RedisError

from service.api.backend import Backend
from service.api.hub import Batch, End
from service.api.keys import Principal
from service.api.submit import Options, Submission, prepare, submit
from service.api.waiting import until_started
from service.errors import (
    InternalError,
    InvalidFieldsError,
    InvalidRequestError,
    NotFoundError,
    ProblemError,
    UnavailableError,
)
from service.jobs.calls import arun, cancel
from service.jobs.events import LoggedEvent
from service.jobs.records import JobRecord, Json
from service.specs.sample import Sample

log = logging.getLogger(__name__)

TIMEOUT_S = 600


@dataclass(frozen=True)
class Token:
    """One token of one continuation."""

    index: int
    text: str
    logprob: float | None


@dataclass
class _Progress:
    """How many tokens of each continuation came in this attempt, and how many were handed on.

    A job that moves to another worker starts again with the same seed, so the same tokens come once more.
    """

    attempt: int = 0
    came: dict[int, int] = field(default_factory=dict)
    handed_on: dict[int, int] = field(default_factory=dict)

    def is_new(self, attempt: int, index: int) -> bool:
        if attempt != self.attempt:
            self.attempt, self.came = attempt, {}
        self.came[index] = self.came.get(index, 0) + 1
        if self.came[index] <= self.handed_on.get(index, 0):
            return False
        self.handed_on[index] = self.came[index]
        return True


class Completion:
    """A started completion; iterate ``tokens`` to its end, or ``abandon`` it."""

    def __init__(self, backend: Backend, principal: Principal, job: JobRecord) -> None:
        self._backend = backend
        self._principal = principal
        self._progress = _Progress()
        self.job = job
        self.ended: JobRecord | None = None

    async def tokens(self) -> AsyncGenerator[list[Token]]:
        """Lists of new tokens. Raises the job's failure, or an outage, as a ProblemError."""
        try:
            async with aclosing(self._tokens()) as parts:
                async for part in parts:
                    yield part
        except RedisError as error:
            detail = "Redis does not answer."
            raise UnavailableError(detail, code="no-redis", headers={"Retry-After": "1"}) from error

    async def _tokens(self) -> AsyncGenerator[list[Token]]:
        state = ""
        async with (
            self._backend.hub.view(self.job.id, 0) as viewer,
            aclosing(viewer.steps()) as steps,
        ):
            async for step in steps:
                if isinstance(step, Batch):
                    found = [token for event in step.events for token in self._read(event)]
                    if found:
                        yield found
                elif isinstance(step, End):
                    state = step.state
                else:
                    await self._check_is_there()
        if state == "":
            raise UnavailableError("The server is stopping.", code="stopping", headers={"Retry-After": "1"})
        self.ended = await self._backend.job(self.job.id, self._principal)
        if state != "succeeded":
            raise _failure(self.ended)

    async def _check_is_there(self) -> None:
        """When nothing came for a while: Redis must answer and have the job, else nothing will ever come."""
        try:
            await self._backend.job(self.job.id, self._principal)
        except NotFoundError as error:
            detail = "The completion was lost with its server; ask again."
            raise UnavailableError(detail, code="lost", headers={"Retry-After": "1"}) from error

    def _read(self, event: LoggedEvent) -> list[Token]:
        if event.type != "token":
            return []
        record = event.to_dict()
        data: Json = record["data"]
        found = [
            Token(each.get("index", data.get("index", 0)), each["text"], each.get("logprob"))
            for each in data.get("tokens", [data])
        ]
        return [token for token in found if self._progress.is_new(record["attempt"], token.index)]

    def finish_reason(self, index: int) -> str:
        """``length`` when the continuation has as many tokens as were allowed, else ``stop``."""
        limit: int = self.job.spec["max_tokens"]
        return "length" if self._progress.handed_on.get(index, 0) >= limit else "stop"

    def usage(self) -> dict[str, int]:
        """Tokens read and written. A token is a character of the prompt."""
        read, written = len(self.job.spec["prompt"]), sum(self._progress.handed_on.values())
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    async def abandon(self) -> None:
        """Cancels the job unless it has ended; nobody listens any more."""
        if self.ended is None:
            try:
                await arun(self._backend.redis, cancel(self.job.id))
            except RedisError as error:
                log.warning("completion %s could not be cancelled: %s", self.job.id, error)


def _of_the_request(error: InvalidFieldsError) -> InvalidFieldsError:
    """The same errors, about the fields of the request instead of those of the spec."""
    fields = [replace(each, param=each.param.removeprefix("spec.")) for each in error.errors]
    return InvalidFieldsError(fields, code=error.code)


def _failure(job: JobRecord) -> ProblemError:
    if job.state == "cancelled":
        return InternalError("The completion was cancelled.", code="cancelled")
    error = job.error or {"code": "internal", "message": "The completion failed."}
    if error["code"] == "invalid-prompt":  # a model that doesn't say its characters is asked by the worker
        return InvalidRequestError(error["message"], code=error["code"], param="prompt")
    if error["code"] == "unknown-model":
        return NotFoundError(error["message"], code=error["code"], param="model")
    return InternalError(error["message"], code=error["code"])


async def start(backend: Backend, principal: Principal, spec: Sample) -> Completion:
    """Queues the job and waits until a worker has it. UnavailableError when there is no worker."""
    try:
        prepared = await prepare(backend, principal, "sample", spec.model_dump())
    except InvalidFieldsError as error:
        if error.param == "spec.model":
            detail = f"There is no model {spec.model!r}."
            raise NotFoundError(detail, code="unknown-model", param="model") from error
        raise _of_the_request(error) from error
    options = Options(timeout_s=TIMEOUT_S, max_attempts=1)
    new = Submission("sample", prepared, options, ephemeral=True)
    job = (await submit(backend, principal, new)).job
    completion = Completion(backend, principal, job)
    try:
        await until_started(backend, job)
    except BaseException:
        await asyncio.shield(completion.abandon())
        raise
    return completion
