"""The spec of a training job, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator

from engine.models.config import ConfigError, GPTConfig, ModelConfig, read_config
from service.errors import FieldError, InvalidFieldsError, invalid_field, show
from service.jobs.lanes import BATCH
from service.specs.base import Catalogue, Prepared, Strict, TextFacts, text_facts
from service.specs.limits import FLOPS_PER_S, LAYER_S, STEP_S, TOKEN_S, check_caps
from service.specs.prompts import check_prompt

TEXT_LIMIT = 2 * 2**20
EVALUATION_WINDOWS = 100
EXAMPLE = {
    "model": {"name": "gpt", "embed_dim": 64, "num_heads": 4, "ff_dim": 128, "num_layers": 2, "seq_len": 32},
    "corpus": {"name": "shakespeare"},
    "steps": 2000,
    "publish_as": "bard",
}
ALIAS = r"^[a-z0-9][a-z0-9.-]{0,62}$"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# The named corpora, which the API never loads.
NAMED = {
    "shakespeare": TextFacts("", 4_784_692, f"\n !$&',-.:;?{LETTERS}"),
    "tinyshakespeare": TextFacts("", 1_115_394, f"\n !$&',-.3:;?{LETTERS}"),
}


class GPT(Strict):
    """A decoder-only transformer."""

    name: Literal["gpt"]
    embed_dim: int = Field(128, ge=1, le=8192, description="width of the residual stream")
    num_heads: int = Field(4, ge=1, le=256, description="attention heads; must divide embed_dim")
    ff_dim: int = Field(256, ge=1, le=32768, description="width of the feed-forward layer")
    num_layers: int = Field(4, ge=1, le=128, description="blocks")
    seq_len: int = Field(32, ge=1, le=8192, description="context in tokens")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped while training")
    tied: bool = Field(False, description="whether the output layer uses the token embedding")
    positions: Literal["learned", "rotary"] = "learned"
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    feed_forward: Literal["gelu", "swiglu"] = "gelu"


class Bigram(Strict):
    """A table of the next token's logits."""

    name: Literal["bigram"]
    seq_len: int = Field(32, ge=1, le=8192, description="training window in tokens")


class MLP(Strict):
    """Embeddings of the last tokens, one tanh layer, an output layer."""

    name: Literal["mlp"]
    embed_dim: int = Field(10, ge=1, le=8192, description="width of an embedding")
    hidden_dim: int = Field(100, ge=1, le=32768, description="width of the hidden layer")
    seq_len: int = Field(3, ge=1, le=1024, description="context in tokens")


Model = Annotated[GPT | Bigram | MLP, Field(discriminator="name")]


