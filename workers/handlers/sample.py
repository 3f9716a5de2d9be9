"""Continues a prompt with a stored model, token by token."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from engine.models.sampling import generate, load_model
from service.blobs import BlobDamagedError, BlobMissingError, BlobStore
from workers.attempt import Attempt
from workers.failures import DamagedCheckpointError, UnknownModelError
from workers.handlers import Outcome
from workers.handlers.prompts import readable_prompt

MODELS_KEPT = 4
GENERATION_OPTIONS = ("max_tokens", "temperature", "top_k", "top_p", "stop", "window")


class WarmModels:
    """The models a process used last, by the sha256 of their weights: what is kept is never stale."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def open(self, store: BlobStore, weights: str) -> Any:
        """Model and tokenizer from a blob. Raises UnknownModelError and DamagedCheckpointError."""
        if weights not in self._kept:
            try:
                self._kept[weights] = load_model(store.get(weights))
            except BlobMissingError as error:
                raise UnknownModelError(f"The weights {weights} are no longer stored.") from error
            except BlobDamagedError as error:
                message = f"The weights {weights} are damaged; train the model again, or take another step."
                raise DamagedCheckpointError(message) from error
        self._kept.move_to_end(weights)
        while len(self._kept) > MODELS_KEPT:
            self._kept.popitem(last=False)
        return self._kept[weights]


WARM_MODELS = WarmModels()


def run(attempt: Attempt, store: BlobStore) -> Outcome:
    """Generates ``n`` continuations one after the other; continuation i starts from seed + i."""
    spec = attempt.job.spec
    with attempt.patience():
        model, tokenizer = WARM_MODELS.open(store, spec["weights"])
    prompt = readable_prompt(spec["prompt"], tokenizer)
    options = {name: spec[name] for name in GENERATION_OPTIONS}
    choices = []
    for index in range(spec["n"]):
        tokens: list[dict[str, Any]] = []
        for token in generate(model, tokenizer, prompt, seed=spec["seed"] + index, **options):
            attempt.check()
            said = {"text": token.text, "id": token.id, "logprob": token.logprob}
            attempt.generated(index, said)
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
