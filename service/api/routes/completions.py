"""Completions as OpenAI clients ask for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from service import wire
from service.api.answers import gives
from service.api.backend import backend_of, principal_of, refusal_of
from service.api.completion import Completion, Token, start
from service.api.encoding import JsonResponse
from service.api.ending import end
from service.api.openapi import json_body
from service.api.problems import problem_document
from service.api.requests import parse, read_body
from service.api.stream import EventStream
from service.errors import ProblemError
from service.specs import Strict
from service.specs.sample import Sample

router = APIRouter(prefix="/v1/completions", tags=["completions"])

Stop = Annotated[str, Field(min_length=1, max_length=256)]


def _only(neutral: bool | int | str) -> BeforeValidator:
    """Takes a field that has no meaning here only where it asks for nothing."""

    def check(value: Any) -> Any:
        if value is not None and (value != neutral or isinstance(value, bool) != isinstance(neutral, bool)):
            raise ValueError(f"is not supported: leave it out, or give {json.dumps(neutral)}")
        return value if value is None else neutral

    return BeforeValidator(check)


class StreamOptions(Strict):
    """What a stream contains beside the text."""

    include_usage: bool = False


class CompletionRequest(Strict):
    """The body of ``POST /v1/completions``; what has no meaning here may only have its neutral value."""

    model: str = Field(min_length=1, max_length=128, description="model id, alias, job, or job@step")
    prompt: str = Field("\n", min_length=1, max_length=65_536)
    max_tokens: int = Field(16, ge=1, le=16_384)
    n: int = Field(1, ge=1, le=16)
    temperature: float = Field(1.0, ge=0, le=10)
    top_k: int | None = Field(None, ge=1, le=100_000)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = Field(None, ge=0, le=2**53)
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    logprobs: int | None = Field(None, ge=0, le=1, description="1: of the chosen token; 0: without texts")
    window: Literal["half", "exact"] = "half"
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = Field(None, max_length=256)
    echo: Annotated[Literal[False] | None, _only(False)] = None
    suffix: Annotated[Literal[""] | None, _only("")] = None
    best_of: Annotated[Literal[1] | None, _only(1)] = None
    presence_penalty: Annotated[Literal[0] | None, _only(0)] = None
    frequency_penalty: Annotated[Literal[0] | None, _only(0)] = None

    def to_sample(self) -> Sample:
        """The spec of the job."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return Sample(
            model=self.model,
            prompt=self.prompt,
            max_tokens=self.max_tokens,
            n=self.n,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            seed=self.seed,
            stop=stop,
            window=self.window,
        )


@router.post(
    "",
    openapi_extra=json_body("CompletionRequest"),
    summary="Continue a prompt",
    **gives(wire.Completion, problems=(404, 429), stream=True),
)
async def create_completion(request: Request) -> Response:
    """In one piece, or with ``stream`` as events up to ``[DONE]``; a client that leaves stops the job."""
    backend = backend_of(request)
    body = parse(CompletionRequest, await read_body(request))
    completion = await start(backend, principal_of(request), body.to_sample())
    if body.stream:
        request_id: str = request.scope["state"]["request_id"]
        return EventStream(_frames(completion, body, request_id), refusal_of(request))
    return JsonResponse(await _unless_gone(request, completion, _whole(completion, body)))


def _envelope(completion: Completion, body: CompletionRequest) -> dict[str, Any]:
    return {
        "id": completion.job.id,
        "object": "text_completion",
        "created": completion.job.created_at // 1000,
        "model": body.model,
    }


def _choice(index: int, tokens: list[Token], body: CompletionRequest, offset: int) -> dict[str, Any]:
    text = "".join(token.text for token in tokens)
    logprobs = None
    if body.logprobs is not None:
        offsets = []
        for token in tokens:
            offsets.append(offset)
            offset += len(token.text)
        logprobs = {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [{token.text: token.logprob} for token in tokens] if body.logprobs else None,
            "text_offset": offsets,
        }
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": None}


async def _whole(completion: Completion, body: CompletionRequest) -> dict[str, Any]:
    tokens: dict[int, list[Token]] = {index: [] for index in range(body.n)}
    async with aclosing(completion.tokens()) as parts:
        async for part in parts:
            for token in part:
                tokens[token.index].append(token)
    choices = [
        _choice(index, found, body, len(body.prompt)) | {"finish_reason": completion.finish_reason(index)}
        for index, found in tokens.items()
    ]
    return _envelope(completion, body) | {"choices": choices, "usage": completion.usage()}


async def _unless_gone(request: Request, completion: Completion, work: Any) -> dict[str, Any]:
    """The result of ``work``, unless the client goes before; then the job is cancelled."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            result: dict[str, Any] = task.result()
            return result
        return {}
    finally:
        await end([task, gone])
        await asyncio.shield(completion.abandon())


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _data(value: Any) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


async def _frames(completion: Completion, body: CompletionRequest, request_id: str) -> AsyncGenerator[bytes]:
    envelope = _envelope(completion, body)
    with_usage = body.stream_options is not None and body.stream_options.include_usage
    if with_usage:
        envelope["usage"] = None
    offsets = dict.fromkeys(range(body.n), len(body.prompt))
    try:
        async with aclosing(completion.tokens()) as parts:
            async for part in parts:
                for index in dict.fromkeys(token.index for token in part):
                    tokens = [token for token in part if token.index == index]
                    choice = _choice(index, tokens, body, offsets[index])
                    offsets[index] += len(choice["text"])
                    yield _data(envelope | {"choices": [choice]})
        for index in range(body.n):
            last = _choice(index, [], body, offsets[index])
            last["finish_reason"] = completion.finish_reason(index)
            yield _data(envelope | {"choices": [last]})
        if with_usage:
            yield _data(envelope | {"choices": [], "usage": completion.usage()})
    except ProblemError as problem:
        yield _data({"error": problem_document(problem, request_id)["error"]})
    finally:
        await asyncio.shield(completion.abandon())
    yield b"data: [DONE]\n\n"