class Corpus(Strict):
    """Where the text comes from: exactly one of the three."""

    name: Literal["shakespeare", "tinyshakespeare"] | None = Field(None, description="a corpus known here")
    file: str | None = Field(None, max_length=64, description="id of an uploaded file")
    text: str | None = Field(None, max_length=TEXT_LIMIT, description="the text itself, at most 2 MiB")

    @model_validator(mode="after")
    def _exactly_one(self) -> Corpus:
        given = [field for field in ("name", "file", "text") if getattr(self, field) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of name, file and text must be given, not {len(given)}")
        return self


class Train(Strict):
    """Trains a model on a text."""

    model: Model
    corpus: Corpus
    steps: int = Field(1000, ge=1, le=10_000_000, description="optimiser steps")
    batch: int = Field(32, ge=1, le=4096, description="windows a step")
    lr: float = Field(1e-3, gt=0, le=100, description="learning rate at its highest")
    optimizer: Literal["adamw", "adam", "sgd", "rmsprop", "adagrad", "lion"] = "adamw"
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum, for sgd")
    weight_decay: float = Field(0.0, ge=0, le=10, description="decay of the weights")
    clip_norm: float | None = Field(None, gt=0, le=1e6, description="largest norm of the gradient")
    schedule: Literal["constant", "cosine", "linear", "step"] = Field(
        "constant", description="course of the learning rate"
    )
    warmup_steps: int = Field(0, ge=0, le=1_000_000, description="steps in which the rate rises from 0")
    seed: int = Field(0, ge=0, le=2**53, description="start of every random choice")
    eval_every: int = Field(100, ge=0, le=10_000_000, description="steps between evaluations; 0: at the end")
    sample_every: int = Field(200, ge=0, le=10_000_000, description="steps between samples; 0: at the end")
    sample_tokens: int = Field(200, ge=1, le=5000, description="length of a sample")
    prompts: list[Annotated[str, Field(min_length=1, max_length=1000)]] = Field(
        ["\n"], max_length=8, description="beginnings of the samples"
    )
    checkpoint_every_s: float = Field(20.0, gt=0, le=3600, description="seconds between checkpoints")
    publish_as: str | None = Field(None, pattern=ALIAS, description="alias of the model that is left behind")


@dataclass(frozen=True)
class _Source:
    """The corpus as the worker finds it, and its size."""

    corpus: dict[str, str]
    facts: TextFacts
    param: str
    text: str | None = None


async def _find_text(corpus: Corpus, catalogue: Catalogue) -> _Source:
    if corpus.name is not None:
        return _Source({"name": corpus.name}, NAMED[corpus.name], "spec.corpus.name")
    if corpus.file is not None:
        facts = await catalogue.file(corpus.file)
        if facts is None:
            raise invalid_field("spec.corpus.file", corpus.file, "must be the id of an uploaded file")
        return _Source({"file": corpus.file, "blob": facts.blob}, facts, "spec.corpus.file")
    text = corpus.text or ""
    size = len(text.encode())
    if size > TEXT_LIMIT:
        raise invalid_field("spec.corpus.text", f"{size} bytes", f"must have at most {TEXT_LIMIT} bytes")
    if "\0" in text:
        rule = f"must be text, but holds a zero character at {text.index(chr(0))}"
        raise invalid_field("spec.corpus.text", "binary", rule)
    facts = text_facts(text)
    return _Source({"blob": facts.blob}, facts, "spec.corpus.text", text)


def _check_length(seq_len: int, source: _Source) -> None:
    characters = source.facts.characters
    if characters == 0:
        raise invalid_field(source.param, "", "must not be empty")
    if characters <= seq_len:
        rule = f"must be shorter than the text, which has {characters} characters"
        raise invalid_field("spec.model.seq_len", seq_len, rule)
    if characters < 2 * (seq_len + 1):
        rule = f"needs {2 * (seq_len + 1)} characters, half to train on and half held out, not {characters}"
        raise invalid_field("spec.model.seq_len", seq_len, rule)


def _check_fields(spec: Train, facts: TextFacts) -> None:
    """InvalidFieldsError for prompts that the model can't read and for settings that would have no effect."""
    errors = [
        error
        for i, prompt in enumerate(spec.prompts)
        for error in check_prompt(f"spec.prompts.{i}", prompt, facts.alphabet)
    ]
    if spec.momentum and spec.optimizer != "sgd":
        rule = f"must be 0 with optimizer {spec.optimizer}: only sgd has a momentum"
        errors.append(FieldError("spec.momentum", show(spec.momentum), rule))
    if errors:
        raise InvalidFieldsError(errors)


def _config(model: Strict, vocabulary: int) -> ModelConfig:
    """The model's configuration. InvalidFieldsError where its fields don't fit each other."""
    try:
        return read_config(model.model_dump(), vocab_size=vocabulary)
    except ConfigError as error:
        if error.field in type(model).model_fields:
            raise invalid_field(f"spec.model.{error.field}", error.value, error.rule) from error
        raise invalid_field("spec.model", model.model_dump(), str(error)) from error


def _memory(config: ModelConfig, batch: int) -> int:
    """Bytes of parameters, gradients, two moments and what the backward pass keeps of the forward one."""
    rows = batch * config.seq_len
    per_row = 3 * config.vocab_size
    if isinstance(config, GPTConfig):
        blocks = 12 * config.embed_dim + 3 * config.ff_dim + 3 * config.num_heads * config.seq_len
        per_row += config.num_layers * blocks
    return 4 * (4 * config.parameter_count() + rows * per_row)


def _seconds(config: ModelConfig, spec: Train) -> float:
    """About how long the steps, evaluations and samples take on a small machine."""
    layers = config.num_layers if isinstance(config, GPTConfig) else 0
    steps = spec.steps * (STEP_S + layers * LAYER_S + config.step_flops(spec.batch) / FLOPS_PER_S)
    evaluation = config.step_flops(EVALUATION_WINDOWS) / 3 / FLOPS_PER_S  # only forward
    sample = len(spec.prompts) * spec.sample_tokens * TOKEN_S
    return steps + _times(spec, spec.eval_every) * evaluation + _times(spec, spec.sample_every) * sample


def _times(spec: Train, every: int) -> int:
    """How often something is due: before the first step, every ``every`` steps, and at the end."""
    return 1 + -(-spec.steps // every) if every else 1


async def prepare(spec: Train, catalogue: Catalogue) -> Prepared:
    """Finds the text, checks the model against it, prices the job. InvalidFieldsError where it can't run."""
    source = await _find_text(spec.corpus, catalogue)
    _check_length(spec.model.seq_len, source)
    _check_fields(spec, source.facts)
    config = _config(spec.model, source.facts.vocabulary)
    flops = config.step_flops(spec.batch)
    estimate = {
        "parameters": config.parameter_count(),
        "step_flops": flops,
        "flops": flops * spec.steps,
        "memory_bytes": _memory(config, spec.batch),
        "seconds": round(_seconds(config, spec), 3),
    }
    check_caps(estimate)
    blobs = {} if source.text is None else {source.facts.blob: source.text.encode()}
    return Prepared({**spec.model_dump(), "corpus": source.corpus}, estimate, BATCH, blobs)
