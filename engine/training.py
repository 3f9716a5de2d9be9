"""Training a language model on a text, step by step, so that it can stop anywhere and go on exactly.

The state of a training is its weights, its optimiser and a few integers. Batches follow from the seed and the
step alone, so a training restored from a checkpoint computes the same bits as one never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.dtype import int64
from engine.data.tokenizer import CharTokenizer
from engine.data.windows import Batch, Windows, split, validation_windows
from engine.models.build import build_model, load_model, save_model
from engine.models.config import read_config
from engine.models.sampling import generate
from engine.nn.losses import CrossEntropyLoss
from engine.optim import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop, clip_grad_norm_, grad_norm
from engine.optim.schedule import Schedule, constant, cosine, linear, step_decay, warm_up
from engine.random import Generator, derived_seed
from engine.serialize import load, save
from engine.tensor import Tensor, no_grad
from engine.tracing import compile

VALIDATION_WINDOWS = 100
_EVALUATED_AT_ONCE = 50
_DROPOUT_STREAM = 2

OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": SGD,
    "adam": Adam,
    "adamw": AdamW,
    "rmsprop": RMSprop,
    "adagrad": Adagrad,
    "lion": Lion,
}
SCHEDULES: dict[str, Callable[[int], Schedule]] = {
    "constant": lambda steps: constant(),
    "cosine": cosine,
    "linear": linear,
    "step": lambda steps: step_decay(max(steps // 3, 1)),
}


class SpecError(ValueError):
    """A training specification that breaks a rule."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that a training needs to go on after ``step`` steps.

    ``weights`` is a model file of its own (``engine.models.sampling.load_model`` reads it), ``optimizer`` a
    safetensors file, ``state`` plain JSON.
    """

    step: int
    weights: bytes
    optimizer: bytes
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """The fields of a training specification that concern arithmetic; ``read_config`` reads ``model``.

    ``schedule`` shapes the learning rate over ``steps``, after ``warmup_steps`` in which it rises.
    ``clip_norm`` bounds the joint norm of the gradients (0: no bound). ``momentum`` is for ``sgd``.
    """

    model: Mapping[str, Any]
    steps: int
    batch: int = 32
    lr: float = 1e-3
    optimizer: str = "adamw"
    schedule: str = "constant"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    momentum: float = 0.0
    clip_norm: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 1), ("warmup_steps", 0), ("seed", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise SpecError(f"{name} is {value!r}; it must be an integer of at least {least}")
        for name in ("lr", "weight_decay", "momentum", "clip_norm"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0.0 <= value < float("inf"):
                raise SpecError(f"{name} is {value!r}; it must be a number of at least 0")
        for name, choices in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            value = getattr(self, name)
            if value not in choices:
                raise SpecError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> TrainingSpec:
        """Takes this class's fields from a job's specification, which holds others besides."""
        names = cls.__dataclass_fields__
        missing = [name for name in ("model", "steps") if name not in spec]
        if missing:
            raise SpecError(f"the specification lacks {', '.join(missing)}")
        return cls(**{name: value for name, value in spec.items() if name in names and value is not None})


class Training:
    """One training run: ``run_step`` until ``step`` equals ``spec.steps``.

    Raises ValueError (SpecError among them) for a specification or a text that cannot be trained on.
    """

    def __init__(self, spec: Mapping[str, Any], text: str) -> None:
        self.spec = TrainingSpec.read(spec)
        self.tokenizer = CharTokenizer.from_text(text)
        self._generator = Generator(self.spec.seed)
        self.model = build_model(read_config(self.spec.model, self.tokenizer.vocab_size), self._generator)
        self.step = 0
        length = self.model.config.seq_len
        train, held_out = split(self.tokenizer.encode(text), length)
        self._windows = Windows(train, length, self.spec.seed)
        self._held_out = Windows(held_out, length, self.spec.seed)
        self._evaluated = validation_windows(held_out, length, VALIDATION_WINDOWS)
        self._optimizer = _make_optimizer(self.spec, self.model.parameters())
        self._schedule = _make_schedule(self.spec)
        self._loss = CrossEntropyLoss()
        self._cursor = Generator()
        self._compiled_step = compile(self._step)
        self._compiled_loss = compile(self._held_out_loss)

    def run_step(self) -> dict[str, float]:
        """Trains on the next batch and returns this step's loss, lr and grad_norm.

        Loss and norm may be NaN or inf; what to do then is the caller's to decide.
        """
        self._windows.seek(self._cursor, self.step)
        self._optimizer.lr = self.spec.lr * self._schedule(self.step)
        self._generator.seed(derived_seed(self.spec.seed, _DROPOUT_STREAM, self.step))
        self._switch(training=True)
        loss, norm = self._compiled_step()
        self.step += 1
        return {"loss": loss.item(), "lr": self._optimizer.lr, "grad_norm": norm.item()}

    def _step(self) -> tuple[Tensor, Tensor]:
        """One update on the batch at the cursor; the loss and the norm of the gradients before it."""
        loss = self._batch_loss(self._windows.draw(self._cursor, self.spec.batch))
        loss.backward()
        parameters = self._optimizer.parameters
        norm = (
            clip_grad_norm_(parameters, self.spec.clip_norm) if self.spec.clip_norm else grad_norm(parameters)
        )
        self._optimizer.step()
        self._optimizer.zero_grad()
        return loss, norm

    def describe(self) -> str:
        """The plan of a training step: its kernels, and why they are as they are; empty without one."""
        plans = self._compiled_step.plans
        return plans[-1].describe() if plans else ""

    def _switch(self, training: bool) -> None:
        if self.model.training is not training:
            self.model.train(training)

    def _batch_loss(self, batch: Batch) -> Tensor:
        logits = self.model(batch.tokens)
        return self._loss(logits, batch.targets[:, batch.targets.shape[1] - logits.shape[1] :])

    def evaluate(self) -> float:
        """The mean loss over at most 100 fixed windows of the held-out text."""
        self._switch(training=False)
        total = 0.0
        with no_grad():
            for first in range(0, len(self._evaluated), _EVALUATED_AT_ONCE):
                starts = self._evaluated[first : first + _EVALUATED_AT_ONCE]
                total += self._compiled_loss(Tensor(starts, int64)).item() * len(starts)
        return total / len(self._evaluated)

    def _held_out_loss(self, starts: Tensor) -> Tensor:
        return self._batch_loss(self._held_out.at(starts))

    def sample(
        self,
        prompt: str,
        max_tokens: int,
        *,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> str:
        """Text that follows ``prompt``, from the model as it is now; training is not affected."""
        tokens = generate(
            self.model,
            self.tokenizer,
            prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
        return "".join(token.text for token in tokens)

    def save(self) -> Checkpoint:
        """The state after the steps so far."""
        return Checkpoint(
            self.step,
            save_model(self.model, self.tokenizer),
            save(self._optimizer.state_dict()),
            {"step": self.step, "optimizer": self._optimizer.settings(), "tokens": self._windows.count},
        )

    @classmethod
    def restore(cls, spec: Mapping[str, Any], text: str, checkpoint: Checkpoint) -> Training:
        """The training that ``checkpoint`` was taken from. ValueError where spec or text do not fit it."""
        training = cls(spec, text)
        model, tokenizer = load_model(checkpoint.weights)
        if tokenizer != training.tokenizer or checkpoint.state["tokens"] != training._windows.count:
            raise SpecError(
                "the checkpoint belongs to another text; restore it with the one it was trained on"
            )
        if model.config != training.model.config:
            raise SpecError(
                f"the checkpoint holds {model.config}; the specification asks for {training.model.config}"
            )
        training.model.load_state_dict(model.state_dict())
        tensors, _ = load(checkpoint.optimizer)
        training._optimizer.load_state_dict(tensors, checkpoint.state["optimizer"])
        training.step = int(checkpoint.state["step"])
        return training


def _make_optimizer(spec: TrainingSpec, parameters: list[Any]) -> Optimizer:
    options: dict[str, Any] = {"weight_decay": spec.weight_decay}
    if spec.optimizer == "sgd":
        options["momentum"] = spec.momentum
    return OPTIMIZERS[spec.optimizer](parameters, spec.lr, **options)


def _make_schedule(spec: TrainingSpec) -> Schedule:
    rising = spec.warmup_steps
    return warm_up(rising, SCHEDULES[spec.schedule](max(spec.steps - rising, 1)))


__all__ = ["OPTIMIZERS", "SCHEDULES", "Checkpoint", "SpecError", "Training", "TrainingSpec"]
