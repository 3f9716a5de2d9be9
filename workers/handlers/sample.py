"""Continues a prompt with a stored model, token by token."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from engine.models.sampling import generate, load_model
from service.blobs import BlobMissingError, BlobStore
from workers.attempt import Attempt
from workers.failures import UnknownModelError
from workers.handlers import Outcome

MODELS_KEPT = 4
GENERATION_OPTIONS = ("max_tokens", "temperature", "top_k", "top_p", "stop", "window")


@lru_cache(maxsize=MODELS_KEPT)
def open_model(store: BlobStore, weights: str) -> Any:
    """Model and tokenizer from a blob; a warm worker keeps the last few. Raises UnknownModelError."""
    try:
        return load_model(store.get(weights))
    except BlobMissingError as error:
        raise UnknownModelError(f"The weights {weights} are no longer stored.") from error


def run(attempt: Attempt, store: BlobStore) -> Outcome:
    """Generates ``n`` continuations one after the other; continuation i starts from seed + i."""
    spec = attempt.job.spec
    with attempt.patience():
        model, tokenizer = open_model(store, spec["weights"])
    options = {name: spec[name] for name in GENERATION_OPTIONS}
    choices = []
    for index in range(spec["n"]):
        tokens = []
        for token in generate(model, tokenizer, spec["prompt"], seed=spec["seed"] + index, **options):
            attempt.check()
            said = {"text": token.text, "id": token.id, "logprob": token.logprob}
            attempt.token(index, said)
            tokens.append(said)
        choices.append(
            {
                "index": index,
                "text": "".join(each["text"] for each in tokens),
                "logprobs": [each["logprob"] for each in tokens],
                "finish_reason": "length" if len(tokens) >= spec["max_tokens"] else "stop",
            }
        )
    return Outcome({"choices": choices, "seed": spec["seed"]})
