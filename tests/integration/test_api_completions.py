"""Models and completions, asked by the OpenAI client and by ours, answered by a scripted worker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from api_rig import Api, FakeWorker, train_with
from openai import OpenAI

from service.client import Client, NotFoundError, RefusedError, ServerFaultError, UnauthorisedError
from service.ids import new_id
from service.jobs import calls
from service.jobs.lanes import QUICK
from service.jobs.records import key

CONFIG = {"name": "bigram", "vocab_size": 65, "seq_len": 8}


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    api.redis.flushall()


@pytest.fixture
def model(api: Api) -> str:
    """A published model with the alias ``bard``."""
    api.submit()
    worker = api.worker()
    worker.claim()
    model_id = new_id("model")
    weights = api.blobs.put(b"weights of the bard")
    record = {"id": model_id, "alias": "bard", "job": worker.job, "step": 10, "weights": weights}
    record |= {"config": CONFIG, "created": 1_795_000_000, "owner": "local"}
    worker.finish(model=calls.Model(model_id, record, "bard"))
    return model_id


@pytest.fixture
def client(api: Api) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{api.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@contextmanager
def answering(api: Api, answer: Callable[[FakeWorker], object]) -> Iterator[FakeWorker]:
    """A live worker of the quick lane that claims one job and does with it what the test says."""
    worker = api.worker(QUICK).live()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            deadline = time.monotonic() + 20
            while api.queued() == 0:
                assert time.monotonic() < deadline, "no job came"
                time.sleep(0.005)
            worker.claim()
            answer(worker)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    yield worker
    thread.join()
    assert not failures, failures


def tokens(*texts: str, index: int = 0) -> calls.Event:
    return "token", {
        "index": index,
        "tokens": [{"text": text, "id": ord(text), "logprob": -0.5} for text in texts],
    }


def say_hello(worker: FakeWorker) -> None:
    worker.say(tokens("h", "e"))
    worker.say(tokens("l", "l"))
    worker.say(tokens("o"))
    worker.finish(result={})


def test_models_are_listed_and_found_by_id_and_alias(api: Api, client: OpenAI, model: str) -> None:
    assert [each.id for each in client.models.list()] == [model]
    for name in (model, "bard"):
        found = client.models.retrieve(name)
        assert (found.id, found.owned_by, found.created) == (model, "local", 1_795_000_000)
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("nobody")
    assert caught.value.code == "unknown-model"
    assert api.http.get(f"/v1/models/{model}").json()["config"] == CONFIG
    assert api.http.get("/v1/models/bard/weights").content == b"weights of the bard"


def test_an_unknown_model_is_404_as_clients_expect(api: Api, client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="nobody", prompt="x")
    assert (caught.value.code, caught.value.param) == ("unknown-model", "model")
    assert api.queued() == 0


def test_a_whole_completion(api: Api, client: OpenAI, model: str) -> None:
    with answering(api, say_hello) as worker:
        made = client.completions.create(model="bard", prompt="say: ", max_tokens=5, seed=7, stop=["\n"])
    assert (made.choices[0].text, made.choices[0].finish_reason, made.model) == ("hello", "length", "bard")
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.total_tokens) == (5, 5, 10)
    spec = api.http.get(f"/v1/jobs/{worker.job}").json()["spec"]
    assert (spec["seed"], spec["stop"], spec["max_tokens"], spec["prompt"]) == (7, ["\n"], 5, "say: ")
    assert api.blobs.get(spec["weights"]) == b"weights of the bard"


def test_a_streamed_completion_comes_in_pieces(api: Api, client: OpenAI, model: str) -> None:
    with answering(api, say_hello):
        options: dict[str, Any] = {"stream_options": {"include_usage": True}, "max_tokens": 9}
        chunks = list(client.completions.create(model=model, prompt="x", stream=True, **options))
    texts = [choice.text for chunk in chunks for choice in chunk.choices]
    assert "".join(texts) == "hello"
    assert sum(bool(text) for text in texts) >= 1
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5
    assert len({chunk.id for chunk in chunks}) == 1


def test_log_probabilities_and_several_continuations(api: Api, client: OpenAI, model: str) -> None:
    def work(worker: FakeWorker) -> None:
        worker.say(tokens("a", "b"))
        worker.say(tokens("c", index=1))
        worker.finish(result={})

    with answering(api, work):
        made = client.completions.create(model="bard", prompt="xy", n=2, logprobs=1, max_tokens=2)
    first, second = made.choices
    assert (first.text, first.finish_reason, second.text, second.finish_reason) == (
        "ab",
        "length",
        "c",
        "stop",
    )
    assert first.logprobs is not None
    assert first.logprobs.tokens == ["a", "b"]
    assert first.logprobs.token_logprobs == [-0.5, -0.5]
    assert first.logprobs.text_offset == [2, 3]
    assert first.logprobs.top_logprobs == [{"a": -0.5}, {"b": -0.5}]


def test_our_client_completes_and_streams(api: Api, model: str) -> None:
    with Client(api.url) as own:
        with answering(api, say_hello):
            assert own.complete("bard", "x")["choices"][0]["text"] == "hello"
        with answering(api, say_hello):
            assert "".join(own.stream_completion("bard", "x")) == "hello"


def test_a_job_that_moves_to_another_worker_repeats_no_token(api: Api, client: OpenAI, model: str) -> None:
    def work(worker: FakeWorker) -> None:
        worker.say(tokens("h", "e", "l"))
        calls.run(api.redis, calls.release(worker.job, worker.token, "shutdown"))
        worker.claim()
        say_hello(worker)

    with answering(api, work):
        chunks = list(client.completions.create(model="bard", prompt="x", stream=True))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == "hello"


def test_completions_are_hidden_and_disappear(api: Api, client: OpenAI, model: str) -> None:
    with answering(api, say_hello) as worker:
        client.completions.create(model="bard", prompt="x")
    assert worker.job not in [job["id"] for job in api.http.get("/v1/jobs").json()["data"]]
    for part in ((), ("events",)):
        assert 0 < api.redis.ttl(key("job", worker.job, *part)) <= 600  # type: ignore[operator]


def test_without_a_worker_the_answer_is_503_and_nothing_stays_queued(
    api: Api, client: OpenAI, model: str
) -> None:
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError) as caught:
            client.completions.create(model="bard", prompt="x", stream=stream)
        assert (caught.value.status_code, caught.value.code) == (503, "no-worker")
        assert caught.value.response.headers["retry-after"]
    assert api.queued() == 0


def test_a_failed_completion_is_an_error(api: Api, client: OpenAI, model: str) -> None:
    def fail(worker: FakeWorker) -> None:
        worker.say(tokens("h"))
        worker.finish("failed", code="unknown-model", message="The weights are gone.")

    with answering(api, fail), pytest.raises(openai.NotFoundError, match="weights are gone"):
        client.completions.create(model="bard", prompt="x")
    with answering(api, fail), pytest.raises(openai.APIError, match="weights are gone"):
        list(client.completions.create(model="bard", prompt="x", stream=True))


@pytest.mark.parametrize(
    "code, kind",
    [("invalid-prompt", RefusedError), ("unknown-model", NotFoundError), ("stalled", ServerFaultError)],
)
def test_a_failure_is_of_the_same_kind_in_one_piece_and_in_a_stream(
    api: Api, model: str, code: str, kind: type[RefusedError]
) -> None:
    def fail(worker: FakeWorker) -> None:
        worker.finish("failed", code=code, message="It can't be.")

    with Client(api.url) as own:
        with answering(api, fail), pytest.raises(RefusedError, match="can't be") as caught:
            own.complete("bard", "x")
        assert (type(caught.value), caught.value.code) == (kind, code)
        with answering(api, fail), pytest.raises(RefusedError, match="can't be") as caught:
            list(own.stream_completion("bard", "x"))
        assert (type(caught.value), caught.value.code) == (kind, code)


def test_a_prompt_with_other_characters_than_the_models_is_refused_before_it_is_queued(
    api: Api, model: str
) -> None:
    record = json.loads(api.redis.get(key("model", model)) or "") | {"alphabet": "xyz"}
    api.redis.set(key("model", model), json.dumps(record))
    for stream in (False, True):
        answer = api.http.post("/v1/completions", json={"model": "bard", "prompt": "xa", "stream": stream})
        assert (answer.status_code, answer.json()["param"]) == (422, "prompt")
        assert answer.json()["detail"].startswith("prompt is 'xa': ")
    assert api.queued() == 0


def test_a_prompt_for_a_checkpoint_must_have_the_characters_of_its_file(api: Api) -> None:
    file = api.http.post("/v1/files", files={"file": ("a.txt", b"ab" * 50)}).json()["id"]
    job = api.submit(train_with(corpus={"file": file}))["id"]
    worker = api.worker()
    worker.claim()
    manifest = {"step": 1, "weights": api.blobs.put(b"w"), "optimizer": "o", "state": "s", "bytes": {}}
    calls.run(api.redis, calls.checkpoint(job, worker.token, manifest))
    for prompt, status in (("abc", 422), ("ab", 202)):
        body = {"kind": "sample", "spec": {"model": f"{job}@1", "prompt": prompt}}
        assert api.http.post("/v1/jobs", json=body).status_code == status


def test_closing_a_stream_stops_generation_within_two_flushes(api: Api, client: OpenAI, model: str) -> None:
    """Flushes are a quarter of a second apart, so that a busy machine changes nothing."""
    closed = threading.Event()
    verbs: list[str] = []

    def work(worker: FakeWorker) -> None:
        deadline = time.monotonic() + 20
        while "cancel" not in verbs and time.monotonic() < deadline:
            was_closed = closed.is_set()
            verb = worker.say(tokens("x"))
            if was_closed:
                verbs.append(verb)
            time.sleep(0.25)
        worker.finish("cancelled")

    with answering(api, work) as worker:
        stream = client.completions.create(model="bard", prompt="x", stream=True, max_tokens=9999)
        next(iter(stream))
        stream.close()
        closed.set()
    assert verbs in (["cancel"], ["go", "cancel"])
    assert api.http.get(f"/v1/jobs/{worker.job}").json()["state"] == "cancelled"


def test_leaving_a_waiting_completion_cancels_the_job(api: Api, model: str) -> None:
    verbs: list[str] = []

    def work(worker: FakeWorker) -> None:
        deadline = time.monotonic() + 20
        while (verb := worker.say(tokens("x"))) == "go" and time.monotonic() < deadline:
            time.sleep(0.01)
        verbs.append(verb)
        worker.finish("cancelled")

    with answering(api, work), pytest.raises(httpx.ReadTimeout):
        api.http.post("/v1/completions", json={"model": "bard", "prompt": "x"}, timeout=1.0)
    assert verbs == ["cancel"]


@pytest.mark.parametrize(
    "change, param",
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"echo": True}, "echo"),
        ({"logprobs": 2}, "logprobs"),
        ({"best_of": 2}, "best_of"),
        ({"best_of": True}, "best_of"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"suffix": "x"}, "suffix"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    api: Api, model: str, change: dict[str, Any], param: str
) -> None:
    answer = api.http.post("/v1/completions", json={"model": "bard", "prompt": "x", **change})
    assert answer.status_code == 422
    assert answer.json()["param"].startswith(param)
    assert api.queued() == 0


def test_what_asks_for_nothing_is_taken_and_what_is_refused_says_why(
    api: Api, client: OpenAI, model: str
) -> None:
    neutral: dict[str, Any] = {"echo": False, "suffix": "", "best_of": 1, "presence_penalty": 0.0}
    with answering(api, say_hello):
        made = client.completions.create(model="bard", prompt="x", user="ann", **neutral)
    assert made.choices[0].text == "hello"
    with pytest.raises(openai.UnprocessableEntityError, match="echo is True: is not supported") as caught:
        client.completions.create(model="bard", prompt="x", echo=True)
    assert caught.value.param == "echo"
    with pytest.raises(openai.UnprocessableEntityError, match="suffix is 'end': is not supported"):
        client.completions.create(model="bard", prompt="x", suffix="end")


def test_a_stop_text_ends_the_continuation_and_the_same_seed_is_handed_on(
    api: Api, client: OpenAI, model: str
) -> None:
    with answering(api, say_hello) as worker:
        made = client.completions.create(
            model="bard", prompt="x", stop="\n", seed=3, logprobs=0, max_tokens=9
        )
    spec = api.http.get(f"/v1/jobs/{worker.job}").json()["spec"]
    assert (spec["stop"], spec["seed"]) == (["\n"], 3)
    assert made.choices[0].finish_reason == "stop"
    assert made.choices[0].logprobs is not None
    assert made.choices[0].logprobs.top_logprobs is None


def test_an_error_in_the_middle_of_a_stream_ends_it_with_what_came(
    api: Api, client: OpenAI, model: str
) -> None:
    def fail(worker: FakeWorker) -> None:
        worker.say(tokens("h", "e"))
        time.sleep(0.1)
        worker.finish("failed", code="stalled", message="The worker hung.")

    texts: list[str] = []
    with answering(api, fail), pytest.raises(openai.APIError, match="hung") as caught:
        for chunk in client.completions.create(model="bard", prompt="x", stream=True):
            texts += [choice.text for choice in chunk.choices]
    assert "".join(texts) == "he"
    assert caught.value.code == "stalled"


def test_a_checkpoint_can_be_sampled(api: Api, client: OpenAI) -> None:
    job = api.submit()["id"]
    worker = api.worker()
    worker.claim()
    for step, val_loss in ((5, 2.0), (9, 2.0)):
        manifest = {"step": step, "optimizer": "o", "state": "s", "bytes": {}, "val_loss": val_loss}
        manifest["weights"] = api.blobs.put(b"weights %d" % step)
        calls.run(api.redis, calls.checkpoint(job, worker.token, manifest))
    listed = api.http.get(f"/v1/jobs/{job}/checkpoints").json()["data"]
    assert [(each["step"], each["whole"], each["best"]) for each in listed] == [
        (5, True, True),
        (9, True, False),
    ]
    assert api.http.get(listed[0]["links"]["weights"]).content == b"weights 5"
    for name, weights in ((f"{job}@5", b"weights 5"), (job, b"weights 9")):
        with answering(api, say_hello) as sampler:
            client.completions.create(model=name, prompt="x")
        spec = api.http.get(f"/v1/jobs/{sampler.job}").json()["spec"]
        assert api.blobs.get(spec["weights"]) == weights
    assert api.http.post("/v1/completions", json={"model": f"{job}@7", "prompt": "x"}).status_code == 404


def test_a_revoked_key_ends_its_completion_and_the_client_is_told(
    api: Api, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also OpenAI's: the last frame's data has the member that it knows."""

    def say_he(worker: FakeWorker) -> None:
        worker.say(tokens("h", "e"))

    admin = api.http.post("/v1/keys", json={"scopes": ["admin"]}).json()["secret"]
    monkeypatch.setitem(api.http.headers, "Authorization", f"Bearer {admin}")
    for read in (read_as_openai, read_as_ours):
        made = api.http.post("/v1/keys", json={"owner": "local"}).json()
        with answering(api, say_he) as worker:
            pieces = read(api, made["secret"], model)
            assert next(pieces) == "he"
            assert api.http.delete(f"/v1/keys/{made['id']}").status_code == 204
            with pytest.raises((openai.APIError, UnauthorisedError), match="not known here"):
                next(pieces)
            assert worker.say() == "cancel"
            worker.finish("cancelled")


def read_as_openai(api: Api, secret: str, model: str) -> Iterator[str]:
    with OpenAI(base_url=f"{api.url}/v1", api_key=secret, max_retries=0) as client:
        for part in client.completions.create(model=model, prompt="x", stream=True):
            yield part.choices[0].text


def read_as_ours(api: Api, secret: str, model: str) -> Iterator[str]:
    with Client(api.url, secret) as client:
        yield from client.stream_completion(model, "x")
