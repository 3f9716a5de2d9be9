"""Models made from their configurations, and models as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from engine.data.tokenizer import CharTokenizer, read_tokenizer
from engine.models.bigram import Bigram
from engine.models.config import ModelConfig, describe_config, read_config
from engine.models.mlp import MLP
from engine.nn.transformer import GPT
from engine.random import Generator
from engine.serialize import FormatError, load, save

LanguageModel: TypeAlias = GPT | Bigram | MLP
"""int tokens (batch, positions) to logits (batch, n, vocab_size) of what follows the last n positions."""

_BUILDERS: dict[str, Callable[[Any, Generator | None], LanguageModel]] = {
    "gpt": GPT.from_config,
    "bigram": Bigram,
    "mlp": MLP,
}


def build_model(config: ModelConfig, generator: Generator | None = None) -> LanguageModel:
    """The model of a configuration, its parameters drawn from ``generator``."""
    return _BUILDERS[config.name](config, generator)


def save_model(model: LanguageModel, tokenizer: CharTokenizer) -> bytes:
    """A safetensors file with the parameters, and configuration and tokenizer as its metadata."""
    metadata = {
        "config": json.dumps(describe_config(model.config), sort_keys=True),
        "tokenizer": json.dumps(tokenizer.describe(), sort_keys=True),
    }
    return save(model.state_dict(), metadata)


def load_model(weights: bytes) -> tuple[LanguageModel, CharTokenizer]:
    """The model and tokenizer of a file that ``save_model`` wrote, in evaluation mode.

    Raises FormatError where the file, its configuration or its tensors do not fit together.
    """
    tensors, metadata = load(weights)
    try:
        config = read_config(json.loads(metadata["config"]))
        tokenizer = read_tokenizer(json.loads(metadata["tokenizer"]))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise FormatError(
            f"the file holds no model: its config or tokenizer is unreadable ({error})"
        ) from None
    if tokenizer.vocab_size != config.vocab_size:
        raise FormatError(
            f"the tokenizer has {tokenizer.vocab_size} characters, the model {config.vocab_size}; "
            "they must be as many"
        )
    elements = sum(tensor.numel() for tensor in tensors.values())
    if elements != config.parameter_count():
        raise FormatError(f"the file holds {elements} parameters, its model has {config.parameter_count()}")
    model = build_model(config)
    try:
        model.load_state_dict(tensors)
    except (KeyError, ValueError) as error:
        raise FormatError(f"the file's tensors are not those of its model: {error}") from None
    return model.eval(), tokenizer
