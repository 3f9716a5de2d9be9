"""Trains a model and says how it goes: losses, samples, checkpoints, and at the end the model."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import Any

from engine.data.corpora import CorpusError, decode_text, load_corpus
from engine.training import Checkpoint, Training
from service.blobs import BlobDamagedError, BlobMissingError, BlobStore
from service.ids import new_id
from service.jobs.calls import Model
from workers.attempt import Attempt
from workers.failures import InvalidDatasetError, NonFiniteLossError
from workers.handlers import Outcome
from workers.handlers.prompts import readable_prompt
from workers.stop import Stop

RATE_EVERY_S = 1.0
UNUSABLE = (BlobMissingError, BlobDamagedError, ValueError, KeyError)  # what a bad checkpoint raises


def run(attempt: Attempt, store: BlobStore) -> Outcome:
    """Trains from the newest checkpoint, or from the start, to the last step."""
    run_of_steps = TrainingRun(attempt, store)
    try:
        run_of_steps.go()
    except Stop as stop:
        if stop.reason.keeps_work:
            run_of_steps.save()
        raise
    return run_of_steps.outcome()


def read_corpus(corpus: dict[str, str], store: BlobStore) -> str:
    """The text that a train spec names. Raises InvalidDatasetError."""
    try:
        if "blob" in corpus:
            return decode_text(store.get(corpus["blob"]), corpus.get("file", "the text"))
        return load_corpus(corpus["name"])
    except BlobDamagedError as error:
        raise InvalidDatasetError("The stored text is damaged; give it once more.") from error
    except (CorpusError, LookupError) as error:
        raise InvalidDatasetError(str(error)) from error


def read_checkpoint(manifest: dict[str, Any], store: BlobStore) -> Checkpoint:
    """The checkpoint whose blobs a manifest names."""
    weights, optimizer, state = (store.get(manifest[part]) for part in ("weights", "optimizer", "state"))
    return Checkpoint(manifest["step"], weights, optimizer, json.loads(state))


@dataclass(frozen=True)
class Plan:
    """When things are due, by the train spec; steps count from 1, 0 is the untrained model."""

    steps: int
    eval_every: int
    sample_every: int
    checkpoint_every_s: float

    def is_due(self, step: int, every: int) -> bool:
        return step == self.steps or (every > 0 and step % every == 0)


class TrainingRun:
    """One attempt's way through the steps. All that is due after a step is said before the next begins."""

    def __init__(self, attempt: Attempt, store: BlobStore) -> None:
        self._attempt = attempt
        self._store = store
        self._spec: dict[str, Any] = attempt.job.spec
        times = {name: self._spec[name] for name in Plan.__dataclass_fields__}
        self._plan = Plan(**times)
        self._tokens_a_step = self._spec["batch"] * self._spec["model"]["seq_len"]
        with attempt.stage("corpus"):
            text = read_corpus(self._spec["corpus"], store)
        with attempt.stage("model"):
            self._training = self._open(text)
        if self._training.step > 0:
            attempt.log("info", f"goes on from the checkpoint of step {self._training.step}")
        characters = self._training.tokenizer
        self._prompts = {prompt: readable_prompt(prompt, characters) for prompt in self._spec["prompts"]}
        self._saved_step = -1
        self._saved_at = time.monotonic()
        self._val_loss: tuple[int, float] = (-1, math.nan)
        self._loss = math.nan

    def _open(self, text: str) -> Training:
        """The training as its newest usable checkpoint has it, else from the start."""
        manifests = self._attempt.starting_points
        for manifest in manifests:
            try:
                training = Training.restore(self._spec, text, read_checkpoint(manifest, self._store))
            except UNUSABLE as error:
                step = manifest["step"]
                self._attempt.log("warning", f"the checkpoint of step {step} can't be used: {error}")
            else:
                self._attempt.goes_on_from(manifest)
                return training
        if manifests:
            self._attempt.log("warning", "no checkpoint can be used; the training begins anew")
        try:
            return Training(self._spec, text)
        except ValueError as error:
            raise InvalidDatasetError(str(error)) from error

    def go(self) -> None:
        """Trains to the last step."""
        training, plan, attempt = self._training, self._plan, self._attempt
        first = training.step
        if first == 0:
            self._report(0, {})
        rate_from, rate_at = first, time.monotonic()
        while training.step < plan.steps:
            attempt.check()
            with attempt.patience(training.step == first):
                numbers = training.run_step()
            step, now = training.step, time.monotonic()
            if now - rate_at >= RATE_EVERY_S or step == plan.steps:
                numbers["tokens_per_s"] = (step - rate_from) * self._tokens_a_step / (now - rate_at)
                rate_from, rate_at = step, now
            attempt.progress(step, plan.steps)
            self._report(step, numbers)
            if now - self._saved_at >= plan.checkpoint_every_s:
                self.save()

    def _report(self, step: int, numbers: dict[str, float]) -> None:
        """Says a step's numbers, evaluates and samples where that is due; weights sampled from are kept."""
        plan, attempt = self._plan, self._attempt
        self._loss = numbers.get("loss", math.nan)
        if step > 0 and not math.isfinite(self._loss):
            attempt.metric(step, **numbers)
            raise NonFiniteLossError(f"The loss is {self._loss} at step {step}; lower lr or set clip_norm.")
        if plan.is_due(step, plan.eval_every):
            with attempt.patience():
                numbers["val_loss"] = self._training.evaluate()
            self._val_loss = (step, numbers["val_loss"])
        attempt.metric(step, **numbers)
        if plan.is_due(step, plan.sample_every):
            for prompt, readable in self._prompts.items():
                with attempt.patience():
                    text = self._training.sample(readable, self._spec["sample_tokens"])
                attempt.emit("sample", {"step": step, "prompt": prompt, "text": text})
            self.save(sampled=True)

    def save(self, *, sampled: bool = False) -> None:
        """Stores a checkpoint of the present step, once."""
        training = self._training
        if training.step == self._saved_step:
            return
        with self._attempt.patience():
            checkpoint = training.save()
            parts = {
                "weights": checkpoint.weights,
                "optimizer": checkpoint.optimizer,
                "state": json.dumps(checkpoint.state).encode(),
            }
            manifest: dict[str, Any] = {"step": checkpoint.step, "bytes": {}}
            for name, content in parts.items():
                manifest[name] = self._store.put(content)
                manifest["bytes"][name] = len(content)
            if sampled:
                manifest["sample"] = True
            if self._val_loss[0] == checkpoint.step and math.isfinite(self._val_loss[1]):
                manifest["val_loss"] = self._val_loss[1]
            self._attempt.save(manifest, self._store)
        self._weights: str = manifest["weights"]
        self._weights_size = len(checkpoint.weights)
        self._saved_step, self._saved_at = checkpoint.step, time.monotonic()

    def outcome(self) -> Outcome:
        """The result, and the model if it shall be published."""
        if self._val_loss[0] != self._training.step:  # resumed behind the last step
            self._val_loss = (self._training.step, self._training.evaluate())
        self.save()
        job, alias = self._attempt.job, self._spec["publish_as"]
        result = {
            "step": self._training.step,
            "loss": self._loss if math.isfinite(self._loss) else None,
            "val_loss": self._val_loss[1],
            "weights": self._weights,
            "artifacts": self._artifacts(),
        }
        if alias is None:
            return Outcome(result)
        model_id = new_id("model")
        record = {
            "id": model_id,
            "alias": alias,
            "job": job.id,
            "step": self._training.step,
            "weights": self._weights,
            "owner": job.owner,
            "config": {**self._spec["model"], "vocab_size": self._training.tokenizer.vocab_size},
            "alphabet": self._training.tokenizer.characters,
            "created": int(time.time()),
        }
        return Outcome({**result, "model": model_id}, Model(model_id, record, alias))

    def _artifacts(self) -> list[dict[str, Any]]:
        """What can be downloaded: the model, and how a step of its training was computed."""
        model = {"name": "model.safetensors", "type": "application/octet-stream"}
        found = [{**model, "bytes": self._weights_size, "blob": self._weights}]
        if plan := self._training.describe().encode():
            text = {"name": "plan.txt", "type": "text/plain; charset=utf-8"}
            found.append({**text, "bytes": len(plan), "blob": self._store.put(plan)})
        return found
